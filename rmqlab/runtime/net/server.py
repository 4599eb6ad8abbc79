"""A listening server: accepts connections and dispatches their requests.

It closes idle connections.
"""

import contextlib
import errno
import itertools
import logging
import os
import resource
import socket
from collections.abc import Callable
from typing import Final, Generic, NoReturn, TypeVar

import trio

from rmqlab.runtime.clock import process_time
from rmqlab.runtime.net.address import address_text
from rmqlab.runtime.net.channel import Channel
from rmqlab.runtime.net.dispatch import Dispatcher
from rmqlab.runtime.net.meter import Meter
from rmqlab.runtime.net.network import network
from rmqlab.runtime.net.reactor import READ, Reactor

log = logging.getLogger(__name__)

S = TypeVar("S")

BACKLOG = 1024
IDLE_TIMEOUT = 120.0
"""Seconds without a byte in either direction after which a server closes a connection (remoting#13)."""
MAX_CONNECTIONS = 20_000
SHARE: Final = 0.5
"""Share of the process's descriptors that the connections of a server may take: a broker has other ports, and files."""
_EVICTED_AT_ONCE = 64
_ACCEPTS_PER_PASS = 64
_ACCEPT_PAUSE: Final = 1.0
"""Seconds without accepting when no memory is free, or no descriptor to reject connections with."""
_LATE_LOOK: Final = 5.0
"""A check for idle connections is skipped if it is late by its period, a 120th of the timeout, times this factor."""


class AddressTakenError(OSError):
    """Another process listens at this address."""


def open_listener(host: str, port: int, backlog: int = BACKLOG) -> socket.socket:
    """Return a listening socket.

    AddressTakenError if the address is taken; OSError if it is not local.
    """
    try:
        return network().listen(host, port, backlog)
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            raise AddressTakenError(exc.errno, f"{host}:{port} is taken by another process") from None
        raise OSError(exc.errno, f"cannot listen at {host}:{port}: {exc.strerror}") from None


class Acceptor:
    """Accepts connections of one listening socket for `on_accept`.

    `on_accept` gets the ownership of each connection.
    """

    def __init__(self, reactor: Reactor, sock: socket.socket, on_accept: Callable[[socket.socket], None]) -> None:
        self._reactor = reactor
        self._sock = sock
        self._on_accept = on_accept
        self._spare = _spare_descriptor()  # see `_shed`
        self._is_short = False
        self._is_paused = self._is_closed = False
        reactor.links.served_ports.add(sock.getsockname()[1])
        reactor.register(sock, READ, self._accept)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the listening socket."""
        host, port = self._sock.getsockname()[:2]
        return host, port

    def close(self) -> None:
        """Stop listening. Accepted connections stay open."""
        self._is_closed = True
        if not self._is_paused:
            self._reactor.unregister(self._sock)
        self._sock.close()
        if self._spare is not None:
            os.close(self._spare)

    def _accept(self, _events: int) -> None:
        for _ in range(_ACCEPTS_PER_PASS):
            try:
                sock, _address = self._sock.accept()
            except BlockingIOError:
                return
            except OSError as exc:
                if not self._goes_on(exc):
                    return
                continue
            self._is_short = False
            if self._reactor.links.is_active:
                self._reactor.links.admit(sock, self._take)
            else:
                self._take(sock)

    def _goes_on(self, exc: OSError) -> bool:
        """Handle an error of accept. Return False if this pass should accept nothing more."""
        if exc.errno in (errno.EMFILE, errno.ENFILE):
            if self._shed(exc):
                return True
            self._pause()
            return False
        log.warning("cannot accept at %s: %s", self._sock.getsockname(), exc)
        if exc.errno in (errno.ENOMEM, errno.ENOBUFS):  # else the peer has closed already
            self._pause()
        return False

    def _shed(self, exc: OSError) -> bool:
        """Reject the next connection when no file descriptor is free.

        A connection that stays in the backlog would keep the listening socket ready, and the event loop busy. Return
        False if another thread or process has used the spare descriptor.
        """
        if not self._is_short:  # log once until descriptors are free again
            log.warning("cannot accept at %s: %s: connections are rejected", self._sock.getsockname(), exc.strerror)
        self._is_short = True
        if self._spare is not None:
            os.close(self._spare)
        with contextlib.suppress(OSError):  # the peer has closed, or the spare descriptor is used
            self._sock.accept()[0].close()
        self._spare = _spare_descriptor()
        return self._spare is not None

    def _pause(self) -> None:
        """Accept nothing for a moment. New connections wait in the backlog."""
        self._is_paused = True
        self._reactor.unregister(self._sock)
        self._reactor.timers.call_at(trio.current_time() + _ACCEPT_PAUSE, self._resume)

    def _resume(self) -> None:
        if not self._is_closed:
            self._is_paused = False
            self._reactor.register(self._sock, READ, self._accept)

    def _take(self, sock: socket.socket) -> None:
        try:
            self._on_accept(sock)
        except OSError:  # the peer closed right after accept
            sock.close()
        except Exception as exc:  # noqa: BLE001 - a boundary
            self._reactor.errors.caught("accepted connection", exc)
            sock.close()


def _spare_descriptor() -> int | None:
    """Return a file descriptor of no use; None if all are in use."""
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def default_max_connections(share: float = SHARE) -> int:
    """Connections of a server that may take this share of the process's descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(int(soft * share), MAX_CONNECTIONS))


class Server(Generic[S]):
    """Serves a dispatcher at one or more addresses."""

    def __init__(
        self,
        reactor: Reactor,
        dispatcher: Dispatcher[S],
        *,
        idle_timeout: float = IDLE_TIMEOUT,
        max_connections: int | None = None,
        on_connect: Callable[[Channel], None] | None = None,
        meter: Meter | None = None,
    ) -> None:
        self.channels: dict[Channel, None] = {}
        """Open connections, oldest first."""
        self._reactor = reactor
        self._dispatcher = dispatcher
        self._idle_timeout = idle_timeout
        self._max_connections = max_connections or default_max_connections()
        self._on_connect = on_connect
        self._meter = meter
        self._acceptors: list[Acceptor] = []
        reactor.request_faults.watch(dispatcher)

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Listen and return host and port: port 0 lets the system choose.

        Raises as `open_listener`.
        """
        return self.accept_on(open_listener(host, port))

    def accept_on(self, sock: socket.socket) -> tuple[str, int]:
        """Serve a listening socket, whose ownership passes to this server.

        Return host and port.
        """
        acceptor = Acceptor(self._reactor, sock, self._accept)
        self._acceptors.append(acceptor)
        return acceptor.address

    def stop_listening(self) -> None:
        """Stop accepting connections."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()

    def close(self) -> None:
        """Stop listening and close every connection."""
        self.stop_listening()
        for channel in list(self.channels):
            channel.close("the server stops")

    async def close_idle_forever(self) -> NoReturn:
        """Close connections without traffic for `idle_timeout` seconds.

        With 0 or less, none is closed. It sleeps until the first connection can be idle for so long. A check that runs
        too late is skipped: this process was stalled, and must first read the bytes that arrived meanwhile (Netty, too,
        reads before it checks the time).
        """
        timeout, period = self._idle_timeout, self._idle_timeout / 120
        if period <= 0:  # off, as in Netty's IdleStateHandler
            await trio.sleep_forever()
        while True:
            now = trio.current_time()
            first_idle_at = min((channel.last_active_at for channel in self.channels), default=now) + timeout
            due_at = max(first_idle_at, now + period)
            await trio.sleep_until(due_at)
            now = trio.current_time()
            if now - due_at > _LATE_LOOK * period:
                continue
            silent_since = now - timeout
            for channel in [channel for channel in self.channels if channel.last_active_at <= silent_since]:
                channel.close(f"idle for {self._idle_timeout:g} s")

    def _accept(self, sock: socket.socket) -> None:
        if len(self.channels) >= self._max_connections and not self._evict():
            self._reject(sock)
            return
        channel = Channel(self._reactor, sock, self._dispatcher.serve, meter=self._meter, now=process_time())
        self.channels[channel] = None
        channel.on_close.append(lambda: self.channels.pop(channel, None))
        if self._on_connect is not None:
            self._on_connect(channel)

    def _evict(self) -> bool:
        """Close the oldest connections that never sent a whole frame.

        Return False if there are none. Peers that send a byte now and then are never idle.
        """
        unused = (channel for channel in self.channels if not channel.has_spoken)
        evicted = list(itertools.islice(unused, _EVICTED_AT_ONCE))
        reason = f"no request, and {self._max_connections} connections are the maximum"
        for channel in evicted:
            self._reactor.evictions.note("closed for a newer one", channel.peer, reason, trio.current_time())
            channel.close(reason)
        return bool(evicted)

    def _reject(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the peer may have reset the connection
            peer, reason = address_text(sock.getpeername()), f"{len(self.channels)} connections, the maximum"
            self._reactor.evictions.note("rejected", peer, reason, trio.current_time())
        sock.close()
