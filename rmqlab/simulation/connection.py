"""Connections of the simulated network.

They are byte streams with latency, flow control, ends and resets.

Differences from the kernel's TCP: a packet is never lost (link faults delay or drop whole connections, as on real
sockets), there is no slow start, and keep-alive probes do not exist.
"""

import abc
import errno
import os
import selectors
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import attrs

from rmqlab.simulation.machine import Node, ProcessResource
from rmqlab.simulation.medium import Medium

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
WINDOW = 2 * 2**20
"""Bytes that are sent and not yet received by the peer's process, unless SO_RCVBUF sets another limit."""
_MERGED = 64 * 2**10
"""Small pieces that wait to be received are joined up to this size, in bytes."""


class Watcher(Protocol):
    """A selector in which a socket is registered."""

    def note(self, sock: "SimulatedSocket", /) -> None:
        """A socket may have become ready."""


class SimulatedSocket(socket.socket, ProcessResource):
    """A `socket.socket` of a simulated network, without a descriptor."""

    medium: Medium
    node: Node
    selector: Watcher | None

    def __new__(cls, *_args: object, **_options: object) -> Self:
        return super().__new__(cls)

    def __init__(self, medium: Medium, node: Node, own: tuple[str, int]) -> None:
        # Not super().__init__: it would make a descriptor. `_closed` is for socket.socket.__exit__.
        self._closed = False
        self.medium, self.node, self.own = medium, node, own
        self.selector = None
        self.number = medium.next_number()
        self.is_closed = False
        self.is_aborting = False
        self.window = WINDOW
        node.resources[self] = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.number} of {self.node.name} at {self.own}>"

    def __hash__(self) -> int:
        return self.number  # the same in every run: sets and dicts of sockets have one order

    def __eq__(self, other: object) -> bool:
        return self is other

    @abc.abstractmethod
    def readiness(self) -> int:
        """Return the events that are ready."""

    def changed(self) -> None:
        """Let the selector check the socket again."""
        if self.selector is not None:
            self.selector.note(self)

    def fileno(self) -> int:
        return -1 if self.is_closed else self.number

    def setblocking(self, flag: bool, /) -> None:  # noqa: FBT001 -- as in socket.socket
        """Accept all: a simulated socket never blocks."""

    def setsockopt(self, level: int, name: int, value: Any, *_more: Any) -> None:
        """Set whether closing resets the connection, or set its receive buffer.

        Other options have no effect.
        """
        self.check_open()
        if (level, name) == (socket.SOL_SOCKET, socket.SO_LINGER):
            self.is_aborting = struct.unpack("ii", value) == (1, 0)
        elif (level, name) == (socket.SOL_SOCKET, socket.SO_RCVBUF):
            self.set_window(value)

    def getsockopt(self, level: int, name: int, *_more: Any) -> int:  # type: ignore[override]
        """Return the receive buffer, as Linux does: twice the window.

        0 for other options.
        """
        self.check_open()
        return 2 * self.window if (level, name) == (socket.SOL_SOCKET, socket.SO_RCVBUF) else 0

    def set_window(self, size: int) -> None:
        """Set the number of bytes that the peer may send before they are received."""
        self.window = size

    def getsockname(self) -> tuple[str, int]:
        self.check_open()
        return self.own

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.node.resources.pop(self, None)
            self.closed()

    def abandon(self) -> None:
        self.close()

    @abc.abstractmethod
    def closed(self) -> None:
        """Notify the peer."""

    def check_open(self) -> None:
        """Raise OSError(EBADF) for a socket that is closed."""
        if self.is_closed:
            raise failure(errno.EBADF)


@attrs.define(eq=False)
class _Direction:
    """The bytes from one end to the other."""

    in_flight: int = 0
    """Sent and not yet received by the peer's process."""
    last_arrival: float = 0.0
    """Bytes arrive in order, even if their latencies differ."""


class ConnectedSocket(SimulatedSocket):
    """One end of a connection."""

    peer: "ConnectedSocket"

    def __init__(self, medium: Medium, node: Node, own: tuple[str, int]) -> None:
        super().__init__(medium, node, own)
        self.outbound = _Direction()
        self._received: list[bytes] = []
        self._has_end = False
        self._error: OSError | None = None
        """The error of a reset, until a call of the process has raised it."""
        self._is_broken = False

    @classmethod
    def pair(
        cls, medium: Medium, ends: tuple[tuple[Node, tuple[str, int]], tuple[Node, tuple[str, int]]]
    ) -> tuple["ConnectedSocket", "ConnectedSocket"]:
        """Return both ends of a new connection."""
        one, other = (cls(medium, node, address) for node, address in ends)
        one.peer, other.peer = other, one
        return one, other

    def getpeername(self) -> tuple[str, int]:
        self.check_open()
        if self._is_broken:
            raise failure(errno.ENOTCONN)
        return self.peer.own

    def readiness(self) -> int:
        ready = READ if self._received or self._has_end or self._is_broken else 0
        return ready | (WRITE if self.outbound.in_flight < self.peer.window or self._is_broken else 0)

    # ---- the process's calls ----

    def recv(self, size: int, _flags: int = 0, /) -> bytes:
        self.check_open()
        if self._received:
            data = self._received[0]
            if len(data) <= size:
                self._received.pop(0)
            else:
                data, self._received[0] = data[:size], data[size:]
            self.peer.acknowledge(len(data))
            return data
        if not self._has_end and not self._is_broken:
            raise failure(errno.EAGAIN)
        if not self._has_end and self._error is not None:  # Linux: behind an end of stream, a reset is not received
            raise self._pop_error()
        return b""

    def recv_into(self, buffer: Any, _size: int = 0, _flags: int = 0, /) -> int:
        data = self.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def send(self, data: Any, _flags: int = 0, /) -> int:
        return self.sendmsg([data])

    def sendmsg(self, buffers: Sequence[Any], *_more: Any) -> int:  # type: ignore[override]
        self.check_open()
        if self._is_broken:
            raise self._pop_error()
        room = self.peer.window - self.outbound.in_flight
        if room <= 0:
            raise failure(errno.EAGAIN)
        data = b"".join(buffers)[:room]
        room = self.medium.accepted(len(data))
        self._send_packet(data[:room])
        return room

    def closed(self) -> None:
        if self._received or self.is_aborting:  # as Linux: unread bytes turn the close into a reset
            self._at_peer(self.peer.reset)
        else:
            self._at_peer(self.peer.end)

    def set_window(self, size: int) -> None:
        super().set_window(size)
        self.medium.machine.after(self.medium.latency(), self.peer.changed)

    # ---- packets ----

    def _send_packet(self, data: bytes) -> None:
        self.outbound.in_flight += len(data)
        for piece in self.medium.pieces(data):
            self._at_peer(lambda piece=piece: self.peer.arrive(piece))

    def _at_peer(self, happen: Any) -> None:
        moment = max(self.outbound.last_arrival, self.medium.machine.now + self.medium.latency())
        self.outbound.last_arrival = moment
        self.medium.machine.at(moment, happen)

    def arrive(self, data: bytes) -> None:
        """Bytes of the peer arrive."""
        if self.is_closed:
            self._at_peer(self.peer.reset)
            return
        if self._received and len(self._received[-1]) + len(data) <= _MERGED:
            self._received[-1] += data
        else:
            self._received.append(data)
        self.changed()

    def end(self) -> None:
        """The peer has closed."""
        self._has_end = True
        self.changed()

    def reset(self) -> None:
        """The peer has reset the connection, or its process has ended."""
        if not self._is_broken:
            self._is_broken = True
            self._error = failure(errno.EPIPE if self._has_end else errno.ECONNRESET)
            self.changed()

    def _pop_error(self) -> OSError:
        """Return the error of a call on a connection that was reset.

        It is reported once, as `sk_err` of Linux.
        """
        error, self._error = self._error, None
        return error or failure(errno.EPIPE)

    def acknowledge(self, size: int) -> None:
        """The peer's process has received so many bytes."""
        was_full = self.outbound.in_flight >= self.peer.window
        self.outbound.in_flight -= size
        if was_full:
            self.medium.machine.after(self.medium.latency(), self.changed)


class ListeningSocket(SimulatedSocket):
    """A port that accepts connections."""

    def __init__(
        self, medium: Medium, node: Node, own: tuple[str, int], backlog: int, on_closed: Callable[[], object]
    ) -> None:
        super().__init__(medium, node, own)
        self._backlog = backlog
        self._on_closed = on_closed
        self._waiting: list[ConnectedSocket] = []

    @property
    def has_room(self) -> bool:
        """True if another connection can wait to be accepted."""
        return len(self._waiting) < self._backlog

    def readiness(self) -> int:
        return READ if self._waiting else 0

    def accept(self) -> tuple[socket.socket, Any]:
        self.check_open()
        if not self._waiting:
            raise failure(errno.EAGAIN)
        accepted = self._waiting.pop(0)
        return accepted, accepted.peer.own

    def connected(self, sock: ConnectedSocket) -> None:
        """A connection waits to be accepted."""
        self._waiting.append(sock)
        self.changed()

    def closed(self) -> None:
        self._on_closed()
        for sock in self._waiting:
            sock.is_aborting = True
            sock.close()


def failure(number: int) -> OSError:
    """Return the error of a system call."""
    return OSError(number, os.strerror(number))
