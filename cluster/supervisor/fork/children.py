"""The supervisor's side of the fork server: starts and signals processes.

It also receives the reports of their state.
"""

import logging
import os
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import trio

from rmqlab.cluster.supervisor.fork.child import SpawnRequest
from rmqlab.cluster.supervisor.fork.forklaunch import ServerProcess, fork, launch
from rmqlab.cluster.supervisor.fork.forkserver import (
    ORDERS,
    REPORTS,
    Continued,
    Exited,
    LogTo,
    NotSpawned,
    Order,
    Report,
    Signal,
    Spawn,
    Spawned,
    Stopped,
    serve,
)
from rmqlab.runtime.node.logfile import open_log
from rmqlab.runtime.node.mapcodec import ControlError
from rmqlab.runtime.node.mapstream import receive_messages

log = logging.getLogger(__name__)

CLOSE_SECONDS = 5.0


class ForkServerGoneError(Exception):
    """The fork server has ended, and all its children with it."""


class ForkServerStoppedError(ForkServerGoneError):
    """A signal has stopped the fork server: it executes no order until it continues."""


@attrs.define(eq=False)
class ForkServer:
    """A running fork server: start it, run `attend` in a task, close it at the end."""

    process: ServerProcess
    connection: socket.socket
    _stream: trio.SocketStream | None = attrs.field(default=None, init=False)
    _ids: dict[int, int] = attrs.field(factory=dict, init=False)  # process id to request id
    _sending: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    @classmethod
    def start(cls, modules: Sequence[str], log: Path, spawn_method: str | None = None) -> "ForkServer":
        """Start a fork server that imports these modules, and accepts orders meanwhile."""
        return cls(*launch(log, modules, spawn_method))

    @classmethod
    def fork_from_here(cls) -> "ForkServer":
        """Fork a fork server from this process, and share its imports.

        Its output is that of this process until `log_to`.
        """
        return cls(*fork(serve))

    def log_to(self, log: Path) -> None:
        """Redirect its output to a file, before `attend`. Raise OSError on failure."""
        open_log(log).close()  # it cannot report a failure itself
        self.connection.sendall(ORDERS.encode(LogTo(str(log))))

    async def attend(self, changed: Callable[[int, Report], object]) -> None:
        """Pass on each report, with the id of its request, until the fork server ends."""

        def handle(report: Report) -> None:
            match report:
                case Spawned(id=request_id, pid=pid):
                    self._ids[pid] = request_id
                case NotSpawned(id=request_id):
                    pass
                case Exited(pid=pid) if pid in self._ids:
                    request_id = self._ids.pop(pid)
                case Stopped(pid=pid) | Continued(pid=pid) if pid in self._ids:
                    request_id = self._ids[pid]
                case _:
                    log.error("the fork server reported %s: not a child that it was asked for", report)
                    return
            changed(request_id, report)

        try:
            await receive_messages(self._connected(), REPORTS, handle)
        except ControlError as exc:  # the rest of the stream cannot be decoded
            log.error("the fork server: %s", exc)  # noqa: TRY400 -- one line

    async def spawn(self, request: SpawnRequest) -> None:
        """Order the start of a process.

        The result is reported to the function passed to `attend`.
        """
        await self._order(Spawn(request))

    async def signal(self, pid: int, number: int) -> None:
        """Send a signal to one of its children. No effect on one that has ended."""
        await self._order(Signal(pid, number))

    def check_runs(self) -> None:
        """ForkServerStoppedError, with the remedy, if a signal has stopped it."""
        pid = self.process.pid
        if _is_stopped(pid):
            raise ForkServerStoppedError(
                f"a signal has stopped the fork server (pid {pid}), which starts and signals all nodes; continue it"
                f" with: kill -CONT {pid}"
            )

    def close(self) -> None:
        """Stop the fork server, which kills its children. Blocks for a few milliseconds."""
        if self._stream is not None:
            self._stream.socket.close()
        self.connection.close()
        try:
            self.process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _connected(self) -> trio.SocketStream:
        if self._stream is None:
            self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(self.connection))
        return self._stream

    async def _order(self, order: Order) -> None:
        self.check_runs()
        # Shielded: a partial order would corrupt the stream. The wait is short, because the fork server always reads.
        with trio.CancelScope(shield=True):
            async with self._sending:
                try:
                    await self._connected().send_all(ORDERS.encode(order))
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    raise ForkServerGoneError(f"the fork server (pid {self.process.pid}) is gone") from None


def _is_stopped(pid: int) -> bool:
    """Return True if a signal has stopped a child of this process.

    Always False on systems without `waitid`.
    """
    if not hasattr(os, "waitid"):
        return False
    try:
        found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return found is not None
