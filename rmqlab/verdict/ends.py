"""Decides from events whether a node stopped cleanly or was killed."""

from collections.abc import Iterable
from typing import Final

from rmqlab.verdict.causes import REMOVING_KINDS

END_KINDS: Final = (
    "node_spawned",
    "node_ready",
    "node_stopped",
    "node_killed",
    "node_crashed",
    "command",
    *REMOVING_KINDS,
)
"""Kinds of the events that `was_clean` needs."""


def was_clean(events: Iterable[tuple[str, str]], *, is_stopped: bool) -> bool | None:
    """Return True if a node stopped in good order, and False if it was killed.

    None if it runs, if neither is certain, or if something removed records of its store. `events` are the kinds of the
    node's events of END_KINDS, by time, with the command of each `command`. `is_stopped`: it stopped with the cluster.
    """
    ends: list[str] = []
    commands: set[str] = set()
    was_ready = is_starting = False
    for kind, command in events:
        if kind in REMOVING_KINDS:
            return None
        if kind == "node_spawned":
            is_starting = True
        elif kind == "node_ready":
            ends, commands, was_ready, is_starting = [], set(), True, False
        elif kind == "command":
            commands.add(command)
        else:
            ends.append(kind)
    ends += ["node_stopped"] * is_stopped
    if not was_ready or is_starting or len(ends) != 1:  # a start that was never ready may have created `abort`
        return None
    if ends == ["node_stopped"]:
        return True
    is_killed = ends == ["node_killed"] and "kill" in commands
    return False if is_killed and "stop" not in commands else None  # a stop may have removed `abort` before the kill
