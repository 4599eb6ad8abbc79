"""One selector for all sockets of a process, awaited by one trio task.

A trio wait per socket costs 11 to 14 us per wake-up, our own epoll 4 to 5 us, and it returns many ready sockets at
once: a broker under load handles all ready sockets in one pass, and sends the resulting bytes at the end of that pass.
Timers, files and processes stay ordinary trio tasks.
"""

import contextlib
import functools
import selectors
import socket
from collections.abc import AsyncIterator, Callable
from typing import NoReturn

import trio

from rmqlab.remoting.foreignprotocol import OncePerHost
from rmqlab.runtime import stopwatch
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.net.eviction_log import EvictionLog
from rmqlab.runtime.net.fault_hooks import Transport
from rmqlab.runtime.net.meter import Meter
from rmqlab.runtime.net.network import network
from rmqlab.runtime.net.node_faults import NodeFaults, PlainRules, process_faults
from rmqlab.runtime.net.timers import Timers

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE

Callback = Callable[[int], None]
Ready = tuple[selectors.SelectorKey, int]

_PASSES = 8
"""Maximum number of consecutive passes. Under load sockets are ready after each pass, and polling again costs a tenth
of a trio wait; afterwards timers and tasks of the process run."""
_IDLE_PASSES = 32
"""The same while trio has nothing else to do."""
_PASSES_SECONDS = 0.02
"""Seconds after which no further pass follows: with many busy peers a pass can need seconds."""


class Reactor:
    """Calls back when a socket is ready.

    All callbacks run in the task that awaits `run_forever`.

    If a callback or deferred call raises, the exception is counted in `errors` and the pass continues. A callback that
    owns a socket must close it before it raises: otherwise the socket stays ready and fails again in each pass.
    """

    def __init__(self, faults: NodeFaults | None = None, errors: InternalErrors | None = None) -> None:
        self.errors = errors or InternalErrors()
        self.foreign_hosts = OncePerHost()
        self.evictions = EvictionLog()
        self.timers = Timers(self._run_timer)
        self._network = network()
        self._selector = self._network.open_selector()
        faults = faults or NodeFaults()
        self._hooks = faults.open_hooks(faults, self._selector, self.timers)
        self.links = self._hooks.links
        self.request_faults = self._hooks.requests
        self.meter = Meter()
        """Counts the bytes of all channels that have no meter of their own."""
        self.pass_began = 0.0
        """Begin of this pass, by stopwatch.wall."""
        self.pass_began_cpu = 0.0
        """Begin of this pass, by stopwatch.cpu: the CPU time since then delays the requests of this pass."""
        self.owed = 0
        """Bytes that all channels together owe to their peers."""
        self.buffered = 0
        """Bytes of incomplete frames in all channels."""
        self.parked = 0
        """Bytes of parked requests in all channels."""
        self.kept = 0
        """Received frames in all channels that wait to be served."""
        self.sharers = 1
        """Sockets, or resumed channels, that share the time of this pass."""
        self.serves_one = False
        """True while the only received frame of a pass is served: no other work of this pass will share a send."""
        self._again: list[tuple[float, float, Callable[[], None]]] = []
        self._copies: dict[bytes, bytes] = {}
        self._urgent: set[int] = set()
        self._deferred: list[Callable[[], None]] = []
        self._is_passing = False
        self._is_scheduled = False

    def register(self, sock: Transport, events: int, callback: Callback, *, is_urgent: bool = False) -> None:
        """Call back with the ready events of a socket, from the next pass on.

        Urgent sockets are handled first in a pass, including their deferred calls: replies that a slave's
        acknowledgement releases are sent before the next requests are handled.
        """
        if isinstance(sock, socket.socket):
            key = self._selector.register(sock, events, callback)
            if is_urgent:
                self._urgent.add(key.fd)
        else:
            sock.watch(events, callback)

    def modify(self, sock: Transport, events: int, callback: Callback) -> None:
        """Watch other events from now on."""
        if isinstance(sock, socket.socket):
            self._selector.modify(sock, events, callback)
        else:
            sock.watch(events, callback)

    def unregister(self, sock: Transport) -> None:
        """Remove a socket. Call this before closing it."""
        self.links.forget(sock)
        if isinstance(sock, socket.socket):
            self._urgent.discard(self._selector.unregister(sock).fd)
        else:
            sock.unwatch()

    def follow_faults(self, rules: PlainRules) -> None:
        """Replace the fault rules."""
        self._hooks.follow(rules)

    def defer(self, fn: Callable[[], None]) -> None:
        """Call `fn` once at the end of this pass.

        Outside of a pass, it is called in the next turn of the event loop.
        """
        self._deferred.append(fn)
        if not self._is_passing and not self._is_scheduled:
            self._is_scheduled = True
            self._network.call_soon(self._run_scheduled)

    def again(self, fn: Callable[[], None]) -> None:
        """Call `fn` in a pass of its own, after sockets, timers and tasks.

        That pass keeps the start time of this one, so that the age of waiting requests includes the wait (see
        rmqlab.broker.overload).
        """
        if not self._again:
            self._network.call_soon(self._run_again)
        self._again.append((self.pass_began, self.pass_began_cpu, fn))

    def copied(self, view: memoryview) -> bytes:
        """Return the bytes of a view.

        Equal bytes are one shared object until the pass ends.

        So a message that waits in the send buffers of many peers is in memory only once.
        """
        data = bytes(view)
        return self._copies.setdefault(data, data)

    async def run_forever(self, *, lingers: bool = False) -> NoReturn:
        """Run passes until cancelled.

        `lingers`: for servers, which may wait for sockets outside of trio; see `rmqlab.runtime.net.turns`.
        """
        with self._network.observed_turns() if lingers else contextlib.nullcontext() as turns:
            while True:
                await self._network.wait_ready(self._selector)
                wait, until = 0.0, stopwatch.wall() + _PASSES_SECONDS
                for passes in range(1, _IDLE_PASSES + 1):
                    if not self.run_pass(wait) or stopwatch.wall() > until:
                        break
                    has_calls = self._again or self._is_scheduled
                    wait = 0.0 if turns is None or has_calls else turns.seconds_to_spare(self.pass_began)
                    if passes >= _PASSES and not wait:
                        break

    def run_pass(self, wait: float = 0.0) -> bool:
        """Handle all ready sockets, then the deferred calls.

        Block for at most `wait` seconds. Return False if no socket was ready.
        """
        self._is_passing = True
        try:
            ready = self._selector.select(wait)
            self.pass_began, self.pass_began_cpu = stopwatch.wall(), stopwatch.cpu()
            self.sharers = len(ready) or 1
            for key, events in self._after_urgent(ready) if self._urgent and len(ready) > 1 else ready:
                self._handle(key, events)
            self._run_deferred()
        finally:
            self._is_passing = False
        return bool(ready)

    def _after_urgent(self, ready: list[Ready]) -> list[Ready]:
        """Handle the urgent sockets; return the others."""
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
        """Call `fn` as a pass: its deferred calls run at the end."""
        self._run_as_of(stopwatch.wall(), stopwatch.cpu(), fn)

    def _run_as_of(self, began: float, began_cpu: float, fn: Callable[[], None]) -> None:
        self._is_passing = True
        self.pass_began, self.pass_began_cpu = began, began_cpu
        try:
            fn()
            self._run_deferred()
        finally:
            self._is_passing = False

    def close(self) -> None:
        """Close the selector. Sockets are closed by their owners."""
        self.links.close()
        self._selector.close()

    def _run_scheduled(self) -> None:
        self._is_scheduled = False
        self.run(_nothing)

    def _run_again(self) -> None:
        again, self._again = self._again, []
        self.sharers = len(again)
        for began, began_cpu, fn in again:
            self.errors.call("resumed channel", self._run_as_of, began, began_cpu, fn)

    def _run_deferred(self) -> None:
        self.serves_one = False
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
    faults: NodeFaults | None = None, errors: InternalErrors | None = None, *, lingers: bool = False
) -> AsyncIterator[Reactor]:
    """Run a reactor until the block ends.

    It also runs during the block's cleanup after a cancellation. The reactor applies these faults, or by default those
    of the process. `lingers` as in `Reactor.run_forever`.
    """
    faults = faults or process_faults()
    reactor = Reactor(faults, errors)
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope(shield=True)

        async def serve_sockets() -> None:
            with scope:
                async with trio.open_nursery() as serving:
                    serving.start_soon(functools.partial(reactor.run_forever, lingers=lingers))
                    serving.start_soon(reactor.timers.run_forever)

        nursery.start_soon(serve_sockets)
        faults.follow(reactor.follow_faults)
        try:
            yield reactor
        finally:
            faults.unfollow(reactor.follow_faults)
            scope.cancel()
    reactor.close()
