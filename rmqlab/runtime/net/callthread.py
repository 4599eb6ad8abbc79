"""A thread for calls that block and follow one another at once.

Such are syncs of a log that sends wait for.

`rmqlab.runtime.net.worker` asks trio for a thread for each call, which costs some ten system calls and three passes of
trio's scheduler. This thread is woken by a lock, and reports to the selector of the event loop. A simulation has no
threads: there the calls are made by a task, with the time for which they would have blocked.
"""

import contextlib
import functools
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import trio

from rmqlab.runtime.net.reactor import READ, Reactor
from rmqlab.runtime.net.worker import are_inline, each_in_thread

Calls = Sequence[Callable[[], object]]
Done = Callable[[BaseException | None], None]
StartSoon = Callable[[Callable[[], Awaitable[object]]], object]


class Caller(Protocol):
    """Makes calls that may block, beside the event loop."""

    def start(self, calls: Calls, done: Done, /) -> None:
        """Make these calls in order; the first that raises ends them.

        Then call `done` in a pass of the event loop, with what was raised. Until then nothing else may be started.
        RuntimeError or OSError if the system has no thread or descriptor left: then nothing is started.
        """

    async def close(self) -> None:
        """Wait until `done` was called, also when cancelled."""


class CallThread:
    """Makes calls in a thread.

    It starts with the first calls, and runs until `close`.
    """

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._wake = threading.Lock()
        self._wake.acquire()
        self._job: tuple[Calls, Done] | None = None
        self._error: BaseException | None = None
        self._idle = trio.Event()
        self._thread: threading.Thread | None = None
        self._ends = contextlib.ExitStack()
        self._near: socket.socket
        self._far: socket.socket

    def start(self, calls: Calls, done: Done) -> None:
        if self._thread is None:
            self._thread = self._open()
        self._job = calls, done
        self._wake.release()

    def _open(self) -> threading.Thread:
        with contextlib.ExitStack() as ends:
            self._near, self._far = (ends.enter_context(sock) for sock in socket.socketpair())
            self._near.setblocking(False)
            self._reactor.register(self._near, READ, self._report)
            ends.callback(self._reactor.unregister, self._near)
            thread = threading.Thread(target=self._serve, name="calls", daemon=True)
            thread.start()
            self._ends = ends.pop_all()
        return thread

    def _serve(self) -> None:
        """Run in the thread."""
        while self._wake.acquire() and self._job is not None:
            try:
                for call in self._job[0]:
                    call()
            except BaseException as exc:  # noqa: BLE001 - `done` gets it
                self._error = exc
            self._far.send(b"\0")

    def _report(self, _events: int) -> None:
        """Run in the event loop when the calls have ended."""
        self._near.recv(1)
        assert self._job is not None
        (_, done), error = self._job, self._error
        self._job = self._error = None
        try:
            done(error)
        finally:
            if self._job is None:
                self._idle.set()

    async def close(self) -> None:
        if self._thread is None:
            return
        with trio.CancelScope(shield=True):
            while self._job is not None:
                self._idle = trio.Event()
                await self._idle.wait()
        self._wake.release()
        self._thread.join()
        self._thread = None
        self._ends.close()


class TaskCalls:
    """Makes calls in a task of its own.

    When the task is cancelled, `done` is not called.
    """

    def __init__(self, reactor: Reactor, start_soon: StartSoon) -> None:
        self._reactor = reactor
        self._start_soon = start_soon

    def start(self, calls: Calls, done: Done) -> None:
        self._start_soon(functools.partial(self._call, calls, done))

    async def _call(self, calls: Calls, done: Done) -> None:
        error: Exception | None = None
        try:
            await each_in_thread(calls)
        except Exception as exc:  # noqa: BLE001 - `done` gets it
            error = exc
        self._reactor.run(functools.partial(done, error))

    async def close(self) -> None:
        """Return at once: the task ends with its nursery."""


def caller(reactor: Reactor, start_soon: StartSoon) -> Caller:
    """Return a thread of this process.

    In a simulation, return tasks that `start_soon` starts.
    """
    return TaskCalls(reactor, start_soon) if are_inline() else CallThread(reactor)
