"""Order of messages in each queue, stored and delivered.

`order.stored` counts messages behind one whose send began only after theirs was acknowledged, in the queue of the
acknowledgement, in any log. Sends that overlap may be stored in any order, and so may sends that were not acknowledged.
Delayed and half messages enter their queue later. `order.delivered GROUP` counts first deliveries after that of a later
message of the queue. Retried messages and repeated deliveries do not count.
"""

import collections
import math
from collections.abc import Iterable, Iterator, Sequence

import attrs

from rmqlab.cluster.checks.copies import Copy, Stores
from rmqlab.cluster.checks.deletions import AfterDeletions
from rmqlab.cluster.checks.events import Delivery, Queue, Send
from rmqlab.cluster.checks.history import History
from rmqlab.remoting.names import HALF_TOPIC, SCHEDULE_TOPIC
from rmqlab.verdict.findings import Evidence, Finding, count_of, unknown

_MESSAGES = "messages"


def judge(history: History, stores: Stores) -> Iterator[Finding]:
    """Yield the findings of `catalogue.ORDER`."""
    yield _judge_stored(history, stores)
    by_group: dict[str, list[Delivery]] = collections.defaultdict(list)
    for delivery in history.deliveries:
        by_group[delivery.group].append(delivery)
    after = AfterDeletions.of(history)
    for group, deliveries in by_group.items():
        found = find_late_deliveries(one for one in deliveries if after.is_of_queue(one))
        yield count_of(
            f"order.delivered {group}",
            _MESSAGES,
            found,
            lambda late: _describe_delivery(late, history),
            text=f"of {len(deliveries)} deliveries",
            message_ids=[late.delivery.message_id for late in found],
            brokers_of=lambda late: frozenset({late.delivery.queue.broker}),
        )


@attrs.frozen
class Placed:
    """A send and its place in a queue.

    `ended_at` is infinite if it was not acknowledged.
    """

    message_id: str
    began_at: float
    ended_at: float
    offset: int


@attrs.frozen
class Inversion:
    """A message stored behind a message that was sent later."""

    placed: Placed
    ahead: Placed


def find_inversions(placed: Iterable[Placed]) -> list[Inversion]:
    """Return the messages stored behind a later message of their queue.

    A message is later if its send began after the end of the other's send.
    """
    found = []
    latest: Placed | None = None
    for one in sorted(placed, key=lambda one: one.offset):
        if latest is not None and latest.began_at > one.ended_at:
            found.append(Inversion(one, latest))
        if latest is None or one.began_at > latest.began_at:
            latest = one
    return found


def _judge_stored(history: History, stores: Stores) -> Finding:
    if not any(send.is_acknowledged for send in history.sends):
        return unknown("order.stored", _MESSAGES, "no send was acknowledged")
    if not stores.nodes:
        return unknown("order.stored", _MESSAGES, "no store was given")
    sends = {message_id: send for send in history.sends for message_id in send.ids}
    found: dict[str, tuple[Queue, Inversion]] = {}
    brokers: dict[str, set[str]] = collections.defaultdict(set)
    for store in stores.nodes.values():
        deferred = _deferred(store.copies)
        for queue, copies in _by_queue(store.copies).items():
            kept = [copy for copy in copies if _is_in_last_queue(copy, sends.get(copy.message_id), history)]
            for inversion in find_inversions(_placed(kept, sends, deferred)):
                found.setdefault(inversion.placed.message_id, (queue, inversion))
                brokers[inversion.placed.message_id].add(queue.broker)
    return count_of(
        "order.stored",
        _MESSAGES,
        list(found.values()),
        lambda named: _describe_inversion(*named, history),
        message_ids=found,
        brokers_of=lambda named: frozenset(brokers[named[1].placed.message_id]),
    )


def _is_in_last_queue(copy: Copy, send: Send | None, history: History) -> bool:
    """False for a record that may be older than the deletion of its topic."""
    return send is None or not history.is_deleted(copy.queue, send.began_at)


def _by_queue(copies: Iterable[Copy]) -> dict[Queue, list[Copy]]:
    queues: dict[Queue, list[Copy]] = collections.defaultdict(list)
    for copy in copies:
        queues[copy.queue].append(copy)
    return queues


def _deferred(copies: Iterable[Copy]) -> set[str]:
    """Return the messages that were first stored under a system topic.

    Their acknowledged place is in that topic.
    """
    first: dict[str, str] = {}
    for copy in copies:
        first.setdefault(copy.message_id, copy.queue.topic)
    return {message_id for message_id, topic in first.items() if topic in (SCHEDULE_TOPIC, HALF_TOPIC)}


def _placed(copies: Sequence[Copy], sends: dict[str, Send], deferred: set[str]) -> Iterator[Placed]:
    """Yield each message once: at its acknowledged place, else at its first one."""
    seen: dict[str, Placed] = {}
    for copy in copies:
        send = sends.get(copy.message_id)
        if send is None or send.topic != copy.queue.topic:
            continue
        is_deferred = send.held_in is not None or copy.message_id in deferred
        is_here = send.is_acknowledged and send.queue == copy.queue and not is_deferred
        if copy.message_id not in seen or (is_here and copy.offset == send.offset):
            ended_at = send.ended_at if is_here else math.inf
            seen[copy.message_id] = Placed(copy.message_id, send.began_at, ended_at, copy.offset)
    return iter(seen.values())


def _describe_inversion(queue: Queue, inversion: Inversion, history: History) -> Evidence:
    late, ahead = inversion.placed, inversion.ahead
    return Evidence(
        text=f"{queue}: {late.message_id} at offset {late.offset} is behind {ahead.message_id} at {ahead.offset}, sent"
        f" {ahead.began_at - late.ended_at:.0f} ms after it had been acknowledged",
        at_millis=int(ahead.began_at),
        message_ids=(late.message_id, ahead.message_id),
        entries=history.around(int(ahead.began_at), late.message_id, ahead.message_id),
    )


@attrs.frozen
class LateDelivery:
    """A first delivery after that of a later message."""

    delivery: Delivery
    after: Delivery


def find_late_deliveries(deliveries: Iterable[Delivery]) -> list[LateDelivery]:
    """Yield the late deliveries of one group. `deliveries` are in order of time."""
    farthest: dict[Queue, Delivery] = {}
    seen: set[tuple[Queue, int]] = set()
    found = []
    for delivery in deliveries:
        place = (delivery.queue, delivery.offset)
        if delivery.reconsume_times or place in seen:
            continue
        seen.add(place)
        before = farthest.get(delivery.queue)
        if before is not None and before.offset > delivery.offset:
            found.append(LateDelivery(delivery, before))
        else:
            farthest[delivery.queue] = delivery
    return found


def _describe_delivery(late: LateDelivery, history: History) -> Evidence:
    delivery, after = late.delivery, late.after
    return Evidence(
        text=f"{delivery.queue}: {delivery.node} received offset {delivery.offset}"
        f" after {after.node} had received {after.offset}",
        at_millis=after.at,
        until_millis=delivery.at,
        message_ids=(delivery.message_id, after.message_id),
        entries=history.around(delivery.at, delivery.message_id, after.message_id),
    )
