"""Serves slaves: listens for them, pushes the commit log, counts what they acknowledge (class HAService).

One offset stands for all slaves: the highest that any of them ever reported to this process. It only rises, not
even a lost slave or a false report brings it down, and sends that wait for a copy are answered by it
(sections 4.4, 4.7, 4.9).
"""

import logging
import socket
from collections.abc import Callable
from typing import Any, NoReturn

import trio

from broker.ha.connection import HaConnection, address_text
from broker.ha.sender import SourceLog
from broker.ha.settings import HaSettings
from remoting.reactor import Reactor
from remoting.server import Acceptor, open_listener

log = logging.getLogger(__name__)


class HaMaster:
    """Every broker has one, of any role: a slave can be replicated from (section 4.1)."""

    def __init__(
        self,
        reactor: Reactor,
        store: SourceLog,
        settings: HaSettings,
        *,
        on_ack: Callable[[int], None],
        emit: Callable[..., None],
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        self.push_to_slave_max_offset = 0
        """The highest offset that any slave has reported since this process began."""
        self._reactor = reactor
        self._store = store
        self.settings = settings
        """May be replaced; a connection keeps those it was accepted with."""
        self._on_ack = on_ack
        self._emit = emit
        self._now = now
        self._acceptors: list[Acceptor] = []
        self._connections: list[HaConnection] = []
        self._connected = trio.Event()

    @property
    def connection_count(self) -> int:
        """Connections from accept to close, those that never reported included (section 4.7)."""
        return len(self._connections)

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Listen; answer where, for a port of 0 is chosen by the system. Errors as `open_listener`."""
        acceptor = Acceptor(self._reactor, open_listener(host, port), self._accept)
        self._acceptors.append(acceptor)
        return acceptor.address

    def push(self) -> None:
        """Send every slave what the log has gained. To be called at the end of a pass that appended."""
        for connection in self._connections[:]:
            connection.push()

    def is_slave_ok(self, record_end: int) -> bool:
        """True if waiting for a copy of this record makes sense: a slave is there and not too far behind."""
        behind = record_end - self.push_to_slave_max_offset
        return bool(self._connections) and behind < self.settings.ha_slave_fallbehind_max

    def snapshot(self) -> dict[str, Any]:
        """What an operator wants to know."""
        return {
            "connections": [connection.snapshot() for connection in self._connections],
            "push_to_slave_max_offset": self.push_to_slave_max_offset,
        }

    async def run_forever(self) -> NoReturn:
        """Heartbeats and housekeeping. Sleeps while there is no slave."""
        while True:
            await self._connected.wait()
            # At the latest after a heartbeat interval, so a connection accepted meanwhile is not overlooked.
            await trio.sleep_until(min([connection.look_at() for connection in self._connections], default=0))
            for connection in self._connections[:]:
                connection.look()

    def close(self) -> None:
        """Stop listening and close every connection."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()
        for connection in self._connections[:]:
            connection.close("the broker stops")

    # ---- what connections tell ----

    def reported(self, connection: HaConnection, offset: int, *, is_first: bool) -> None:
        """Take a report; release the sends that it covers."""
        if is_first:
            log.info(
                "slave %s asks for bytes from %d on, gets them from %d",
                connection.peer,
                offset,
                connection.stream.next_offset,
            )
            self._emit(
                "ha_first_report", slave=connection.peer, offset=offset, transfer_from=connection.stream.next_offset
            )
        if offset > self.push_to_slave_max_offset:
            self.push_to_slave_max_offset = offset
            self._on_ack(offset)

    def closed(self, connection: HaConnection, reason: str) -> None:
        """Forget a connection."""
        self._connections.remove(connection)
        if not self._connections:
            self._connected = trio.Event()
        log.info("slave %s disconnected: %s", connection.peer, reason)
        self._emit("ha_disconnected", slave=connection.peer, reason=reason, ack_offset=connection.stream.ack_offset)

    def _accept(self, sock: socket.socket) -> None:
        if len(self._connections) >= self.settings.ha_max_connections:
            log.warning(
                "%d slaves are connected: %s is turned away", len(self._connections), address_text(sock.getpeername())
            )
            sock.close()
            return
        connection = HaConnection(self, self._reactor, sock, self._store, self.settings, now=self._now)
        self._connections.append(connection)
        self._connected.set()
        log.info("slave %s connected", connection.peer)
        self._emit("ha_connected", slave=connection.peer)
