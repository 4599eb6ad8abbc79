"""The supervisor's side of the fork server: births, signals, and what became of whom."""

import logging
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import trio

from rmqlab.cluster.supervisor.child import SpawnRequest
from rmqlab.cluster.supervisor.forklaunch import launch
from rmqlab.cluster.supervisor.forkserver import (
    ORDERS,
    REPORTS,
    Continued,
    Exited,
    NotSpawned,
    Order,
    Report,
    Signal,
    Spawn,
    Spawned,
    Stopped,
)
from rmqlab.runtime.mapcodec import ControlError, receive_messages

log = logging.getLogger(__name__)

CLOSE_SECONDS = 5.0


class ForkServerGoneError(Exception):
    """The fork server ended, and all its children with it."""


@attrs.define(eq=False)
class ForkServer:
    """A running fork server: started at once, attended by a task, closed in the end."""

    process: subprocess.Popen[bytes]
    connection: socket.socket
    _stream: trio.SocketStream | None = attrs.field(default=None, init=False)
    _ids: dict[int, int] = attrs.field(factory=dict, init=False)  # process id to birth id
    _sending: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    @classmethod
    def start(cls, modules: Sequence[str], log: Path, way: str | None = None) -> "ForkServer":
        """Start one that imports these modules. It is busy with it for a while, and hears orders meanwhile."""
        return cls(*launch(log, modules, way))

    async def attend(self, changed: Callable[[int, Report], object]) -> None:
        """Hand over what becomes of each birth, by its id, until the fork server ends."""

        def handle(report: Report) -> None:
            match report:
                case Spawned(id=birth, pid=pid):
                    self._ids[pid] = birth
                case NotSpawned(id=birth):
                    pass
                case Exited(pid=pid) if pid in self._ids:
                    birth = self._ids.pop(pid)
                case Stopped(pid=pid) | Continued(pid=pid) if pid in self._ids:
                    birth = self._ids[pid]
                case _:
                    log.error("the fork server reported %s: not a child that it was asked for", report)
                    return
            changed(birth, report)

        try:
            await receive_messages(self._connected(), REPORTS, handle)
        except ControlError as exc:  # nothing that it says can be understood any more
            log.error("the fork server: %s", exc)  # noqa: TRY400 -- one line

    async def spawn(self, birth: SpawnRequest) -> None:
        """Order a birth. What became of it is reported to whoever attends."""
        await self._order(Spawn(birth))

    async def signal(self, pid: int, number: int) -> None:
        """Signal one of its children; one that has ended is left alone."""
        await self._order(Signal(pid, number))

    def close(self) -> None:
        """End it; it kills what it has started. Blocks for the few milliseconds that this takes."""
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
        # Shielded: half an order would garble all that follow. It never waits long: the fork server always reads.
        with trio.CancelScope(shield=True):
            async with self._sending:
                try:
                    await self._connected().send_all(ORDERS.encode(order))
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    raise ForkServerGoneError(f"the fork server (pid {self.process.pid}) is gone") from None
