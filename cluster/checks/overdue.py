"""Delayed and half messages that a master holds back beyond their time.

The rules are those of `rmqlab.verdict.overdue`.
"""

import collections
from collections.abc import Iterable, Iterator

from rmqlab.cluster.checks.copies import Copy, NodeStore, Stores
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.wrongrecords import count_wrong
from rmqlab.remoting.names import HALF_TOPIC, SCHEDULE_TOPIC
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.store.log.readableend import EVERYTHING, readable_end
from rmqlab.verdict.catalogue import OVERDUE
from rmqlab.verdict.clocksteps import faulted_clocks
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.duetimes import wrong_clocks
from rmqlab.verdict.findings import Finding, unknown
from rmqlab.verdict.overdue import (
    HALF_ENDS,
    HOLDING_TOPICS,
    SERVICE_KINDS,
    WHAT,
    Service,
    at_known_brokers,
    last_services,
    op_crc,
    progress_of,
    why_unknown,
)
from rmqlab.verdict.roles import CONTESTED


def judge(history: History, stores: Stores, conditions: Conditions) -> Iterator[Finding]:
    """Yield the finding of `catalogue.OVERDUE`."""
    if not stores.nodes:
        yield unknown(OVERDUE.name, OVERDUE.unit, "no store was given")
        return
    faults = ((entry.at_millis, entry.fields) for entry in history.of_kind("fault_applied"))
    unreliable = {
        **wrong_clocks(conditions, faulted_clocks(faults, history.roles), history.roles),
        **dict.fromkeys(history.roles.contested, CONTESTED),
    }
    found: dict[str, list[tuple[Copy, str]]] = collections.defaultdict(list)
    doubts: dict[str, str] = {}
    for service in _services(history, stores, conditions):
        store = stores.nodes[service.node]
        held = [copy for copy in _waiting(store) if not _is_over(copy, store, history, stores)]
        topics = {copy.queue.topic for copy in held}
        settings = stores.settings.get(store.node)
        why = unreliable.get(store.broker) or why_unknown(topics, settings, store.unread_queues, conditions)
        if held and why:
            doubts[store.broker] = why
        for copy, words in _overdue(held, store, service, stores):
            found[copy.message_id].append((copy, words))
    judged = count_wrong(
        OVERDUE,
        WHAT,
        dict(sorted(found.items(), key=lambda one: (min(copy.stored_at for copy, _ in one[1]), one[0]))),
        history,
        stores,
        lambda message_id: frozenset(copy.queue.broker for copy, _ in found[message_id]),
    )
    missing = stores.missing_of(judged.brokers, history) if found else []
    yield at_known_brokers(judged, doubts, missing, stores.unread_brokers(history))


def _services(history: History, stores: Stores, conditions: Conditions) -> Iterator[Service]:
    """Yield those of masters whose store was read."""
    events = ((entry.at_millis, entry.node, entry.kind) for entry in history.of_kind(*SERVICE_KINDS))
    for service in last_services(events, history.roles, history.ended_at, conditions.slack, stores.settings):
        if service.node in stores.nodes:
            yield service


def _waiting(store: NodeStore) -> Iterator[Copy]:
    """Yield the records of messages that wait, or have waited."""
    end = readable_end(store.root) if store.root else EVERYTHING
    for copy in store.copies:
        if copy.queue.topic in HOLDING_TOPICS and copy.real_topic and copy.log_offset < end:
            yield copy


def _is_over(copy: Copy, store: NodeStore, history: History, stores: Stores) -> bool:
    """Return True for a message that is no longer held back.

    A delayed message was delivered, or a half message has an outcome.
    """
    is_half = copy.queue.topic == HALF_TOPIC
    records = stores.by_message[copy.message_id]
    return (
        any(_ends(one, copy, is_half=is_half) for one in records)
        or (is_half and any(_has_op(one, store) for one in records))
        or any(_receives(delivery, copy) for delivery in history.by_message.get(copy.message_id, ()))
    )


def _ends(later: Copy, copy: Copy, *, is_half: bool) -> bool:
    topic = later.queue.topic
    is_behind = later.queue.broker == copy.queue.broker and later.log_offset > copy.log_offset
    return is_behind and (topic == copy.real_topic or (is_half and topic in HALF_ENDS))


def _has_op(copy: Copy, store: NodeStore) -> bool:
    """Return True for a half message that was committed or rolled back."""
    return copy.node == store.node and copy.queue.topic == HALF_TOPIC and op_crc(copy.offset) in store.op_crcs


def _receives(entry: JournalEntry, copy: Copy) -> bool:
    is_delivery = entry.kind == "delivered" and entry.fields.get("topic") == copy.real_topic
    return is_delivery and entry.at_millis > copy.stored_at


def _overdue(held: Iterable[Copy], store: NodeStore, service: Service, stores: Stores) -> Iterator[tuple[Copy, str]]:
    """Yield the messages that are overdue, each with the words that say why."""
    progress = progress_of(stores.delay_files.get(store.node, {}), stores.offset_files.get(store.node, {}))
    due_times = {
        (entry.log_offset, entry.queue_id, entry.offset): entry.tags_code
        for entry in store.entries
        if entry.topic == SCHEDULE_TOPIC
    }
    for copy in held:
        queue = copy.queue
        if queue.topic == SCHEDULE_TOPIC:
            due_at, latest = due_times.get((copy.log_offset, queue.queue_id, copy.offset)), service.latest_due
        elif copy.stored_at > service.lost_at:
            due_at, latest = copy.stored_at + service.half_wait, service.latest_half
        else:
            continue
        position = progress.get((queue.topic, queue.queue_id), 0)
        if copy.offset < position:
            yield copy, f", {queue} has passed by offset {copy.offset}, and is at {position}"
        elif due_at is not None and due_at <= latest:
            yield copy, f", {service.until - due_at} ms overdue"
