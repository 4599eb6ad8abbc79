"""Violations in evidence: cut, garbled, deleted or inconsistent journals."""

import functools
from collections.abc import Callable

from rmqlab.cluster.plant.journalfile import PlacedEntry, placed_entries, repeat, rewrite
from rmqlab.cluster.plant.logs import overwrite
from rmqlab.cluster.plant.model import GAP, Change, Expected, Kind, Nodes, NothingToPlantError
from rmqlab.cluster.plant.runcopy import RunCopy, any_process, any_producer, any_workload
from rmqlab.runtime.journals.journalentry import OPENED

_UNSEEN = ("stored_unsent",)
"""Effect of sends that no journal records. That other metrics become unknown is always allowed."""
_GARBLED = 40


def _middle(copy: RunCopy, node: str) -> PlacedEntry:
    return copy.choose(placed_entries(copy.journal(node)), f"entry in the journal of {node}")


def tear_journal(copy: RunCopy, nodes: Nodes) -> Change:
    """Cut a journal in the middle of an entry."""
    path, placed = copy.journal(nodes[0]), _middle(copy, nodes[0])
    at = (placed.start + placed.end) // 2
    path.write_bytes(path.read_bytes()[:at])
    return Change(edits=(copy.edit(nodes[0], path, at, "cut here, in the middle of an entry"),))


def truncate_journal(copy: RunCopy, nodes: Nodes) -> Change:
    """Cut a journal between two entries, so that the file itself is valid."""
    path, placed = copy.journal(nodes[0]), _middle(copy, nodes[0])
    path.write_bytes(path.read_bytes()[: placed.start])
    return Change(edits=(copy.edit(nodes[0], path, placed.start, "cut here, between two entries"),))


def garble_journal(copy: RunCopy, nodes: Nodes) -> Change:
    """Overwrite the beginning of an entry with a byte that msgpack never uses."""
    path, placed = copy.journal(nodes[0]), _middle(copy, nodes[0])
    size = min(_GARBLED, path.stat().st_size - placed.start)
    overwrite(path, placed.start, b"\xc1" * size)
    return Change(edits=(copy.edit(nodes[0], path, placed.start, f"{size} bytes overwritten"),))


def delete_journal(copy: RunCopy, nodes: Nodes) -> Change:
    """Delete a journal."""
    path = copy.journal(nodes[0])
    edit = copy.edit(nodes[0], path, None, "deleted")
    path.unlink()
    return Change(edits=(edit,))


def exchange_journal(copy: RunCopy, nodes: Nodes) -> Change:
    """Replace a journal by that of another run in the same span of time.

    The other run did the same: only the ids of its messages and its own are different.
    """
    path = copy.journal(nodes[0])
    new_id = functools.cache(copy.foreign_id)
    other = [placed.changed(_of_another_run(placed, new_id)) for placed in placed_entries(path)]
    if not any(one["kind"] == OPENED for one in other):
        raise NothingToPlantError("the run is older than journals that name their run")
    rewrite(path, other)
    return Change(edits=(copy.edit(nodes[0], path, 0, "the journal of another run"),))


def _of_another_run(placed: PlacedEntry, new_id: Callable[[str], str]) -> dict[str, str]:
    """Return the changed fields of an entry.

    `new_id` returns the unique id of the other run's message by that of this run's.
    """
    if placed.kind == OPENED:
        return {"run": str(placed.fields["run"])[::-1] + "0"}
    message_ids = str(placed.fields.get("message_id") or "")
    if not message_ids:
        return {}
    return {"message_id": ",".join(map(new_id, message_ids.split(",")))}


def thin_journal(copy: RunCopy, nodes: Nodes) -> Change:
    """Remove an entry from the middle of a journal; the others keep their numbers."""
    path, placed = copy.journal(nodes[0]), _middle(copy, nodes[0])
    if "seq" not in placed.members:
        raise NothingToPlantError("the run is older than journals with numbered entries")
    content = path.read_bytes()
    path.write_bytes(content[: placed.start] + content[placed.end :])
    return Change(edits=(copy.edit(nodes[0], path, placed.start, f"an entry removed: {placed.kind}"),))


def replace_sends(copy: RunCopy, nodes: Nodes) -> Change:
    """Replace a producer's journal by that of another cluster with the same run id.

    The other cluster did the same: only the ids of its messages are different.
    """
    path = copy.journal(nodes[0])
    own, new_id = placed_entries(path), functools.cache(copy.foreign_id)
    rewrite(path, [one.changed({} if one.kind == OPENED else _of_another_run(one, new_id)) for one in own])
    sent = (str(one.fields.get("message_id") or "") for one in own if one.kind == "sent")
    ids = [key for keys in sent for key in keys.split(",") if key]
    half = {str(one.fields.get("message_id")) for one in own if one.kind == "transaction_not_committed"}
    return Change(
        edits=(copy.edit(nodes[0], path, 0, "other messages were sent"),),
        victims=tuple(key for key in ids if key not in half),  # what is in system topics only is not `stored_unsent`
        made_up_ids=tuple(map(new_id, ids)),
    )


def repeat_send(copy: RunCopy, nodes: Nodes) -> Change:
    """Write a send into the journal a second time."""
    path = copy.journal(nodes[0])
    sends = [placed for placed in placed_entries(path) if placed.kind == "sent"]
    placed = copy.choose(sends, f"send in the journal of {nodes[0]}")
    message_id = str(placed.fields.get("message_id") or "")
    if not message_id:
        raise NothingToPlantError("the send that was chosen has no unique id; try another seed")
    repeat(path, placed)
    edit = copy.edit(nodes[0], path, placed.end, f"the send of {message_id} written again")
    return Change(edits=(edit,), victims=(message_id,))


JOURNALS = (
    Kind(
        name="journal-torn",
        does="a journal ends in the middle of an entry",
        where=any_process,
        change=tear_journal,
        expects=(GAP,),
        consequences=_UNSEEN,
    ),
    Kind(
        name="journal-truncated",
        does="the end of a workload's journal is missing, cut between two entries",
        where=any_workload,
        change=truncate_journal,
        expects=(GAP,),
        consequences=_UNSEEN,
    ),
    Kind(
        name="journal-garbled",
        does="a journal has bytes in its middle that do not decode",
        where=any_process,
        change=garble_journal,
        expects=(GAP,),
        consequences=_UNSEEN,
    ),
    Kind(
        name="journal-deleted",
        does="a journal is deleted",
        where=any_process,
        change=delete_journal,
        expects=(GAP,),
        consequences=_UNSEEN,
    ),
    Kind(
        name="journal-exchanged",
        does="a workload's journal is that of another run in the same span of time",
        where=any_workload,
        change=exchange_journal,
        expects=(GAP,),
        consequences=_UNSEEN,
    ),
    Kind(
        name="send-repeated",
        does="a send is in its producer's journal twice",
        where=any_producer,
        change=repeat_send,
        expects=(GAP,),
    ),
    Kind(
        name="journal-thinned",
        does="an entry is removed from the middle of a journal",
        where=any_process,
        change=thin_journal,
        expects=(GAP,),
        consequences=_UNSEEN,
    ),
    Kind(
        name="sends-exchanged",
        does="a producer's journal is that of another cluster with the same id of the run",
        where=any_producer,
        change=replace_sends,
        expects=(Expected(metric="lost", names_made_up=True), Expected(metric="stored_unsent", names_victims=True)),
        consequences=("lost.*", "missing", "unreplicated", "gap"),
    ),
)
