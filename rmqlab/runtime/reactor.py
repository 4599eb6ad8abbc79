"""One selector for all sockets of a process, awaited by one trio task.

A trio wait for each socket costs 11 to 14 us a wake-up, an epoll of our own 4 to 5, and it answers for many
sockets at once: a broker under load handles everything that is ready in one pass, and sends all that came of
it at the end of that pass. Timers, files and processes stay ordinary trio tasks.
"""

import contextlib
import selectors
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import NoReturn

import trio

from rmqlab.remoting.strangers import OncePerHost
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.fault_hooks import Transport
from rmqlab.runtime.node_faults import NodeFaults, PlainRules, process_faults
from rmqlab.runtime.timers import Timers

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE

Callback = Callable[[int], None]
Ready = tuple[selectors.SelectorKey, int]

_PASSES = 8
"""In a row, at most. Under load more is ready after each pass, and asking again costs a tenth of a wait; the timers
and tasks of the process have their turn in between."""


class Reactor:
    """Calls back when a socket is ready. All of it runs in the task that awaits `run_forever`.

    A callback or deferred call that raises is counted in `errors`, and the pass goes on with the next one. A callback
    that owns a socket closes it first: otherwise the socket stays ready and each pass fails on it again.
    """

    def __init__(self, faults: NodeFaults | None = None, errors: InternalErrors | None = None) -> None:
        self.errors = errors or InternalErrors()
        self.strangers = OncePerHost()
        self.timers = Timers(self._run_timer)
        self._selector = selectors.DefaultSelector()
        faults = faults or NodeFaults()
        self._hooks = faults.open_hooks(faults, self._selector, self.timers)
        self.links = self._hooks.links
        self.request_faults = self._hooks.requests
        self.pass_began = 0.0
        """When the requests of this pass were found waiting, by time.perf_counter."""
        self.pass_began_cpu = 0.0
        """The same by time.thread_time: what this thread has worked since is what they wait for."""
        self.owed = 0
        """Bytes that all channels owe to their peers."""
        self.buffered = 0
        """Bytes of unfinished frames in all channels."""
        self.parked = 0
        """Bytes of requests in all channels whose replies are outstanding."""
        self._again: list[tuple[float, float, Callable[[], None]]] = []
        self._copies: dict[bytes, bytes] = {}
        self._urgent: set[int] = set()
        self._deferred: list[Callable[[], None]] = []
        self._is_passing = False
        self._is_scheduled = False

    def register(self, sock: Transport, events: int, callback: Callback, *, is_urgent: bool = False) -> None:
        """Call back with the events that are ready, from the next pass on.

        An urgent one comes first in a pass, and what it has put off is done before the others have their turn: replies
        that a slave's acknowledgement sets free are on their way while the next requests are handled.
        """
        if isinstance(sock, socket.socket):
            key = self._selector.register(sock, events, callback)
            if is_urgent:
                self._urgent.add(key.fd)
        else:
            sock.watch(events, callback)

    def modify(self, sock: Transport, events: int, callback: Callback) -> None:
        """Wait for other events from now on."""
        if isinstance(sock, socket.socket):
            self._selector.modify(sock, events, callback)
        else:
            sock.watch(events, callback)

    def unregister(self, sock: Transport) -> None:
        """Forget a socket. To be called before it is closed."""
        self.links.forget(sock)
        if isinstance(sock, socket.socket):
            self._urgent.discard(self._selector.unregister(sock).fd)
        else:
            sock.unwatch()

    def follow_faults(self, rules: PlainRules) -> None:
        """Put these fault rules in force instead of those before."""
        self._hooks.follow(rules)

    def defer(self, fn: Callable[[], None]) -> None:
        """Call once at the end of this pass; from outside a pass, as soon as the event loop comes round."""
        self._deferred.append(fn)
        if not self._is_passing and not self._is_scheduled:
            self._is_scheduled = True
            trio.lowlevel.current_trio_token().run_sync_soon(self._run_scheduled)

    def again(self, fn: Callable[[], None]) -> None:
        """Call in a pass of its own, once sockets, timers and tasks had their turn.

        That pass counts as begun when this one did: what has waited so far goes on growing old (see rmqlab.broker.overload).
        """
        if not self._again:
            trio.lowlevel.current_trio_token().run_sync_soon(self._run_again)
        self._again.append((self.pass_began, self.pass_began_cpu, fn))

    def copied(self, view: memoryview) -> bytes:
        """Return the bytes of a view; the same object for the same bytes until the pass ends.

        A message that many peers wait for, and that their sockets do not take at once, is in memory once.
        """
        data = bytes(view)
        return self._copies.setdefault(data, data)

    async def run_forever(self) -> NoReturn:
        """Serve until cancelled."""
        fd = self._selector.fileno()
        while True:
            await trio.lowlevel.wait_readable(fd)
            for _ in range(_PASSES):
                if not self.run_pass():
                    break

    def run_pass(self) -> bool:
        """Handle what is ready now, then what that has put off to the end. False where nothing was ready."""
        self._is_passing = True
        try:
            ready = self._selector.select(0)
            self.pass_began, self.pass_began_cpu = time.perf_counter(), time.thread_time()
            for key, events in self._after_urgent(ready) if self._urgent and len(ready) > 1 else ready:
                self._handle(key, events)
            self._run_deferred()
        finally:
            self._is_passing = False
        return bool(ready)

    def _after_urgent(self, ready: list[Ready]) -> list[Ready]:
        """Do what is urgent; answer the rest."""
        urgent = [one for one in ready if one[0].fd in self._urgent]
        for key, events in urgent:
            self._handle(key, events)
        if urgent:
            self._run_deferred()
        return [one for one in ready if one not in urgent]

    def _handle(self, key: selectors.SelectorKey, events: int) -> None:
        try:
            key.data(events)
        except Exception as exc:  # noqa: BLE001 - a boundary
            self.errors.caught("socket callback", exc)

    def _run_timer(self, fn: Callable[[], None]) -> None:
        self.errors.call("timer", self.run, fn)

    def run(self, fn: Callable[[], None]) -> None:
        """Make a pass of this call: what it puts off happens at its end."""
        self._run_as_of(time.perf_counter(), time.thread_time(), fn)

    def _run_as_of(self, began: float, began_cpu: float, fn: Callable[[], None]) -> None:
        self._is_passing = True
        self.pass_began, self.pass_began_cpu = began, began_cpu
        try:
            fn()
            self._run_deferred()
        finally:
            self._is_passing = False

    def close(self) -> None:
        """Give the selector back. Sockets belong to those who registered them."""
        self.links.close()
        self._selector.close()

    def _run_scheduled(self) -> None:
        self._is_scheduled = False
        self.run(_nothing)

    def _run_again(self) -> None:
        again, self._again = self._again, []
        for began, began_cpu, fn in again:
            self.errors.call("resumed channel", self._run_as_of, began, began_cpu, fn)

    def _run_deferred(self) -> None:
        while self._deferred:
            deferred, self._deferred = self._deferred, []
            for fn in deferred:
                try:
                    fn()
                except Exception as exc:  # noqa: BLE001 - a boundary
                    self.errors.caught("deferred call", exc)
        if self._copies:
            self._copies.clear()


def _nothing() -> None:
    pass


@contextlib.asynccontextmanager
async def open_reactor(
    faults: NodeFaults | None = None, errors: InternalErrors | None = None
) -> AsyncIterator[Reactor]:
    """Run a reactor until the block ends: even while the block is being cancelled, for goodbyes need it.

    It follows these faults, or those of the process.
    """
    faults = faults or process_faults()
    reactor = Reactor(faults, errors)
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope(shield=True)

        async def serve_sockets() -> None:
            with scope:
                async with trio.open_nursery() as serving:
                    serving.start_soon(reactor.run_forever)
                    serving.start_soon(reactor.timers.run_forever)

        nursery.start_soon(serve_sockets)
        faults.follow(reactor.follow_faults)
        try:
            yield reactor
        finally:
            faults.unfollow(reactor.follow_faults)
            scope.cancel()
    reactor.close()
