"""When nodes were away: killed, stopped, paused or isolated.

Times are milliseconds of the cluster's clock.
"""

import itertools
from collections.abc import Iterable, Iterator

import attrs

from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.roles import Roles


@attrs.frozen(kw_only=True)
class Absence:
    """An interval in which a node did not serve: dead, stopped, frozen or isolated."""

    node: str
    how: str
    """`killed`, `stopped`, `crashed`, `paused` or `isolated`."""
    at: int
    """Time of the signal; without a signal, when the supervisor saw the end."""
    until: int | None
    """Time at which it was ready or resumed; None if it never was."""
    is_ordered: bool = True
    """False without a signal in the journal: then `at` is when the supervisor saw the end."""


_ENDS = {
    "node_killed": "killed",
    "node_stopped": "stopped",
    "node_crashed": "crashed",
    "node_paused": "paused",
}
_BEGINNINGS = {"node_ready", "node_resumed"}
_ENDING_COMMANDS = {"kill", "stop", "pause", "power-loss", "wipe"}


def absences(entries: Iterable[JournalEntry]) -> Iterator[Absence]:
    """Yield the absences of each node; a command before an event sets its time."""
    away: dict[str, Absence] = {}
    ordered: dict[str, int] = {}
    absences: list[Absence] = []

    def close(node: str, at: int) -> None:
        if (absence := away.pop(node, None)) is not None:
            absences.append(attrs.evolve(absence, until=at))

    for entry in entries:
        node = entry.node
        if entry.kind == "command" and entry.fields.get("command") in _ENDING_COMMANDS:
            ordered.setdefault(node, entry.at_millis)
        elif (how := _ENDS.get(entry.kind)) is not None:
            is_ordered = node in ordered
            at = ordered.pop(node, entry.at_millis)
            close(node, at)  # frozen and then killed: two absences in succession
            away[node] = Absence(node=node, how=how, at=at, until=None, is_ordered=is_ordered)
        elif entry.kind in _BEGINNINGS:
            ordered.pop(node, None)
            close(node, entry.at_millis)
    return iter([*absences, *away.values()])


def isolations(entries: Iterable[JournalEntry], roles: Roles) -> Iterator[Absence]:
    """Yield the absences of isolated nodes: from the fault to its end."""
    isolated: dict[str, list[Absence]] = {}
    for entry in entries:
        if entry.kind == "fault_applied" and entry.fields.get("fault") == "isolate":
            names = roles.resolve_target(str(entry.fields.get("target")), entry.at_millis)
            away = [Absence(node=name, how="isolated", at=entry.at_millis, until=None) for name in names]
            isolated[str(entry.fields["id"])] = away
        elif entry.kind == "fault_healed":
            for absence in isolated.pop(str(entry.fields["id"]), ()):
                yield attrs.evolve(absence, until=entry.at_millis)
    yield from itertools.chain.from_iterable(isolated.values())
