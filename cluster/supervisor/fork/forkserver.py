"""The fork server: imports all modules once, and forks every node of the cluster.

    python -m rmqlab.cluster.supervisor.fork.forkserver FD fork|exec MODULE...

The imports of a process cost 120 ms and 15 MB; forking a process that has them costs 3 ms, with shared memory. Each
module is imported when the first process needs it, or while no order is pending, so that the first nodes start before
all modules are imported. What brokers need is imported in steps, so that the nameserver starts meanwhile.
The server is a loop without threads and without trio, so that forking is safe. It is the parent of all nodes: only this
process signals them and reaps them, so a signal cannot hit another process with a reused pid. When the supervisor
ends, for any reason, the socket closes, and the fork server kills all its children.
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
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import attrs
import trio

from rmqlab.cluster.supervisor.fork.child import SpawnRequest, run_child, spawn_argument
from rmqlab.cluster.supervisor.fork.forklaunch import LATER_MODULES
from rmqlab.cluster.supervisor.fork.immortal import make_objects_immortal
from rmqlab.cluster.supervisor.fork.ownmodules import module_command
from rmqlab.cluster.supervisor.fork.prewarm import prewarm
from rmqlab.runtime.node.logfile import redirect_output
from rmqlab.runtime.node.mapcodec import CHUNK, MapCodec, MapDecoder

QUIET_TIME = 0.2
"""Seconds without an order after which one of LATER_MODULES is imported in advance."""
MANY = 8
"""Forks after which the memory of further ones is worth the time of `make_objects_immortal`: some 0.15 s."""


@attrs.frozen
class Spawn:
    """Start a process."""

    request: SpawnRequest


@attrs.frozen
class Signal:
    """Send a signal to a process, unless it has already ended."""

    pid: int
    number: int


@attrs.frozen
class LogTo:
    """Append stdout and stderr to a file from now on."""

    path: str


@attrs.frozen
class Spawned:
    """The request of this id has this process id."""

    id: int
    pid: int


@attrs.frozen
class NotSpawned:
    """The process could not be started."""

    id: int
    reason: str


@attrs.frozen
class Exited:
    """A process ended, with this exit status, or by this signal if negative."""

    pid: int
    status: int


@attrs.frozen
class Stopped:
    """A process is paused (SIGSTOP)."""

    pid: int


@attrs.frozen
class Continued:
    """A process is running again (SIGCONT)."""

    pid: int


Order = Spawn | Signal | LogTo
Report = Spawned | NotSpawned | Exited | Stopped | Continued
ORDERS: MapCodec[Order] = MapCodec(Order)
REPORTS: MapCodec[Report] = MapCodec(Report)


@attrs.define(eq=False)
class ForkLoop:
    """The fork server's connection to the supervisor, and its running children."""

    connection: socket.socket
    is_forking: bool
    modules: list[str] = attrs.field(factory=list)
    """Modules that are not imported yet."""
    _decoder: MapDecoder[Order] = attrs.field(factory=ORDERS.decoder, init=False)
    _is_ordered: bool = attrs.field(default=False, init=False)
    _forks: int = attrs.field(default=0, init=False)
    _children: set[int] = attrs.field(factory=set, init=False)
    _wakeup: tuple[socket.socket, socket.socket] = attrs.field(factory=socket.socketpair, init=False)

    def serve(self) -> None:
        """Execute orders until the supervisor ends; then kill all children."""
        self._wakeup[1].setblocking(False)
        signal.set_wakeup_fd(self._wakeup[1].fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only to wake the selector
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self.connection, selectors.EVENT_READ)
                selector.register(self._wakeup[0], selectors.EVENT_READ)
                while self._serve_ready(selector):
                    pass
        except ConnectionError:
            return  # equivalent to the end of the stream
        finally:
            self._kill_all()

    def _serve_ready(self, selector: selectors.BaseSelector) -> bool:
        """Wait once, and serve what is ready. False at the end of the stream."""
        ready = selector.select(self._patience)
        if not ready:
            self._import(self.modules[0])
            if not self.modules:
                make_objects_immortal()
        for key, _ in ready:
            if key.fileobj is self._wakeup[0]:
                self._wakeup[0].recv(CHUNK)
                self._report_changes()
            elif data := self.connection.recv(CHUNK):
                self._is_ordered = True
                self._decoder.feed(data)
                for order in self._decoder.messages():
                    self._obey(order, selector)
            else:
                return False
        return True

    def _obey(self, order: Order, selector: selectors.BaseSelector) -> None:
        match order:
            case Spawn(request):
                try:
                    pid = self._fork(request, selector) if self.is_forking else _execute(request)
                except (OSError, ValueError) as exc:
                    self._report(NotSpawned(request.id, str(exc)))
                else:
                    self._children.add(pid)
                    self._report(Spawned(request.id, pid))
            case Signal(pid, number) if (
                pid in self._children
            ):  # a child that is not reaped yet: its pid cannot be reused
                with contextlib.suppress(OSError):  # invalid signal number
                    os.kill(pid, number)
            case LogTo(path):
                with contextlib.suppress(OSError):  # its output stays that of the parent
                    redirect_output(Path(path))
            case _:
                pass

    @property
    def _patience(self) -> float | None:
        """Seconds to wait for an order before importing the next module."""
        if not self.modules:
            return None
        return QUIET_TIME if self._is_ordered and self.modules[0] in LATER_MODULES else 0.0

    def _import(self, module: str) -> None:
        preload(module)
        self.modules.remove(module)

    def _fork(self, request: SpawnRequest, selector: selectors.BaseSelector) -> int:
        if request.module in self.modules:
            self._import(request.module)
        if self._forks == MANY:
            make_objects_immortal()
        self._forks += 1
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
            gc.enable()
            run_child(request, parent)
        finally:  # a child must never return into its parent's loop
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


def _execute(request: SpawnRequest) -> int:
    arguments = module_command("rmqlab.cluster.supervisor.fork.child", spawn_argument(request), str(os.getpid()))
    return os.posix_spawn(sys.executable, arguments, os.environ)


def preload(module: str) -> None:
    """Import a module for children, and prewarm their start.

    A failed import is reported by the child that needs it.
    """
    try:
        prewarm(importlib.import_module(module))
    except Exception:  # noqa: BLE001 -- logged here, and by the child with its node's name
        traceback.print_exc()
    gc.freeze()  # garbage collection in a child must not write to, and so copy, shared pages


def serve(connection: socket.socket, modules: Sequence[str], *, is_forking: bool = True) -> NoReturn:
    """Run a fork server in this process, which has no other threads."""
    if is_forking:
        gc.disable()  # a collection would free next to nothing, and an import causes dozens; children enable it
        trio.run(trio.lowlevel.checkpoint)  # initialize trio once, before forking
    with connection:
        ForkLoop(connection, is_forking, [*modules] if is_forking else []).serve()
    sys.exit(0)


def main() -> NoReturn:
    descriptor, spawn_method, *modules = sys.argv[1:]
    serve(socket.socket(fileno=int(descriptor)), modules, is_forking=spawn_method == "fork")


if __name__ == "__main__":
    main()
