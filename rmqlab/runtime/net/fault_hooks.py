"""Hooks of an event loop for `rmqlab.faults`.

They act on connections and requests. Without faults the cost is one attribute check for each accepted and each opened
connection (`is_active`), and one for each request (`Dispatcher.inject_fault`).
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from rmqlab.runtime.net.dispatch import Dispatcher

OnAccept = Callable[[socket.socket], None]


class VirtualSocket(Protocol):
    """Replaces a socket while a fault impairs its connection. It never blocks."""

    def recv(self, size: int, /) -> bytes:
        """As of a socket."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """As of a socket."""

    def send(self, data: bytes | memoryview, /) -> int:
        """As of a socket."""

    def sendmsg(self, buffers: Sequence[bytes | memoryview], /) -> int:
        """As of a socket."""

    def close(self) -> None:
        """As of a socket."""

    def watch(self, events: int, callback: Callable[[int], None]) -> None:
        """Call back with those of these events that are ready.

        Replaces the previous watch.
        """

    def unwatch(self) -> None:
        """Stop calling back."""


Transport = socket.socket | VirtualSocket


class TransportOwner(Protocol):
    """The owner of a connection's socket."""

    def replace_transport(self, sock: Transport) -> None:
        """Use this transport from now on.

        Called between two passes of the event loop only.
        """


class LinkHook(Protocol):
    """Hooks for each connection of an event loop."""

    served_ports: set[int]
    """Ports that this process listens at."""

    @property
    def is_active(self) -> bool:
        """True while a link of this process is impaired.

        Otherwise `admit` and `dial` need not be called.
        """

    def attach(self, owner: TransportOwner, sock: socket.socket) -> Transport:
        """Register a connection.

        Return the transport that its owner must use instead of the socket.
        """

    def forget(self, sock: Transport) -> None:
        """Unregister a connection before it is closed."""

    def admit(self, sock: socket.socket, on_accept: OnAccept) -> None:
        """Pass on an accepted connection, now or later, or close it."""

    async def dial(self, host: str, port: int) -> None:
        """Wait for the network's delay before a connect. OSError if the connect must fail."""

    def close(self) -> None:
        """Close the sockets that have no owner."""


class RequestHook(Protocol):
    """Intercepts requests before their handlers."""

    def watch(self, dispatcher: Dispatcher[Any]) -> None:
        """Intercept the requests of this dispatcher, too."""


@attrs.frozen
class ReactorHooks:
    """The hooks of one event loop."""

    links: LinkHook
    requests: RequestHook
    follow: Callable[[Mapping[str, Any]], None]
    """Called with the rules of this node when they change."""


class DirectLinks:
    """A network without faults."""

    is_active = False

    def __init__(self) -> None:
        self.served_ports: set[int] = set()

    def attach(self, _owner: TransportOwner, sock: socket.socket) -> Transport:
        return sock

    def forget(self, sock: Transport) -> None:
        pass

    def admit(self, sock: socket.socket, on_accept: OnAccept) -> None:
        on_accept(sock)

    async def dial(self, host: str, port: int) -> None:
        pass

    def close(self) -> None:
        pass


class UnwatchedRequests:
    """Requests that no fault intercepts."""

    def watch(self, dispatcher: Dispatcher[Any]) -> None:
        pass


def no_hooks(_faults: object, _selector: object, _timers: object) -> ReactorHooks:
    """Return the hooks of a process without faults."""
    return ReactorHooks(DirectLinks(), UnwatchedRequests(), lambda _rules: None)
