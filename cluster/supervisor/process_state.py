"""What is known about one process of the cluster, and the state that follows from it. Pure.

The state is not stored: it is a function of facts, each reported by somebody who knows. The fork server reports
birth, stop, continuation and end; the process itself that it is ready; the supervisor what it was asked for.
"""

import enum
import signal
from collections.abc import Mapping
from typing import Any

import attrs


class NodeFailedError(Exception):
    """A node did not become what it was asked to be. The text tells how it ended and what it said last."""


class WrongStateError(Exception):
    """What was asked makes no sense in the state the node is in."""


class NodeState(enum.StrEnum):
    """How a node is, in one word."""

    STARTING = "starting"
    READY = "ready"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"
    """Never started, or ended in good order."""
    KILLED = "killed"
    """Ended by SIGKILL, from whomever."""
    POWERLESS = "powerless"
    """Killed, and then what it had not synced to disk was erased."""
    CRASHED = "crashed"
    """Ended with an error, or in a way that nobody asked for."""


@attrs.frozen(kw_only=True)
class ProcessState:
    """The facts about the present or last process of a node."""

    is_alive: bool = False
    """A process was ordered, and has not ended."""
    pid: int | None = None
    ready: Mapping[str, Any] | None = None
    """What the process told when it became ready."""
    is_paused: bool = False
    is_asked_to_stop: bool = False
    is_ending: bool = False
    """The process said that it has begun to end, asked or not."""
    exit_status: int | None = None
    """Exit status, negative for a signal, of the latest process that has ended."""
    is_powerless: bool = False
    """A power loss was played on its files since that end."""

    @property
    def state(self) -> NodeState:
        if self.is_alive:
            if self.is_paused:
                return NodeState.PAUSED
            if self.is_asked_to_stop or self.is_ending:
                return NodeState.STOPPING
            return NodeState.STARTING if self.ready is None else NodeState.READY
        if self.is_powerless:
            return NodeState.POWERLESS
        if self.exit_status in {None, 0} or (self.is_asked_to_stop and self.exit_status == -signal.SIGTERM):
            return NodeState.STOPPED
        return NodeState.KILLED if self.exit_status == -signal.SIGKILL else NodeState.CRASHED

    def ended(self, status: int) -> "ProcessState":
        return attrs.evolve(self, is_alive=False, is_paused=False, exit_status=status)


def describe_end(status: int | None) -> str:
    """`exit status 1`, or the signal's name."""
    if status is None:
        return "never started"
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
