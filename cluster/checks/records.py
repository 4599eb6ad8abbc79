"""Unreadable records, and mismatches of records and consume queue entries.

A hole is a range of bytes in the log that is not a record, with records behind it. Consume queue entries that point
into a hole show what it contained. `corrupt` counts records whose body does not match its CRC and records in holes,
`dangling` entries that point neither at their record nor into a hole, or have a wrong tags code, `unqueued` readable
records without an entry. A broker enters records shortly after it stored them, so `unqueued` is known only after a
clean stop. A log that ends early has no hole. Entries below the first file of the log belong to expired messages.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from rmqlab.cluster.checks.copies import Copy, NodeStore, Stores
from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.history import History
from rmqlab.store.log.readableend import EVERYTHING, readable_end
from rmqlab.store.offline.queueentries import QueueEntry
from rmqlab.store.offline.scan import Hole
from rmqlab.store.tagscodes import is_code_of
from rmqlab.verdict.catalogue import ENTRIES, RECORDS
from rmqlab.verdict.findings import Evidence, Finding, count_of, unknown

QueuePosition = tuple[Queue, int]
"""A queue and a queue offset."""


@attrs.frozen
class Damage:
    """One message that a node's log should contain, and that is unreadable there."""

    node: str
    message_id: str
    """Empty if no send was acknowledged with this place."""
    place: QueuePosition
    log_offset: int
    text: str


def judge(history: History, stores: Stores) -> Iterator[Finding]:
    """Yield the findings of `catalogue.RECORDS_AND_QUEUES`."""
    names = acknowledged_places(history)
    for store in stores.nodes.values():
        damages = find_damages(store, names)
        if store.holes and store.unread_queues and not damages:
            yield unknown(f"corrupt {store.node}", RECORDS, store.unread_queues)
        else:
            yield count_of(
                f"corrupt {store.node}",
                RECORDS,
                damages,
                lambda damage: _describe_damage(damage, history),
                is_at_least=bool(store.holes and store.unread_queues),
                message_ids=[damage.message_id for damage in damages if damage.message_id],
            )
        yield _judge_entries(store, names, history)
        yield _judge_records(store, history)


def acknowledged_places(history: History) -> Mapping[QueuePosition, str]:
    """Return the messages of acknowledged sends, by place."""
    return {
        (send.place[0], send.place[1] + number): message_id
        for send in history.sends
        if send.is_acknowledged and send.place is not None
        for number, message_id in enumerate(send.ids)
    }


def find_damages(store: NodeStore, names: Mapping[QueuePosition, str]) -> list[Damage]:
    """Return the unreadable records of one log, in the order of the log."""
    damages = [
        Damage(store.node, copy.message_id, (copy.queue, copy.offset), copy.log_offset, "its body fails its CRC")
        for copy in store.damaged
    ]
    if store.holes:
        damages += _in_holes(store, names)
    return sorted(damages, key=lambda damage: damage.log_offset)


def _in_holes(store: NodeStore, names: Mapping[QueuePosition, str]) -> Iterator[Damage]:
    for entry in store.entries:
        if (hole := _hole_at(store.holes, entry.log_offset)) is not None:
            behind = sum(copy.log_offset >= hole.end for copy in store.copies)
            text = (
                f"bytes {hole.offset} to {hole.end} are no record; {behind} records behind them are readable, and a"
                " broker that starts after a crash cuts them off"
            )
            place = _place(store, entry)
            yield Damage(store.node, names.get(place, ""), place, entry.log_offset, text)


def _hole_at(holes: Sequence[Hole], log_offset: int) -> Hole | None:
    return next((hole for hole in holes if hole.offset <= log_offset < hole.end), None)


def _place(store: NodeStore, entry: QueueEntry) -> QueuePosition:
    return Queue(entry.topic, store.broker, entry.queue_id), entry.offset


def _describe_damage(damage: Damage, history: History) -> Evidence:
    queue, offset = damage.place
    return Evidence(
        text=f"{damage.node}, commit log offset {damage.log_offset}, {queue} offset {offset}: {damage.text}",
        message_ids=(damage.message_id,) if damage.message_id else (),
        entries=history.about(damage.message_id),
    )


# ---- consume queues --------------------------------------------------------------------------------------


def _judge_entries(store: NodeStore, names: Mapping[QueuePosition, str], history: History) -> Finding:
    metric = f"dangling {store.node}"
    if missing := _why_unknown(store, history):
        return unknown(metric, ENTRIES, missing)
    there = {copy.log_offset: copy for copy in (*store.copies, *store.damaged)}
    dangling = list(_find_dangling(store, there))

    def name(entry: QueueEntry) -> str:
        copy = there.get(entry.log_offset)
        return names.get(_place(store, entry)) or (copy.message_id if copy else "")

    return count_of(
        metric,
        ENTRIES,
        dangling,
        lambda entry: _describe_entry(entry, there.get(entry.log_offset), name(entry), store),
        text=f"of {len(store.entries)} entries",
        message_ids=[found for entry in dangling if (found := name(entry))],
    )


def _why_unknown(store: NodeStore, history: History) -> str:
    last = [entry.kind for entry in history.of_node(store.node, "node_ready", "power_lost")][-1:]
    if last == ["power_lost"]:
        return "the node lost power, and did not start again"
    if store.unread_queues:
        return store.unread_queues
    if not store.entries and (store.copies or store.damaged):
        return "the store has no consume queues"
    return ""


def _find_dangling(store: NodeStore, there: Mapping[int, Copy]) -> Iterator[QueueEntry]:
    first = _first_offset(store, there)
    for entry in store.entries:
        copy = there.get(entry.log_offset)
        if copy is not None:
            if not _is_at_place(entry, copy) or not _has_code(entry, copy):
                yield entry
        elif (entry.log_offset >= first or not entry.size) and _hole_at(store.holes, entry.log_offset) is None:
            yield entry


def _is_at_place(entry: QueueEntry, copy: Copy) -> bool:
    stated = (copy.queue.topic, copy.queue.queue_id, copy.offset, copy.size)
    return stated == (entry.topic, entry.queue_id, entry.offset, entry.size)


def _has_code(entry: QueueEntry, copy: Copy) -> bool:
    """Return True if a tags code is that of a record, whose tags may be damaged."""
    return copy.is_damaged or is_code_of(entry.tags_code, copy.tags_code, copy.stored_at)


def _first_offset(store: NodeStore, offsets: Iterable[int]) -> int:
    """Return the first offset of the log.

    Of one without records, where its first file begins.
    """
    return min([*offsets, *(hole.offset for hole in store.holes)], default=store.begin)


def _describe_entry(entry: QueueEntry, copy: Copy | None, message_id: str, store: NodeStore) -> Evidence:
    queue, offset = _place(store, entry)
    there = f"{copy.message_id} of {copy.queue} offset {copy.offset}" if copy else "no record"
    text = f"the entry points at commit log offset {entry.log_offset}, where {there} is"
    if copy is not None and _is_at_place(entry, copy):
        expected = "the time that it was stored, or later" if copy.tags_code is None else copy.tags_code
        text = f"the entry of {copy.message_id} has tags code {entry.tags_code}, expected {expected}"
    return Evidence(
        text=f"{store.node}, {queue} offset {offset}: {text}",
        message_ids=(message_id,) if message_id else (),
    )


def _judge_records(store: NodeStore, history: History) -> Finding:
    metric = f"unqueued {store.node}"
    if not ended_in_good_order(store.node, history):
        return unknown(metric, RECORDS, "the node was not stopped in good order")
    if store.unread_queues:
        return unknown(metric, RECORDS, store.unread_queues)
    end = readable_end(store.root) if store.root else EVERYTHING
    entered = {(entry.log_offset, entry.topic, entry.queue_id, entry.offset) for entry in store.entries}
    found = [
        copy
        for copy in store.copies
        if copy.log_offset < end
        and not history.is_deleted(copy.queue, copy.stored_at)
        and (copy.log_offset, copy.queue.topic, copy.queue.queue_id, copy.offset) not in entered
    ]
    return count_of(
        metric,
        RECORDS,
        found,
        lambda copy: copy.as_evidence(
            f"{store.node}, commit log offset {copy.log_offset}, {copy.queue} offset {copy.offset}: no entry"
        ),
        text=f"of {len(store.copies)} records",
        message_ids=[copy.message_id for copy in found],
    )


def ended_in_good_order(node: str, history: History) -> bool:
    """Return True if a node stopped cleanly and did not start again.

    It stopped alone or with the cluster. A start that was never ready may have changed its store, too.
    """
    last = [entry.kind for entry in history.of_node(node, *_CHANGES)][-1:]
    return node in history.stopped or last == ["node_stopped"]


_CHANGES = ("node_spawned", "node_ready", "node_killed", "node_crashed", "node_stopped", "power_lost", "store_wiped")
