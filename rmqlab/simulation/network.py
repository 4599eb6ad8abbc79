"""The simulated network: addresses, ports, and each node's part of it."""

import contextlib
import errno
import itertools
import selectors
import socket
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import trio

from rmqlab.simulation.connection import ConnectedSocket, ListeningSocket, SimulatedSocket, failure
from rmqlab.simulation.machine import Machine, Node
from rmqlab.simulation.medium import Medium

_FIRST_PORT = 32_768
_ANY = "0.0.0.0"


class Fabric(Medium):
    """The network that connects all nodes of a machine."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._listeners: dict[tuple[str, int], ListeningSocket] = {}
        self._ports = itertools.count(_FIRST_PORT)

    def listen(self, node: Node, address: tuple[str, int], backlog: int) -> ListeningSocket:
        """Open a port. OSError(EADDRINUSE) if it is open already."""
        host, port = address
        address = host, port or next(self._ports)
        if any(port == address[1] and (at == host or _ANY in (at, host)) for at, port in self._listeners):
            raise failure(errno.EADDRINUSE)
        listener = self._listeners[address] = ListeningSocket(
            self, node, address, backlog, on_closed=lambda: self._listeners.pop(address, None)
        )
        return listener

    def connect(self, node: Node, source: str, target: tuple[str, int]) -> ConnectedSocket:
        """Return the near end of a new connection.

        Raises ConnectionRefusedError if nothing listens there.
        """
        listener = self._listeners.get(target) or self._listeners.get((_ANY, target[1]))
        if listener is None or not listener.has_room:
            raise failure(errno.ECONNREFUSED)
        near, far = ConnectedSocket.pair(self, ((node, (source, next(self._ports))), (listener.node, target)))
        listener.connected(far)
        return near


@attrs.define(eq=False)
class SimulatedNetwork:
    """The network of one node (a `rmqlab.runtime.net.network.Network`)."""

    fabric: Fabric
    node: Node
    host: str = "127.0.0.1"
    """The default source address of connections."""

    def open_selector(self) -> selectors.BaseSelector:
        return SimulatedSelector(self.fabric.machine, self.node)

    async def wait_ready(self, selector: selectors.BaseSelector) -> None:
        assert isinstance(selector, SimulatedSelector)
        await selector.wait()

    def observed_turns(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()  # a simulated selector cannot block

    def call_soon(self, fn: Callable[[], None]) -> None:
        self.fabric.machine.call_in(self.node, fn)

    def listen(self, host: str, port: int, backlog: int) -> socket.socket:
        return self.fabric.listen(self.node, (host, port), backlog)

    async def connect(self, host: str, port: int, source_ip: str | None) -> socket.socket:
        await trio.sleep(self.fabric.latency())
        near = self.fabric.connect(self.node, source_ip or self.host, (host, port))
        try:
            await trio.sleep(self.fabric.latency())
        except trio.Cancelled:
            near.close()
            raise
        return near


class SimulatedSelector(selectors.BaseSelector):
    """Selects among simulated sockets of one node.

    Returns sockets in the order in which they became ready.
    """

    def __init__(self, machine: Machine, node: Node) -> None:
        self._machine = machine
        self._node = node
        self._keys: dict[int, selectors.SelectorKey] = {}
        """By number of the socket, which is faster to look up than the socket."""
        self._noted: dict[int, None] = {}
        self._waiting: trio.lowlevel.Task | None = None

    def note(self, sock: SimulatedSocket) -> None:
        """Check a socket that may have become ready."""
        key = self._keys.get(sock.number)
        if key is not None:
            self._noted[sock.number] = None
            if self._waiting is not None and sock.readiness() & key.events:
                self._machine.call_in(self._node, self._wake)

    def _wake(self) -> None:
        if self._waiting is not None:
            task, self._waiting = self._waiting, None
            trio.lowlevel.reschedule(task)

    async def wait(self) -> None:
        """Wait until a socket is ready."""
        if self._ready():
            await trio.lowlevel.checkpoint()
            return

        def abort(_: object) -> trio.lowlevel.Abort:
            self._waiting = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._waiting = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        ready = []
        for number in [*self._noted]:
            key = self._keys.get(number)
            if key is not None and (events := key.fileobj.readiness() & key.events):  # type: ignore[union-attr]
                ready.append((key, events))
            else:
                del self._noted[number]
        return ready

    # ---- as of a selector ----

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if fileobj.number in self._keys:
            raise KeyError(f"{fileobj} is registered already")
        key = self._keys[fileobj.number] = selectors.SelectorKey(fileobj, fileobj.number, events, data)
        fileobj.selector = self
        self.note(fileobj)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = self._keys.pop(fileobj.number)
        self._noted.pop(fileobj.number, None)
        fileobj.selector = None
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if fileobj.number not in self._keys:
            raise KeyError(f"{fileobj} is not registered")
        key = self._keys[fileobj.number] = selectors.SelectorKey(fileobj, fileobj.number, events, data)
        self.note(fileobj)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:  # noqa: ARG002 -- does not wait
        return self._ready()

    def close(self) -> None:
        self._keys.clear()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {key.fileobj: key for key in self._keys.values()}
