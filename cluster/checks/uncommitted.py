"""Half messages that a broker stored for consumers without a commit.

Producers of workloads answer each check of a transaction state with a commit, and record both the check and a local
transaction that ended without one. So a message with only the latter has a record in its own topic through a fault of
its broker. A broker checks with any producer of the group: one without a journal may have committed.
"""

from collections.abc import Iterator

from rmqlab.cluster.checks.copies import Copy, Stores
from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.history import History
from rmqlab.cluster.checks.loss import NOTHING_SENT
from rmqlab.cluster.checks.wrongrecords import count_wrong
from rmqlab.remoting.names import HALF_TOPIC, SCHEDULE_TOPIC
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.catalogue import STORED_UNCOMMITTED
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.findings import Finding, unknown


def judge(history: History, stores: Stores, conditions: Conditions) -> Iterator[Finding]:
    """Yield the finding of `catalogue.STORED_UNCOMMITTED`."""
    metric, unit = STORED_UNCOMMITTED.name, STORED_UNCOMMITTED.unit
    if not history.sends:
        yield unknown(metric, unit, NOTHING_SENT)
        return
    if not stores.nodes:
        yield unknown(metric, unit, "no store was given")
        return
    found: dict[str, list[tuple[Copy, str]]] = {}
    checks = _checked_in_silence(history, conditions)
    for entry in _not_committed(history):
        message_id, topic = (str(entry.fields.get(name) or "") for name in ("message_id", "topic"))
        if not checks.isdisjoint(stores.places(message_id)):
            continue
        for copy in stores.by_message.get(message_id, ()):
            if topic == (copy.real_topic if copy.queue.topic == SCHEDULE_TOPIC else copy.queue.topic):
                found.setdefault(message_id, []).append((copy, f", {copy.queue} offset {copy.offset}"))
    yield count_wrong(
        STORED_UNCOMMITTED,
        "its producer did not commit it",
        dict(sorted(found.items(), key=lambda one: (min(copy.stored_at for copy, _ in one[1]), one[0]))),
        history,
        stores,
        lambda message_id: frozenset(copy.queue.broker for copy, _ in found[message_id]),
    )


def _not_committed(history: History) -> Iterator[JournalEntry]:
    """Yield the last end of each such transaction whose state no broker checked."""
    asked = {entry.fields.get("message_id") for entry in _at_any_time(history, "transaction_asked")}
    ended = {entry.fields.get("message_id"): entry for entry in _at_any_time(history, "transaction_not_committed")}
    yield from (entry for message_id, entry in ended.items() if message_id not in asked)


def _checked_in_silence(history: History, conditions: Conditions) -> set[tuple[Queue, int]]:
    """Return the half messages that a producer without a journal may have committed.

    These are messages whose state a broker checked with its group. They are named by their place, because a broker
    stores a half message again before it checks it.
    """
    return {
        (Queue(HALF_TOPIC, history.broker_of(entry.node), 0), int(entry.fields.get("queue_offset") or 0))
        for entry in _at_any_time(history, "transaction_checked")
        if entry.fields.get("asked") and entry.fields.get("group") in conditions.silent_producers
    }


def _at_any_time(history: History, kind: str) -> Iterator[JournalEntry]:
    """Yield entries of a kind, also while the cluster stops.

    Brokers and producers end one after the other.
    """
    yield from history.of_kind(kind)
    yield from (entry for entry in history.closing if entry.kind == kind)
