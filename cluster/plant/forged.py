"""Violations in intact journals: forged sends, deliveries, commits and clocks."""

from collections.abc import Callable
from typing import Any

from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.plant.journalfile import PlacedEntry, insert, placed_entries, remove, rewrite
from rmqlab.cluster.plant.model import WARNING, Change, Expected, Kind, Nodes, NothingToPlantError
from rmqlab.cluster.plant.runcopy import RunCopy, any_consumer, any_node, any_producer, any_slave

_OFF_MILLIS = 20_000
_FAR = 100_000
"""Messages beyond a commit: more than any queue of a recorded run has."""
_TIMES = ("began_at",)
"""Fields that hold times of the writer's own clock."""
_COUNTED = ("gap",)
"""A workload's last entry counts its sends or deliveries: one more or less may be reported as a gap."""
_OF_CLOCKS = (
    "write_unavailable", "read_unavailable", "group_read_unavailable", "detection", "stale_route", "missing_route",
    "route_disagreement", "order.stored", "order.delivered", "replication_lag", "replication_lag_left",
    "offset_rollbacks", "rolled_back", "offset_file_behind", "stored_unsent", "duplicates*", "gap",
)  # fmt: skip
"""Metrics that compare times, and gaps that are found by times."""


def _last(copy: RunCopy, node: str, kind: str) -> PlacedEntry:
    found = [placed for placed in placed_entries(copy.journal(node)) if placed.kind == kind]
    if not found:
        raise NothingToPlantError(f"the journal of {node} has no entry {kind}")
    return found[-1]


def _acknowledged_entries(copy: RunCopy, node: str) -> list[PlacedEntry]:
    """Return acknowledged sends of single messages in a producer's journal."""
    known = {send.ids[0] for send in copy.history.sends if send.is_acknowledged and send.queue and len(send.ids) == 1}
    return [
        placed
        for placed in placed_entries(copy.journal(node))
        if placed.kind == "sent" and placed.fields.get("message_id") in known
    ]


def forge_acknowledgement(copy: RunCopy, nodes: Nodes) -> Change:
    """Write an acknowledged send of a message that was never stored."""
    path, like = copy.journal(nodes[0]), copy.choose(_acknowledged_entries(copy, nodes[0]), "acknowledged send")
    last, fields = _last(copy, nodes[0], "sent"), like.fields
    made_up_id = copy.foreign_id(str(fields["message_id"]))
    forged = {
        "number": int(last.fields.get("number") or 0) + 1,
        "message_id": made_up_id,
        "offset": _acknowledged_end(copy, Queue(fields["topic"], fields["broker"], fields["queue"])),
        "began_at": last.at_millis - 1,
        "took": 1,
    }
    insert(path, last, last.changed({**fields, **forged}))
    edit = copy.edit(nodes[0], path, last.end, f"forged: {made_up_id} acknowledged with {fields['outcome']}")
    return Change(edits=(edit,), victims=(made_up_id,), broker=str(fields["broker"]))


def _acknowledged_end(copy: RunCopy, queue: Queue) -> int:
    """Return the queue offset after the last acknowledged message."""
    return max(send.offset for send in copy.history.sends if send.queue == queue and send.offset is not None) + 1


def remove_send(copy: RunCopy, nodes: Nodes) -> Change:
    """Remove the entry of an acknowledged send."""
    path, placed = copy.journal(nodes[0]), copy.choose(_acknowledged_entries(copy, nodes[0]), "acknowledged send")
    message_id = str(placed.fields["message_id"])
    remove(path, placed)
    edit = copy.edit(nodes[0], path, placed.start, f"the send of {message_id} removed")
    return Change(edits=(edit,), victims=(message_id,))


def forge_delivery(copy: RunCopy, nodes: Nodes) -> Change:
    """Write the delivery of a message that was never stored."""
    path, last = copy.journal(nodes[0]), _last(copy, nodes[0], "delivered")
    fields = last.fields
    made_up_id = copy.foreign_id(str(fields["message_id"]))
    forged = {
        "message_id": made_up_id,
        "offset": int(fields["offset"]) + 1,
        "number": int(fields.get("number") or 0) + 1,
    }
    insert(path, last, last.changed(forged))
    edit = copy.edit(nodes[0], path, last.end, f"forged: {made_up_id} delivered")
    return Change(edits=(edit,), victims=(made_up_id,), consumer_group=str(fields["group"]))


def repeat_delivery(copy: RunCopy, nodes: Nodes) -> Change:
    """Write a delivery a second time."""
    path = copy.journal(nodes[0])
    deliveries = [placed for placed in placed_entries(path) if placed.kind == "delivered"]
    placed = copy.choose(deliveries, f"delivery in the journal of {nodes[0]}")
    message_id = str(placed.fields["message_id"])
    insert(path, placed, placed.members)
    edit = copy.edit(nodes[0], path, placed.end, f"the delivery of {message_id} written again")
    return Change(edits=(edit,), victims=(message_id,), consumer_group=str(placed.fields["group"]))


def _a_last_commit(copy: RunCopy, node: str) -> PlacedEntry:
    """Choose the last commit of a queue, of an offset above 0."""
    commits = {
        (placed.fields["topic"], placed.fields["broker"], placed.fields["queue"]): placed
        for placed in placed_entries(copy.journal(node))
        if placed.kind == "committed"
    }
    candidates = [placed for placed in commits.values() if placed.fields["offset"] > 0]
    return copy.choose(candidates, f"commit above 0 in the journal of {node}")


def forge_far_commit(copy: RunCopy, nodes: Nodes) -> Change:
    """Write a commit far beyond a queue's end before the last one of the queue."""
    path, last = copy.journal(nodes[0]), _a_last_commit(copy, nodes[0])
    before = [placed for placed in placed_entries(path) if placed.start < last.start][-1]
    offset = int(last.fields["offset"]) + _FAR
    insert(path, before, {**before.members, "kind": last.kind, "fields": {**last.fields, "offset": offset}})
    edit = copy.edit(nodes[0], path, before.end, f"forged: commit of {offset}")
    return Change(edits=(edit,), consumer_group=str(last.fields["group"]))


def forge_commit(copy: RunCopy, nodes: Nodes) -> Change:
    """Write a commit of half the last offset of a queue."""
    path, last = copy.journal(nodes[0]), _a_last_commit(copy, nodes[0])
    offset = int(last.fields["offset"])
    insert(path, last, last.changed({"offset": offset // 2}))
    edit = copy.edit(nodes[0], path, last.end, f"forged: commit of {offset // 2} after {offset}")
    return Change(edits=(edit,), consumer_group=str(last.fields["group"]))


def overwrite_own_offset(copy: RunCopy, nodes: Nodes) -> Change:
    """Let a sync of a slave replace the last commit of a queue, sent to it."""
    slave = copy.history.members[nodes[0]]
    last = {
        (one.group, one.queue): one for one in copy.history.commits if one.queue.broker == slave.broker and one.offset
    }
    commit = copy.choose(list(last.values()), f"commit above 0 to {slave.broker}")
    consumers, brokers = copy.journal(commit.node), copy.journal(slave.name)
    entries = placed_entries(consumers)
    placed = next(one for one in entries if one.members.get("seq") == commit.entry.seq)
    to_slave = placed.changed({"broker_id": slave.broker_id})
    rewrite(consumers, [to_slave if one is placed else one.members for one in entries])
    before = [one for one in placed_entries(brokers) if one.at_millis <= placed.at_millis][-1]
    key, queues = f"{commit.queue.topic}@{commit.group}", {commit.queue.queue_id: [commit.offset, commit.offset // 2]}
    overwritten = {"at": placed.at_millis, "kind": "consumer_offsets_overwritten"}
    insert(brokers, before, {**before.members, **overwritten, "fields": {"key": key, "queues": queues}})
    text = f"forged: sync of {key} queue {commit.queue.queue_id} replaces {commit.offset} by {commit.offset // 2}"
    edits = (
        copy.edit(commit.node, consumers, placed.start, f"commit of {commit.offset} sent to {slave.name}"),
        copy.edit(slave.name, brokers, before.end, text),
    )
    return Change(edits=edits, broker=slave.broker, consumer_group=commit.group)


def move_clock(millis: int) -> Callable[[RunCopy, Nodes], Change]:
    """Make a change that moves all times of a node's journal."""

    def change(copy: RunCopy, nodes: Nodes) -> Change:
        path = copy.journal(nodes[0])
        entries = placed_entries(path)
        rewrite(path, [_moved(entry, millis) for entry in entries])
        return Change(edits=(copy.edit(nodes[0], path, None, f"{len(entries)} entries {millis / 1000:+g} s"),))

    return change


def _moved(entry: PlacedEntry, millis: int) -> dict[str, Any]:
    times = {name: entry.fields[name] + millis for name in _TIMES if name in entry.fields}
    return entry.changed(times, later_by=millis)


_CLOCK = (Expected(metric="clock_disagreement NODE"),)

FORGED = (
    Kind(
        name="ack-forged",
        does="a producer's journal has an acknowledged send of a message that was never stored",
        where=any_producer,
        change=forge_acknowledgement,
        expects=(Expected(metric="lost", names_victims=True),),
        consequences=("lost.SEND_OK", "missing", "unreplicated", *_COUNTED),
    ),
    Kind(
        name="send-removed",
        does="the entry of an acknowledged send is missing in its producer's journal",
        where=any_producer,
        change=remove_send,
        expects=(Expected(metric="stored_unsent", names_victims=True),),
        consequences=_COUNTED,
    ),
    Kind(
        name="delivery-forged",
        does="a consumer's journal has a delivery of a message that was never stored",
        where=any_consumer,
        change=forge_delivery,
        expects=(Expected(metric="delivered_unstored", names_victims=True),),
        consequences=_COUNTED,
    ),
    Kind(
        name="delivery-repeated",
        does="a delivery is in a consumer's journal twice",
        where=any_consumer,
        change=repeat_delivery,
        expects=(Expected(metric="duplicates.unexplained", names_victims=True),),
        consequences=("duplicates", *_COUNTED),
    ),
    Kind(
        name="commit-back",
        does="a consumer's journal has a commit of a lower offset after its last one",
        where=any_consumer,
        change=forge_commit,
        expects=(Expected(metric="offset_rollbacks GROUP"), Expected(metric="offset_rollbacks")),
        consequences=("rolled_back", "offset_file_ahead", *_COUNTED),
    ),
    Kind(
        name="commit-beyond",
        does="a consumer's journal has a commit far beyond its queue's end before the last one",
        where=any_consumer,
        change=forge_far_commit,
        expects=(WARNING, Expected(metric="offset_rollbacks GROUP"), Expected(metric="offset_rollbacks")),
        consequences=("rolled_back", "offset_file_ahead", *_COUNTED),
    ),
    Kind(
        name="own-offset-overwritten",
        does="a slave's metadata sync replaces an offset that was committed to it by an older one",
        where=any_slave,
        change=overwrite_own_offset,
        expects=(
            Expected(metric="own_offsets_overwritten SLAVE"),
            Expected(metric="offset_rollbacks GROUP"),
            Expected(metric="offset_rollbacks"),
        ),
        consequences=("rolled_back", "offset_file_behind"),
    ),
    Kind(
        name="clock-ahead",
        does="all entries of a node are 20 s late",
        where=any_node,
        change=move_clock(_OFF_MILLIS),
        expects=_CLOCK,
        consequences=_OF_CLOCKS,
    ),
    Kind(
        name="clock-behind",
        does="all entries of a node are 20 s early",
        where=any_node,
        change=move_clock(-_OFF_MILLIS),
        expects=_CLOCK,
        consequences=_OF_CLOCKS,
    ),
)
