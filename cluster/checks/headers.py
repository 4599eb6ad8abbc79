"""Messages whose records have headers that contradict journals or other records.

Brokers set these fields in 4.9.8 as follows. A record has the sysFlag of its send; the bits of transactions are those
of its topic (TransactionalMessageBridge, EndTransactionProcessor). The store host is the address of a member of the
broker name; a delayed message keeps that of its first record (ScheduleMessageService). The reconsume times are 0 until a
consumer sends the message back (SendMessageProcessor). A committed message has the commit log offset of its half
message; that field of all other records is 0.
"""

import collections
import math
from collections.abc import Collection, Iterator, Mapping

from rmqlab.cluster.checks.copies import Copy, Header, Stores, brokers_of
from rmqlab.cluster.checks.events import Queue, Send
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.wrongrecords import count_wrong
from rmqlab.remoting.message import STORE_HOST_IPV6, TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_PREPARED
from rmqlab.remoting.names import HALF_TOPIC, RETRY_PREFIX
from rmqlab.verdict.catalogue import HEADER_DISAGREEMENT
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.findings import Finding, unknown
from rmqlab.verdict.headers import (
    HOST_KINDS,
    SENT_BITS,
    UNCOMMITTED_TOPICS,
    broker_hosts,
    has_all_deliveries,
    why_unknown,
)

_Faults = dict[str, list[tuple[Copy, str]]]


def judge(history: History, stores: Stores, conditions: Conditions) -> Iterator[Finding]:
    """Yield the finding of `catalogue.HEADER_DISAGREEMENT`."""
    metric, unit = HEADER_DISAGREEMENT.name, HEADER_DISAGREEMENT.unit
    if why := why_unknown(has_sends=bool(history.sends), has_stores=bool(stores.nodes)):
        yield unknown(metric, unit, why)
        return
    found = _find(history, stores, conditions)
    yield count_wrong(
        HEADER_DISAGREEMENT,
        "the header of its record is not what its broker stored",
        {message_id: [(copy, f" has {fault}") for copy, fault in faults] for message_id, faults in found.items()},
        history,
        stores,
        lambda message_id: brokers_of([copy for copy, _ in found[message_id]], history),
    )


def _find(history: History, stores: Stores, conditions: Conditions) -> _Faults:
    """Return the faults of each such message."""
    sent = collections.Counter(message_id for send in history.sends for message_id in send.ids)
    removed_at = min((entry.at_millis for entry in history.of_kind(*REMOVING_KINDS)), default=math.inf)
    named = (entry.fields for entry in history.of_kind(*HOST_KINDS))
    hosts = broker_hosts(named, conditions, history.roles.renamed)
    delivered, is_whole = _handed_back(history), has_all_deliveries(conditions)
    found: _Faults = {}
    for send in history.sends:
        if len(send.ids) != 1 or sent[send.ids[0]] != 1:
            continue
        copies = stores.by_message.get(send.ids[0], ())
        halves: Collection[tuple[str, int]] | None = None
        for copy in copies:
            if copy.header is not None and copy.stored_at < removed_at:
                if not delivered and _is_plain(copy, copy.header, send, hosts.get(copy.queue.broker, ())):
                    continue
                if halves is None:
                    halves = {(one.node, one.log_offset) for one in copies if one.queue.topic == HALF_TOPIC}
                times = delivered.get((send.ids[0], copy.queue, copy.offset))
                faults = [
                    *_faults_of_send(copy, copy.header, send, hosts.get(copy.queue.broker, ())),
                    *_faults_of_commit(copy, copy.header, send, stores, halves),
                    *_faults_of_delivery(copy.header, times, is_whole=is_whole),
                ]
                if faults:
                    found.setdefault(send.ids[0], []).append((copy, ", ".join(faults)))
    return found


def _is_plain(copy: Copy, header: Header, send: Send, hosts: Collection[str]) -> bool:
    """Return True for a record like almost all others.

    It has no fault of a send or commit.
    """
    is_zero = not (header.sys_flag or header.reconsume_times or copy.prepared_at or send.sys_flag)
    return is_zero and (not hosts or header.store_host in hosts)


def _handed_back(history: History) -> Mapping[tuple[str, Queue, int], int]:
    """Return the lowest reconsume times of each delivery from a retry topic.

    By message, queue and queue offset. A delivery without recorded times shows nothing.
    A consumer itself adds to them if it tries the message again.
    """
    least: dict[tuple[str, Queue, int], int] = {}
    for one in history.deliveries:
        if one.queue.topic.startswith(RETRY_PREFIX) and one.reconsume_times is not None:
            key = (one.message_id, one.queue, one.offset)
            least[key] = min(one.reconsume_times, least.get(key, one.reconsume_times))
    return least


def _faults_of_send(copy: Copy, header: Header, send: Send, hosts: Collection[str]) -> Iterator[str]:
    is_half = copy.queue.topic in UNCOMMITTED_TOPICS
    if _is_kept(copy, send) or is_half:
        if header.reconsume_times:
            yield f"reconsume times {header.reconsume_times}"
        if send.sys_flag is not None:
            is_committed = send.sys_flag & TRANSACTION_MASK == TRANSACTION_PREPARED and not is_half
            expected = send.sys_flag & SENT_BITS | (TRANSACTION_COMMIT if is_committed else 0)
            if header.sys_flag & (SENT_BITS | TRANSACTION_MASK) != expected:
                yield f"sysFlag {header.sys_flag}"
    if hosts and not header.sys_flag & STORE_HOST_IPV6 and header.store_host not in hosts:
        yield f"store host {header.store_host}"


def _is_kept(copy: Copy, send: Send) -> bool:
    """Return True for a record of what was sent."""
    return copy.content_crc is not None and not _is_elsewhere(copy, send)


def _is_elsewhere(copy: Copy, send: Send) -> bool:
    """Return True if a client has sent the message to another topic, too."""
    return copy.content_crc is not None and (copy.real_topic or copy.queue.topic) != send.topic


def _faults_of_commit(
    copy: Copy, header: Header, send: Send, stores: Stores, halves: Collection[tuple[str, int]]
) -> Iterator[str]:
    if _is_elsewhere(copy, send):
        return
    is_committed = copy.content_crc is not None and header.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
    if copy.prepared_at if not is_committed else not _is_half_at(copy, stores, halves):
        yield f"prepared transaction offset {copy.prepared_at}"


def _is_half_at(copy: Copy, stores: Stores, halves: Collection[tuple[str, int]]) -> bool:
    """Return True if the half message of a committed one is there, or may have been."""
    store, at = stores.nodes[copy.node], copy.prepared_at
    return (copy.node, at) in halves or 0 <= at < store.begin or store.is_damaged_at(at)


def _faults_of_delivery(header: Header, delivered: int | None, *, is_whole: bool) -> Iterator[str]:
    """Yield a fault of a record that was delivered with other reconsume times.

    Fewer in the record than in each delivery prove nothing if the first delivery may be missing.
    """
    times = header.reconsume_times
    if delivered is not None and (times > delivered or (times < delivered and is_whole)):
        yield f"reconsume times {times}, and was delivered with {delivered}"
