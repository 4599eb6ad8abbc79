"""The facts about one process of the cluster, and the state derived from them.

No I/O.

The state is not stored, but computed from facts. The fork server reports start, pause, resume and end of a process; the
process itself reports that it is ready; the supervisor records whether it has asked the process to stop.
"""

import enum
import signal
from collections.abc import Mapping
from typing import Any

import attrs


class NodeFailedError(Exception):
    """A node did not reach the requested state.

    The message contains its exit status and last log lines.
    """


class WrongStateError(Exception):
    """The request is invalid in the node's current state."""


class NodeState(enum.StrEnum):
    """The state of a node."""

    STARTING = "starting"
    READY = "ready"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"
    """Never started, or stopped regularly."""
    KILLED = "killed"
    """Ended by SIGKILL, from any process."""
    POWER_LOST = "power-lost"
    """Killed, with its unsynced data erased afterwards."""
    CRASHED = "crashed"
    """Ended with an error, or without request."""


@attrs.frozen(kw_only=True)
class ProcessState:
    """The facts about the current or last process of a node."""

    is_alive: bool = False
    """A process has been ordered and has not ended."""
    pid: int | None = None
    ready: Mapping[str, Any] | None = None
    """The facts that the process reported when it became ready."""
    is_paused: bool = False
    is_asked_to_stop: bool = False
    is_ending: bool = False
    """The process has reported that it is stopping, with or without request."""
    exit_status: int | None = None
    """Exit status of the last process that has ended; negative for a signal."""
    has_lost_power: bool = False
    """A power loss was simulated on its files since then."""

    @property
    def state(self) -> NodeState:
        if self.is_alive:
            if self.is_paused:
                return NodeState.PAUSED
            if self.is_asked_to_stop or self.is_ending:
                return NodeState.STOPPING
            return NodeState.STARTING if self.ready is None else NodeState.READY
        if self.has_lost_power:
            return NodeState.POWER_LOST
        if self.exit_status in {None, 0} or (self.is_asked_to_stop and self.exit_status == -signal.SIGTERM):
            return NodeState.STOPPED
        return NodeState.KILLED if self.exit_status == -signal.SIGKILL else NodeState.CRASHED

    def ended(self, status: int) -> "ProcessState":
        return attrs.evolve(self, is_alive=False, is_paused=False, exit_status=status)


def describe_end(status: int | None) -> str:
    """Return `exit status 1`, or the name of the signal."""
    if status is None:
        return "never started"
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
