"""How a node ended, as far as events prove it."""

from collections.abc import Iterable
from typing import Final

from rmqlab.verdict.causes import REMOVING_KINDS

END_KINDS: Final = ("node_ready", "node_stopped", "node_killed", "node_crashed", "command", *REMOVING_KINDS)
"""Kinds of the events that `was_clean` needs."""
_ENDS: Final = ("node_stopped", "node_killed", "node_crashed")


def was_clean(events: Iterable[tuple[str, str]], *, is_stopped: bool) -> bool | None:
    """Return True if a node stopped in good order, and False if it was killed.

    None if it runs, if neither is certain, or if something removed records of its store. `events` are the kinds of the
    node's events of END_KINDS, by time, with the command of each `command`. `is_stopped`: it stopped with the cluster.
    """
    last, command, was_ready = "", "", False
    for kind, text in events:
        if kind in REMOVING_KINDS:
            return None
        if kind == "command":
            command = text
        elif kind == "node_ready":
            last, command, was_ready = "", "", True
        else:
            last = kind
    if not was_ready or last == "node_crashed":
        return None
    if is_stopped or last == "node_stopped":
        return True if last in ("", "node_stopped") else None
    return False if last == "node_killed" and command == "kill" else None
