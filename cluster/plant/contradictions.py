"""Violations in which intact files contradict each other."""

from rmqlab.cluster.plant.journalfile import PlacedEntry, overwrite_entry, placed_entries, remove, remove_kind, rewrite
from rmqlab.cluster.plant.model import GAP, Change, Expected, Kind, Nodes, NothingToPlantError
from rmqlab.cluster.plant.runcopy import (
    RunCopy,
    any_broker,
    any_consumer,
    any_process,
    any_producer,
    any_workload,
    supervisor,
)
from rmqlab.runtime.journals.journalfiles import SUPERVISOR
from rmqlab.verdict.outcomes import STORED
from rmqlab.verdict.runrecord import RECORD

_PLACE = Expected(metric="place_disagreement", names_victims=True)
_AWAY = 1000
"""Added to a queue offset to make it wrong."""


def _entries(copy: RunCopy, node: str, kind: str) -> list[PlacedEntry]:
    """Return the entries of messages with one unique id and a known place."""
    return [
        placed
        for placed in placed_entries(copy.journal(node))
        if placed.kind == kind
        and placed.fields.get("offset") is not None
        and not placed.fields.get("reconsume_times")
        and "," not in str(placed.fields.get("message_id") or ",")
    ]


def _rewrite(copy: RunCopy, node: str, placed: PlacedEntry, changes: dict[str, object], text: str) -> Change:
    """Change fields of an entry, which keeps its place and number."""
    path = copy.journal(node)
    entries = placed_entries(path)
    rewrite(path, [one.changed(changes) if one == placed else one.members for one in entries])
    edit = copy.edit(node, path, placed.start, f"{placed.kind} of {placed.fields['message_id']}: {text}")
    group = str(placed.fields.get("group") or "")
    return Change(edits=(edit,), victims=(str(placed.fields["message_id"]),), consumer_group=group)


def move_acknowledgement(copy: RunCopy, nodes: Nodes) -> Change:
    """Let an acknowledgement name another queue offset."""
    stored = [placed for placed in _entries(copy, nodes[0], "sent") if placed.fields["outcome"] in STORED]
    placed = copy.choose(stored, f"acknowledged send in the journal of {nodes[0]}")
    offset = int(placed.fields["offset"])
    return _rewrite(copy, nodes[0], placed, {"offset": offset + _AWAY}, f"offset {offset} raised by {_AWAY}")


def move_delivery(copy: RunCopy, nodes: Nodes) -> Change:
    """Let a delivery name the next queue."""
    placed = copy.choose(_entries(copy, nodes[0], "delivered"), f"delivery in the journal of {nodes[0]}")
    queue = int(placed.fields["queue"])
    return _rewrite(copy, nodes[0], placed, {"queue": queue + 1}, f"queue {queue} set to {queue + 1}")


def change_outcome(copy: RunCopy, nodes: Nodes) -> Change:
    """Change the outcome of an acknowledged send, but not the producer's count."""
    stored = [placed for placed in _entries(copy, nodes[0], "sent") if placed.fields["outcome"] in STORED]
    placed = copy.choose(stored, f"acknowledged send in the journal of {nodes[0]}")
    outcome = copy.random.choice(("refused", "indeterminate"))
    return _rewrite(copy, nodes[0], placed, {"outcome": outcome}, f"{placed.fields['outcome']} set to {outcome}")


def remove_delivery(copy: RunCopy, nodes: Nodes) -> Change:
    """Remove a delivery, and number the entries behind it anew."""
    placed = copy.choose(_entries(copy, nodes[0], "delivered"), f"delivery in the journal of {nodes[0]}")
    message_id, path = str(placed.fields["message_id"]), copy.journal(nodes[0])
    remove(path, placed)
    return Change(edits=(copy.edit(nodes[0], path, placed.start, f"the delivery of {message_id} removed"),))


def remove_count(copy: RunCopy, nodes: Nodes) -> Change:
    """Remove the count of a workload that ended, and number the rest anew."""
    path = copy.journal(nodes[0])
    counts = [placed for placed in placed_entries(path) if placed.kind in ("produced", "consumed")]
    placed = copy.choose(counts, f"count of messages in the journal of {nodes[0]}")
    remove(path, placed)
    return Change(edits=(copy.edit(nodes[0], path, placed.start, f"the event {placed.kind} removed"),))


def remove_commits(copy: RunCopy, nodes: Nodes) -> Change:
    """Remove all commits of a consumer group, and number the rest anew."""
    group, edits = copy.history.group_of[nodes[0]], []
    for node in sorted(node for node, of in copy.history.group_of.items() if of == group):
        removed = remove_kind(copy.journal(node), "committed")
        edits += [copy.edit(node, copy.journal(node), None, f"{removed} commits removed")] if removed else []
    if not edits:
        raise NothingToPlantError(f"group {group} has no commit")
    return Change(edits=tuple(edits), consumer_group=group)


def write_invalid_value(copy: RunCopy, nodes: Nodes) -> Change:
    """Write a text where an event has a number."""
    kind = copy.random.choice(("sent", "delivered"))
    entries = (
        _entries(copy, nodes[0], kind) or _entries(copy, nodes[0], "sent") or _entries(copy, nodes[0], "delivered")
    )
    placed = copy.choose(entries, f"message in the journal of {nodes[0]}")
    return _rewrite(copy, nodes[0], placed, {"offset": "first"}, "the offset is a text")


def remove_numbers(copy: RunCopy, nodes: Nodes) -> Change:
    """Remove the numbers of all entries of a journal."""
    path = copy.journal(nodes[0])
    entries = placed_entries(path)
    if not any("seq" in placed.members for placed in entries):
        raise NothingToPlantError("the run is older than journals with numbered entries")
    rewrite(path, [{name: value for name, value in one.members.items() if name != "seq"} for one in entries])
    return Change(edits=(copy.edit(nodes[0], path, None, f"{len(entries)} entries without numbers"),))


def remove_ready(copy: RunCopy, nodes: Nodes) -> Change:
    """Remove from the supervisor's journal that a broker became ready."""
    path = copy.journal(SUPERVISOR)
    found = [one for one in placed_entries(path) if (one.kind, one.members["node"]) == ("node_ready", nodes[0])]
    if not found:
        raise NothingToPlantError(f"{nodes[0]} never became ready")
    for _ in found:
        first = next(one for one in placed_entries(path) if (one.kind, one.members["node"]) == ("node_ready", nodes[0]))
        remove(path, first)
    edit = copy.edit(SUPERVISOR, path, found[0].start, f"{len(found)} node_ready of {nodes[0]} removed")
    return Change(edits=(edit,))


def change_start(copy: RunCopy, _nodes: Nodes) -> Change:
    """Change role, profile or rate in the supervisor's journal."""
    path = copy.journal(SUPERVISOR)
    entries = placed_entries(path)
    starting = [one for one in entries if one.kind == "cluster_starting"]
    name, value = (("role", "ASYNC_MASTER"), ("profile", "hardened"), ("rate", 7.0))[(copy.seed - 1) % 3]
    if not starting or not (copy.root / RECORD).exists() or starting[0].fields.get(name) in (None, value):
        raise NothingToPlantError(f"the run has no cluster.json, or no other {name} than {value}")
    rewrite(path, [one.changed({name: value}) if one == starting[0] else one.members for one in entries])
    text = f"{name} {starting[0].fields[name]} set to {value}"
    return Change(edits=(copy.edit(SUPERVISOR, path, starting[0].start, text),))


def remove_checksums(copy: RunCopy, nodes: Nodes) -> Change:
    """Remove the checksums of all sends of a producer."""
    path = copy.journal(nodes[0])
    entries = placed_entries(path)
    sent = [one for one in entries if one.kind == "sent" and one.fields.get("crc") is not None]
    if not sent:
        raise NothingToPlantError(f"no send of {nodes[0]} has a checksum")
    rewrite(path, [_without_crc(one) if one.kind == "sent" else one.members for one in entries])
    return Change(edits=(copy.edit(nodes[0], path, sent[0].start, f"checksums of {len(sent)} sends removed"),))


def _without_crc(sent: PlacedEntry) -> dict[str, object]:
    return {**sent.members, "fields": {name: value for name, value in sent.fields.items() if name != "crc"}}


def remove_samples(copy: RunCopy, nodes: Nodes) -> Change:
    """Remove all ends of its log from a broker's journal."""
    path = copy.journal(nodes[0])
    removed = remove_kind(path, "log_sampled")
    if not removed:
        raise NothingToPlantError(f"the journal of {nodes[0]} has no log_sampled")
    return Change(edits=(copy.edit(nodes[0], path, None, f"{removed} log_sampled removed"),))


def change_entry(copy: RunCopy, nodes: Nodes) -> Change:
    """Change a time of an entry by a millisecond."""
    path = copy.journal(nodes[0])
    entries = placed_entries(path)
    if "crc" not in entries[-1].fields:
        raise NothingToPlantError(f"the journal of {nodes[0]} has no checksum")
    placed = copy.choose(entries[1:-1], f"entry in the journal of {nodes[0]}")
    overwrite_entry(path, placed, placed.changed({}, later_by=1))
    return Change(edits=(copy.edit(nodes[0], path, placed.start, f"{placed.kind}: the time raised by 1 ms"),))


def erase_producer(copy: RunCopy, nodes: Nodes) -> Change:
    """Remove a producer's journal, and all entries about it."""
    own, supervisors = copy.journal(nodes[0]), copy.journal(SUPERVISOR)
    entries = placed_entries(supervisors)
    kept = [one.members for one in entries if one.members["node"] != nodes[0]]
    own.unlink()
    rewrite(supervisors, [{**one, "seq": number} for number, one in enumerate(kept, 1)])
    text = f"{len(entries) - len(kept)} entries about {nodes[0]} removed"
    return Change(edits=(copy.edit(nodes[0], own, None, "deleted"), copy.edit(nodes[0], supervisors, None, text)))


CONTRADICTIONS = (
    Kind(
        name="start-changed",
        does="the supervisor's journal has another role, profile or rate than cluster.json",
        where=supervisor,
        change=change_start,
        expects=(GAP,),
        consequences=("*",),
    ),
    Kind(
        name="checksums-removed",
        does="the sends in a producer's journal have no checksums",
        where=any_producer,
        change=remove_checksums,
        expects=(GAP,),
        consequences=("content_disagreement",),
    ),
    Kind(
        name="samples-removed",
        does="all ends of its log are removed from a broker's journal, and the other entries are numbered anew",
        where=any_broker,
        change=remove_samples,
        expects=(GAP,),
        consequences=("replication_lag*",),
    ),
    Kind(
        name="producer-erased",
        does="a producer's journal is deleted, and all entries about it in the supervisor's journal",
        where=any_producer,
        change=erase_producer,
        expects=(GAP,),
        consequences=("*",),
    ),
    Kind(
        name="ack-misplaced",
        does="an acknowledged send has another queue offset in its producer's journal than in the stores",
        where=any_producer,
        change=move_acknowledgement,
        expects=(_PLACE,),
        consequences=("order.stored",),
    ),
    Kind(
        name="delivery-misplaced",
        does="a delivery has another queue in its consumer's journal than in the stores",
        where=any_consumer,
        change=move_delivery,
        expects=(_PLACE,),
        consequences=("order.delivered",),
    ),
    Kind(
        name="outcome-changed",
        does="an acknowledged send has another outcome in its producer's journal than the producer counted",
        where=any_producer,
        change=change_outcome,
        expects=(GAP,),
        consequences=("stored.refused", "stored.indeterminate"),
    ),
    Kind(
        name="delivery-removed",
        does="a delivery is removed from a consumer's journal, and the entries behind it are numbered anew",
        where=any_consumer,
        change=remove_delivery,
        expects=(GAP,),
    ),
    Kind(
        name="count-removed",
        does="the last event of a workload, which counts its messages, is removed, and the others are numbered anew",
        where=any_workload,
        change=remove_count,
        expects=(GAP,),
    ),
    Kind(
        name="commits-removed",
        does="all commits of a group are removed from its consumers' journals, and the others are numbered anew",
        where=any_consumer,
        change=remove_commits,
        expects=(Expected(metric="warning GROUP"),),
        consequences=("warning", "offset_file_ahead", "offset_file_behind", "duplicates*"),
    ),
    Kind(
        name="value-invalid",
        does="an entry of a workload's journal has a text for a number",
        where=any_workload,
        change=write_invalid_value,
        expects=(GAP,),
        consequences=("stored_unsent",),
    ),
    Kind(
        name="numbers-removed",
        does="the entries of a journal have lost their numbers",
        where=any_process,
        change=remove_numbers,
        expects=(GAP,),
    ),
    Kind(
        name="entry-changed",
        does="an entry of a closed journal has another time than its process wrote",
        where=any_process,
        change=change_entry,
        expects=(GAP,),
    ),
    Kind(
        name="ready-removed",
        does="the supervisor's journal does not record that a broker became ready",
        where=any_broker,
        change=remove_ready,
        expects=(GAP,),
        consequences=("behind", "ahead", "divergence"),
    ),
)
