"""Delayed messages that a broker stored in their own topic before they were due.

The entry of a delayed message has its time of delivery instead of a tags code: the store time of the record and the
delay of its level (4.9.8: ScheduleMessageService.computeDeliverTimestamp). An entry with an earlier time does not
excuse its broker: the record and the settings say when the message is due. A broker delivers when its clock has reached
that time, so the record under the message's own topic has the same store time or a later one, without rounding. A
message with failed attempts may have been delayed several times, and a log that begins later may lack the first time.
"""

import collections
import math
from collections.abc import Iterator, Sequence

import attrs

from rmqlab.cluster.checks.copies import Copy, NodeStore, Stores
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.wrongrecords import count_wrong
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.store.offline.delaylevels import delay_millis
from rmqlab.verdict.catalogue import DELIVERED_EARLY
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.clocksteps import faulted_clocks
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.duetimes import at_right_clocks, why_unknown, wrong_clocks
from rmqlab.verdict.findings import Finding, unknown


@attrs.frozen
class EarlyDelivery:
    """The first record of a message under its own topic, and when it was due."""

    copy: Copy
    due_at: int


def judge(history: History, stores: Stores, conditions: Conditions) -> Iterator[Finding]:
    """Yield the finding of `catalogue.DELIVERED_EARLY`."""
    metric, unit = DELIVERED_EARLY.name, DELIVERED_EARLY.unit
    if why := why_unknown(conditions, has_sends=bool(history.sends), has_stores=bool(stores.nodes)):
        yield unknown(metric, unit, why)
        return
    removed_at = min((entry.at_millis for entry in history.of_kind(*REMOVING_KINDS)), default=math.inf)
    found: dict[str, list[EarlyDelivery]] = collections.defaultdict(list)
    for store in stores.nodes.values():
        for early in _find(store, delay_millis(stores.settings.get(store.node)), removed_at):
            found[early.copy.message_id].append(early)
    if found:
        sent = collections.Counter(message_id for send in history.sends for message_id in send.ids)
        failed = {failure.message_id for failure in history.failures}
        once = {send.ids[0] for send in history.sends if len(send.ids) == 1 and sent[send.ids[0]] == 1} - failed
        found = {message_id: early for message_id, early in found.items() if message_id in once}
    judged = count_wrong(
        DELIVERED_EARLY,
        "stored in its own topic before it was due",
        {
            message_id: [(one.copy, f", {one.due_at - one.copy.stored_at} ms early") for one in early]
            for message_id, early in found.items()
        },
        history,
        stores,
        lambda message_id: frozenset(one.copy.queue.broker for one in found[message_id]),
    )
    faults = ((entry.at_millis, entry.fields) for entry in history.of_kind("fault_applied"))
    wrong = wrong_clocks(conditions, faulted_clocks(faults, history.roles), history.roles)
    yield at_right_clocks(judged, wrong, [store.broker for store in stores.nodes.values() if _has_delayed(store)])


def _has_delayed(store: NodeStore) -> bool:
    return any(copy.queue.topic == SCHEDULE_TOPIC for copy in store.copies)


def _find(store: NodeStore, delays: Sequence[int], removed_at: float) -> Iterator[EarlyDelivery]:
    """Yield the early deliveries of one log.

    `delays` are those of the levels, in ms; empty if they are unknown.
    """
    due_times = {
        (entry.log_offset, entry.queue_id, entry.offset): entry.tags_code
        for entry in store.entries
        if entry.topic == SCHEDULE_TOPIC
    }
    if not due_times:
        return
    due: dict[tuple[str, str], int] = {}
    delayed: dict[tuple[str, str], int] = {}  # the place of its first record: an application may delay what it received
    for copy in store.copies:
        if copy.queue.topic == SCHEDULE_TOPIC and copy.content_crc is not None and copy.tags_code is None:
            at = due_times.get((copy.log_offset, copy.queue.queue_id, copy.offset))
            if at is not None:
                key = (copy.message_id, copy.real_topic)
                at = max(at, _due_by_level(copy, delays))
                due[key] = min(at, due.get(key, at))
                delayed[key] = min(copy.log_offset, delayed.get(key, copy.log_offset))
    first: dict[tuple[str, str], Copy] = {}
    for copy in store.copies:
        key = (copy.message_id, copy.queue.topic)
        is_delivery = key in due and copy.log_offset > delayed[key]
        if is_delivery and (key not in first or copy.stored_at < first[key].stored_at):
            first[key] = copy
    for key, copy in first.items():
        if copy.stored_at < min(due[key], removed_at):
            yield EarlyDelivery(copy, due[key])


def _due_by_level(copy: Copy, delays: Sequence[int]) -> int:
    """Return when a delayed record is due by its level; 0 if that is unknown."""
    queue_id = copy.queue.queue_id
    return copy.stored_at + delays[queue_id] if 0 <= queue_id < len(delays) else 0
