"""Messages whose records have another content than their producer sent.

Records that need not have it carry no checksum (`rmqlab.remoting.contentcrc.keeps_content`).
"""

import collections
from collections.abc import Iterator

from rmqlab.cluster.checks.copies import Copy, Stores
from rmqlab.cluster.checks.events import Send
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.wrongrecords import count_wrong
from rmqlab.remoting.names import HALF_TOPIC
from rmqlab.verdict.catalogue import CONTENT_DISAGREEMENT
from rmqlab.verdict.findings import Finding, unknown, without_checksum


def judge(history: History, stores: Stores) -> Iterator[Finding]:
    """Yield the finding of `catalogue.CONTENT_DISAGREEMENT`."""
    metric, unit = CONTENT_DISAGREEMENT.name, CONTENT_DISAGREEMENT.unit
    if not stores.nodes:
        yield unknown(metric, unit, "no store was given")
        return
    if all(send.crc is None for send in history.sends):
        yield unknown(metric, unit, "no send of the journal has a checksum")
        return
    found = count_wrong(
        CONTENT_DISAGREEMENT,
        "body, flag, keys or tags are not those that were sent",
        {message_id: [(copy, "") for copy in altered] for message_id, altered in _find(history, stores)},
        history,
        stores,
        lambda message_id: stores.brokers_of(message_id, history),
    )
    unchecked = sum(send.crc is None and len(send.ids) == 1 for send in history.sends)
    yield found.as_floor(without_checksum(unchecked)) if unchecked else found


def _find(history: History, stores: Stores) -> Iterator[tuple[str, list[Copy]]]:
    """Yield each such message, with its altered copies."""
    sent = collections.Counter(message_id for send in history.sends for message_id in send.ids)
    for send in history.sends:
        if send.crc is None or len(send.ids) != 1 or sent[send.ids[0]] > 1:
            continue
        copies = stores.by_message.get(send.ids[0], ())
        altered = [copy for copy in copies if copy.content_crc is not None and copy.content_crc != send.crc]
        if altered and not _is_stored_again(send, stores):
            yield send.ids[0], altered


def _is_stored_again(send: Send, stores: Stores) -> bool:
    """True for a half message that its broker may have stored again.

    The committed message then has flag 0.
    """
    if send.place is not None and send.place[0].topic != HALF_TOPIC:
        return False
    halves = {place for place in stores.places(send.ids[0]) if place[0].topic == HALF_TOPIC}
    return halves != (set() if send.place is None else {send.place})
