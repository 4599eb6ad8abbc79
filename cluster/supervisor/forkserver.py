"""The fork server: a process that imports everything once, and becomes every node of the cluster by forking.

    python -m rmqlab.cluster.supervisor.forkserver FD fork|exec MODULE...

Importing costs a process 120 ms and 15 MB; forking one that has imported costs 3 ms, and its memory is shared. Each
module is imported when the first process needs it; or while there is no order yet, or none for a while: so that the
first nodes start while the rest is still to come.
It is one plain loop without threads and without trio, so that what it forks is whole. It is the parent of all
nodes: it alone signals them and collects their ends, so no signal can reach a process that merely inherited a
number. When the supervisor goes, however it goes, the socket ends, and the fork server kills all it has started.
"""

import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import traceback
from typing import NoReturn

import attrs
import trio

from rmqlab.cluster.supervisor.child import SpawnRequest, live, spawn_argument
from rmqlab.runtime.mapcodec import CHUNK, MapCodec

QUIET_TIME = 0.2
"""Seconds without an order after which there is time to import what nobody has needed yet."""


@attrs.frozen
class Spawn:
    """Start a process."""

    birth: SpawnRequest


@attrs.frozen
class Signal:
    """Signal a process, unless it has already ended."""

    pid: int
    number: int


@attrs.frozen
class Spawned:
    """The birth of this id has this process id."""

    id: int
    pid: int


@attrs.frozen
class NotSpawned:
    """The machine refused."""

    id: int
    reason: str


@attrs.frozen
class Exited:
    """A process ended: with an exit status, or by a signal where negative."""

    pid: int
    status: int


@attrs.frozen
class Stopped:
    """A process stands still (SIGSTOP)."""

    pid: int


@attrs.frozen
class Continued:
    """A process moves again (SIGCONT)."""

    pid: int


Order = Spawn | Signal
Report = Spawned | NotSpawned | Exited | Stopped | Continued
ORDERS: MapCodec[Order] = MapCodec(Order)
REPORTS: MapCodec[Report] = MapCodec(Report)


@attrs.define(eq=False)
class ForkLoop:
    """The fork server's state: a connection to the supervisor, and the children that have not ended."""

    connection: socket.socket
    is_forking: bool
    modules: list[str] = attrs.field(factory=list)
    """What is still to be imported."""
    _is_ordered: bool = attrs.field(default=False, init=False)
    _children: set[int] = attrs.field(factory=set, init=False)
    _wakeup: tuple[socket.socket, socket.socket] = attrs.field(factory=socket.socketpair, init=False)

    def serve(self) -> None:
        """Obey until the supervisor is gone; then leave nothing behind."""
        decoder = ORDERS.decoder()
        self._wakeup[1].setblocking(False)
        signal.set_wakeup_fd(self._wakeup[1].fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only to be woken
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self.connection, selectors.EVENT_READ)
                selector.register(self._wakeup[0], selectors.EVENT_READ)
                while True:
                    ready = selector.select(self._patience)
                    if not ready:
                        self._import(self.modules[0])
                    for key, _ in ready:
                        if key.fileobj is self._wakeup[0]:
                            self._wakeup[0].recv(CHUNK)
                            self._report_changes()
                        elif data := self.connection.recv(CHUNK):
                            decoder.feed(data)
                            self._is_ordered = True
                            for order in decoder.messages():
                                self._obey(order, selector)
                        else:
                            return
        except ConnectionError:
            return  # as good as an end of file
        finally:
            self._kill_all()

    def _obey(self, order: Order, selector: selectors.BaseSelector) -> None:
        match order:
            case Spawn(birth):
                try:
                    pid = self._fork(birth, selector) if self.is_forking else _execute(birth)
                except (OSError, ValueError) as exc:
                    self._report(NotSpawned(birth.id, str(exc)))
                else:
                    self._children.add(pid)
                    self._report(Spawned(birth.id, pid))
            case Signal(pid, number) if (
                pid in self._children
            ):  # ours and not yet collected: the number is still its own
                with contextlib.suppress(OSError):  # a number that is no signal's
                    os.kill(pid, number)
            case _:
                pass

    @property
    def _patience(self) -> float | None:
        """Seconds to wait for an order until there is time to import."""
        if not self.modules:
            return None
        return QUIET_TIME if self._is_ordered else 0.0

    def _import(self, module: str) -> None:
        preload(module)
        self.modules.remove(module)

    def _fork(self, birth: SpawnRequest, selector: selectors.BaseSelector) -> int:
        if birth.module in self.modules:
            self._import(birth.module)
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            selector.close()
            for end in (self.connection, *self._wakeup):
                end.close()
            live(birth, parent)
        finally:  # whatever happens, a child must never return into its parent's loop
            os._exit(1)

    def _report_changes(self) -> None:
        while self._children:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                self._report(Stopped(pid))
            elif os.WIFCONTINUED(status):
                self._report(Continued(pid))
            else:
                self._children.discard(pid)
                self._report(Exited(pid, os.waitstatus_to_exitcode(status)))

    def _report(self, report: Report) -> None:
        self.connection.sendall(REPORTS.encode(report))

    def _kill_all(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        for pid in self._children:
            os.waitpid(pid, 0)


def _execute(birth: SpawnRequest) -> int:
    arguments = [sys.executable, "-m", "rmqlab.cluster.supervisor.child", spawn_argument(birth), str(os.getpid())]
    return os.posix_spawn(sys.executable, arguments, os.environ)


def preload(module: str) -> None:
    """Import what children will need. What cannot be imported is the child's failure, not ours."""
    try:
        importlib.import_module(module)
    except Exception:  # noqa: BLE001 -- told here, and again, with its node's name, by the child
        traceback.print_exc()
    gc.collect()
    gc.freeze()  # the collector of a child must not touch, and so copy, the pages it shares with us


def main() -> NoReturn:
    descriptor, way, *modules = sys.argv[1:]
    is_forking = way == "fork"
    if is_forking:
        trio.run(trio.lowlevel.checkpoint)  # what trio sets up at its first run, set up once
    with socket.socket(fileno=int(descriptor)) as connection:
        ForkLoop(connection, is_forking, modules if is_forking else []).serve()
    sys.exit(0)


if __name__ == "__main__":
    main()
