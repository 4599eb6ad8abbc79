"""A listening server: accepts connections, hands their requests to a dispatcher, closes idle ones."""

import errno
import logging
import os
import socket
from collections.abc import Callable
from typing import Final, Generic, NoReturn, TypeVar

import trio

from rmqlab.runtime.channel import Channel
from rmqlab.runtime.dispatch import Dispatcher
from rmqlab.runtime.reactor import READ, Reactor

log = logging.getLogger(__name__)

S = TypeVar("S")

BACKLOG = 1024
IDLE_TIMEOUT = 120.0
"""Seconds without a byte either way after which a server closes a connection (remoting#13)."""
MAX_CONNECTIONS = 20_000
_ACCEPTS_PER_PASS = 64
_LATE_LOOK: Final = 5.0
"""Times its period after which a look for idle connections comes late."""


class AddressTakenError(OSError):
    """Somebody else listens at this address."""


def open_listener(host: str, port: int, backlog: int = BACKLOG) -> socket.socket:
    """Listen at an address. AddressTakenError where it is taken, OSError where this machine has no such address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(backlog)
    except OSError as exc:
        sock.close()
        if exc.errno == errno.EADDRINUSE:
            raise AddressTakenError(exc.errno, f"{host}:{port} is taken by another process") from None
        raise OSError(exc.errno, f"cannot listen at {host}:{port}: {exc.strerror}") from None
    return sock


class Acceptor:
    """Accepts on one listening socket. The function it is given owns what it is handed."""

    def __init__(self, reactor: Reactor, sock: socket.socket, on_accept: Callable[[socket.socket], None]) -> None:
        self._reactor = reactor
        self._sock = sock
        self._on_accept = on_accept
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)  # given up to turn somebody away, see `_shed`
        self._is_short = False
        reactor.links.served_ports.add(sock.getsockname()[1])
        reactor.register(sock, READ, self._accept)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens: host and port."""
        host, port = self._sock.getsockname()[:2]
        return host, port

    def close(self) -> None:
        """Listen no longer. Connections that were accepted live on."""
        self._reactor.unregister(self._sock)
        self._sock.close()
        os.close(self._spare)

    def _accept(self, _events: int) -> None:
        for _ in range(_ACCEPTS_PER_PASS):
            try:
                sock, _address = self._sock.accept()
            except BlockingIOError:
                return
            except OSError as exc:
                if exc.errno not in (errno.EMFILE, errno.ENFILE):  # a peer that is gone already
                    log.warning("cannot accept at %s: %s", self._sock.getsockname(), exc)
                    return
                self._shed(exc)
                continue
            self._is_short = False
            if self._reactor.links.is_active:
                self._reactor.links.admit(sock, self._take)
            else:
                self._take(sock)

    def _shed(self, exc: OSError) -> None:
        """No more files may be open: turn the next peer away, for what waits in the backlog would wake us for ever."""
        if not self._is_short:  # said once, until there is room again
            log.warning("cannot accept at %s: %s: peers are turned away", self._sock.getsockname(), exc.strerror)
        self._is_short = True
        os.close(self._spare)
        try:
            self._sock.accept()[0].close()
        except OSError:  # gone, or another thread has taken the spare
            pass
        finally:
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _take(self, sock: socket.socket) -> None:
        try:
            self._on_accept(sock)
        except OSError:  # gone between accept and the first look at it
            sock.close()
        except Exception as exc:  # noqa: BLE001 - a boundary
            self._reactor.errors.caught("accepted connection", exc)
            sock.close()


class Server(Generic[S]):
    """Serves one dispatcher at one address or several."""

    def __init__(
        self,
        reactor: Reactor,
        dispatcher: Dispatcher[S],
        *,
        idle_timeout: float = IDLE_TIMEOUT,
        max_connections: int = MAX_CONNECTIONS,
        on_connect: Callable[[Channel], None] | None = None,
    ) -> None:
        self.channels: set[Channel] = set()
        self._reactor = reactor
        self._dispatcher = dispatcher
        self._idle_timeout = idle_timeout
        self._max_connections = max_connections
        self._on_connect = on_connect
        self._acceptors: list[Acceptor] = []
        reactor.request_faults.watch(dispatcher)

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Listen; answer where, for a port of 0 is chosen by the system. Errors as `open_listener`."""
        return self.accept_on(open_listener(host, port))

    def accept_on(self, sock: socket.socket) -> tuple[str, int]:
        """Serve a socket that listens already, and own it from now on."""
        acceptor = Acceptor(self._reactor, sock, self._accept)
        self._acceptors.append(acceptor)
        return acceptor.address

    def stop_listening(self) -> None:
        """Accept no more."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()

    def close(self) -> None:
        """Stop listening and close every connection."""
        self.stop_listening()
        for channel in list(self.channels):
            channel.close("the server stops")

    async def close_idle_forever(self) -> NoReturn:
        """Close connections on which nothing moved for `idle_timeout` seconds; none where that is 0 or less.

        What came while this process stood still is no silence: a look that comes too late is left out, so that it can
        be read before the next one (Netty, too, reads before it looks at the time).
        """
        period = self._idle_timeout / 120
        if period <= 0:  # Netty's IdleStateHandler takes that for off
            await trio.sleep_forever()
        while True:
            looked_at = trio.current_time()
            await trio.sleep(period)
            now = trio.current_time()
            if now - looked_at > _LATE_LOOK * period:
                continue
            silent_since = now - self._idle_timeout
            for channel in [channel for channel in self.channels if channel.last_active_at <= silent_since]:
                channel.close(f"idle for {self._idle_timeout:g} s")

    def _accept(self, sock: socket.socket) -> None:
        if len(self.channels) >= self._max_connections:
            log.warning("%d connections: %s is turned away", len(self.channels), sock.getpeername())
            sock.close()
            return
        channel = Channel(self._reactor, sock, self._dispatcher.serve)
        self.channels.add(channel)
        channel.on_close.append(lambda: self.channels.discard(channel))
        if self._on_connect is not None:
            self._on_connect(channel)
