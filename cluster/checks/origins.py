"""Messages whose records have another time or address of their producer.

A producer creates a message during its send, and brokers keep the time and the address of its connection. Both are
compared for records that have the content that was sent (`rmqlab.remoting.contentcrc.keeps_content`), and were stored
before a broker removed records: an operator may send those again, from elsewhere and later, to any broker.
"""

import collections
import math
from collections.abc import Iterator

from rmqlab.cluster.checks.copies import Copy, Stores, brokers_of
from rmqlab.cluster.checks.events import Send
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.wrongrecords import count_wrong
from rmqlab.verdict.catalogue import ORIGIN_DISAGREEMENT
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.findings import Finding, unknown
from rmqlab.verdict.origins import CLOCK_SLACK, why_unknown


def judge(history: History, stores: Stores, conditions: Conditions) -> Iterator[Finding]:
    """Yield the finding of `catalogue.ORIGIN_DISAGREEMENT`."""
    metric, unit = ORIGIN_DISAGREEMENT.name, ORIGIN_DISAGREEMENT.unit
    if why := why_unknown(conditions, has_sends=bool(history.sends), has_stores=bool(stores.nodes)):
        yield unknown(metric, unit, why)
        return
    altered = dict(_find(history, stores, conditions))
    yield count_wrong(
        ORIGIN_DISAGREEMENT,
        "time or address of its producer are not those of the send",
        {
            message_id: [(copy, f" has {copy.born_host} at {copy.born_at}") for copy in copies]
            for message_id, copies in altered.items()
        },
        history,
        stores,
        lambda message_id: brokers_of(altered[message_id], history),
    )


def _find(history: History, stores: Stores, conditions: Conditions) -> Iterator[tuple[str, list[Copy]]]:
    """Yield each such message, with its altered copies."""
    sent = collections.Counter(message_id for send in history.sends for message_id in send.ids)
    removed_at = min((entry.at_millis for entry in history.of_kind(*REMOVING_KINDS)), default=math.inf)
    for send in history.sends:
        if len(send.ids) == 1 and sent[send.ids[0]] == 1:
            copies = stores.by_message.get(send.ids[0], ())
            judged = [copy for copy in copies if copy.content_crc is not None and copy.stored_at < removed_at]
            altered = [copy for copy in judged if _is_altered(copy, send, conditions)]
            if altered:
                yield send.ids[0], altered


def _is_altered(copy: Copy, send: Send, conditions: Conditions) -> bool:
    if copy.born_at is None:
        return False
    hosts = conditions.client_hosts.get(send.node)
    is_in_time = send.began_at - CLOCK_SLACK <= copy.born_at <= send.ended_at + CLOCK_SLACK
    return not is_in_time or (hosts is not None and copy.born_host not in hosts)
