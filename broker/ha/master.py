"""Server of slaves: pushes the commit log, counts acknowledgements.

Class HAService. As in 4.9, one offset stands for all slaves: the highest that any slave ever reported to this process.
It never falls, not even when that slave is lost or its report was false, and it releases the sends that wait for a copy
(sections 4.4, 4.7, 4.9). With `in_sync_replicas`, each connected slave counts with the offset it acknowledged itself.
"""

import heapq
import logging
import socket
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import trio

from rmqlab.broker.ha.connection import HaConnection
from rmqlab.broker.ha.sender import SourceLog
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.slave_troubles import SlaveTroubles
from rmqlab.runtime.net.address import address_text
from rmqlab.runtime.net.meter import Meter
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.runtime.net.server import Acceptor, open_listener

log = logging.getLogger(__name__)

_REFUSALS_SAID_EVERY = 10.0
"""Seconds between two log lines about refused connections."""
_MOST_HOSTS = 1000


def offset_of_slaves(acks: Iterable[int], slaves: int) -> int:
    """Return the offset up to which at least `slaves` slaves have the log.

    `acks` are the offsets that the slaves acknowledged. -1 if there are fewer of them.
    """
    highest = heapq.nlargest(slaves, acks)
    return highest[-1] if len(highest) == slaves else -1


class HaMaster:
    """Every broker has one, of any role: a slave can be replicated from (section 4.1)."""

    def __init__(
        self,
        reactor: Reactor,
        store: SourceLog,
        settings: HaSettings,
        *,
        on_ack: Callable[["HaMaster"], None],
        emit: Callable[..., None],
        on_lost: Callable[["HaMaster", str], None] = lambda _self, _cause: None,
        is_slave: bool = False,
        meter: Meter | None = None,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        """Create a master without connections.

        `on_ack` is called after each report, `on_lost` with the cause after the loss of a slave. `on_lost` needs
        `ha_fail_lost_slave_at_once`: without it, waiting sends time out, as in 4.9.
        """
        self.push_to_slave_max_offset = 0
        """The highest offset that any slave has reported since this process began."""
        self._reactor = reactor
        self._meter = meter or reactor.meter
        self._store = store
        self.settings = settings
        """See `replace_settings`."""
        self._on_ack = on_ack
        self._on_lost = on_lost
        self._emit = emit
        self._is_slave = is_slave
        self._sent_end = store.max_commit_log_offset  # had at the start, or sent on a connection that is closed
        self._refused: Counter[str] = Counter()
        self._say_refused_at = -float("inf")
        self._now = now
        self.troubles = SlaveTroubles(emit, now)
        """What slaves reported about themselves (`ha_report_trouble`)."""
        self._acceptors: list[Acceptor] = []
        self._connections: list[HaConnection] = []
        self._connected = trio.Event()
        self._settings_changed = trio.Event()

    def replace_settings(self, settings: HaSettings) -> None:
        """Use these settings from now on, for live connections, too, as in 4.9."""
        self.settings = settings
        for connection in self._connections:
            connection.replace_settings(settings)
        changed, self._settings_changed = self._settings_changed, trio.Event()
        changed.set()

    @property
    def connection_count(self) -> int:
        """Number of accepted connections that are not closed (section 4.7).

        Connections that never reported are included.
        """
        return len(self._connections)

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Listen; return the address, because the system chooses the port for 0.

        Errors as `open_listener`.
        """
        acceptor = Acceptor(self._reactor, open_listener(host, port), self._accept)
        self._acceptors.append(acceptor)
        return acceptor.address

    def push(self) -> None:
        """Send every slave the new bytes of the log.

        Call it at the end of a pass that appended.
        """
        for connection in self._connections[:]:
            connection.push()

    def copied_offset(self, copies: int) -> int:
        """Return the end of the bytes that `copies` logs have; -1 with fewer logs.

        `copies` is 2 or more, this broker's log included, or 0 for 4.9's rule: the highest offset that any slave ever
        reported.
        """
        if not copies:
            return self.push_to_slave_max_offset
        return offset_of_slaves(self._copied_ends(), copies - 1)

    def is_slave_ok(self, record_end: int, copies: int) -> bool:
        """True if enough slaves are connected and near enough to copy this record."""
        if copies:
            return self._near_count(record_end) >= copies - 1
        behind = record_end - self.push_to_slave_max_offset
        return bool(self._connections) and behind < self.settings.ha_slave_fallbehind_max

    def explain(self, record_end: int, copies: int) -> str | None:
        """Return why a record has fewer copies than this, for its sender.

        None, as in 4.9, without `ha_fail_lost_slave_at_once` and without troubles of slaves.
        """
        missing = self._missing_copies(record_end, copies) if self.settings.ha_fail_lost_slave_at_once else ""
        return "; ".join(filter(None, (missing, self.troubles.remark()))) or None

    def _missing_copies(self, record_end: int, copies: int) -> str:
        slaves = [
            f"slave {one.peer} has acknowledged up to {one.stream.ack_offset}"
            if one.stream.is_begun
            else f"slave {one.peer} has not reported yet"
            for one in self._connections
        ]
        wanted = max(copies - 1, 1)
        return (
            f"the record ends at {record_end}, {wanted} to acknowledge it:"
            f" {', '.join(slaves) or 'no slave is connected'}"
        )

    def _near_count(self, record_end: int) -> int:
        """Return the number of slaves that have reported and are not too far behind."""
        least = record_end - self.settings.ha_slave_fallbehind_max
        return sum(end > least for end in self._copied_ends())

    def _copied_ends(self) -> list[int]:
        """Return the offset that each slave has reported, but none beyond our log.

        A slave that reports more than there is has other bytes than ours. The connections of an address count as one
        slave, with the offset of the newest: a slave that lost its connection may have the old one here beside the new.
        Slaves with this master's own address cannot be told apart, so each of their connections counts.
        """
        log_end, ends = self._store.max_commit_log_offset, dict[str, int]()
        for one in self._connections:
            if one.stream.is_begun:
                ends[one.peer if one.is_same_host else one.host] = one.stream.ack_offset
        return [end for end in ends.values() if 0 <= end <= log_end]

    def snapshot(self) -> dict[str, Any]:
        """Return the master's part of the node's snapshot."""
        return {
            "connections": [connection.snapshot() for connection in self._connections],
            "push_to_slave_max_offset": self.push_to_slave_max_offset,
            "slave_troubles": self.troubles.snapshot(),
        }

    async def run_forever(self) -> NoReturn:
        """Heartbeats and housekeeping. Sleeps while there is no slave."""
        while True:
            await self._connected.wait()
            # At the latest after a heartbeat interval, so a connection accepted meanwhile is not overlooked.
            with trio.move_on_at(min([connection.next_timer_at() for connection in self._connections], default=0)):
                await self._settings_changed.wait()
            for connection in self._connections[:]:
                connection.check_timers()

    def close(self) -> None:
        """Stop listening and close every connection."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()
        self.disconnect_slaves("the broker stops")

    def disconnect_slaves(self, reason: str) -> None:
        """Close every connection; slaves may connect again.

        Call it before this log is cut: otherwise a slave that has the cut bytes would get those that follow the new
        ones at their offsets, and check nothing.
        """
        for connection in self._connections[:]:
            connection.close(reason)

    # ---- events of connections (`Owner`) ----

    def reported(self, connection: HaConnection, offset: int, *, is_first: bool) -> None:
        """Apply a slave's report; release the sends that it acknowledges."""
        if is_first:
            log.info(
                "slave %s requests the log from offset %d on, and receives it from %d on",
                connection.peer,
                offset,
                connection.stream.next_offset,
            )
            self._emit(
                "ha_first_report", slave=connection.peer, offset=offset, transfer_from=connection.stream.next_offset
            )
        self.push_to_slave_max_offset = max(self.push_to_slave_max_offset, offset)
        self._on_ack(self)
        # A slave's connection may acknowledge more after it reported its trouble: only a later connection ends that.
        if offset > connection.stream.request_offset or offset == self._store.max_commit_log_offset:
            self.troubles.forget(connection.host, since=connection.accepted_at)

    def closed(self, connection: HaConnection, reason: str) -> None:
        """Forget a connection."""
        self._connections.remove(connection)
        self._sent_end = max(self._sent_end, connection.stream.next_offset)
        if not self._connections:
            self._connected = trio.Event()
        log.info("slave %s disconnected: %s", connection.peer, reason)
        self._emit("ha_disconnected", slave=connection.peer, reason=reason, ack_offset=connection.stream.ack_offset)
        if self.settings.ha_fail_lost_slave_at_once:
            self._on_lost(self, self._cause_of_loss(connection, reason))

    def _cause_of_loss(self, connection: HaConnection, reason: str) -> str:
        """Return the trouble that slaves of this host reported, else the close reason."""
        return self.troubles.remark(connection.host) or f"slave {connection.peer} is lost: {reason}"

    def has_reporting_slave(self, peer: str) -> bool:
        """Return True if a slave at this `ip:port` is connected and has reported."""
        return any(one.peer == peer and one.stream.is_begun for one in self._connections)

    def max_servable_offset(self) -> int:
        """Return the highest offset a slave can have from this master.

        This is the log's end at the start, or what was sent since. A slave with more received those bytes before this
        master lost them, for example in a power loss; other bytes may be there now. A slave that serves slaves received
        its log elsewhere, and so may they: its log's end is the limit.
        """
        log_end = self._store.max_commit_log_offset
        if self._is_slave:
            return log_end
        return min(log_end, max([self._sent_end, *(one.stream.next_offset for one in self._connections)]))

    def has_enough(self, copies: int) -> bool:
        """Return True while there are `copies` logs, this broker's included.

        A slave counts from its first report on; by 4.9's rule, 0, from accept on.
        """
        if copies:
            return len(self._copied_ends()) >= copies - 1
        return bool(self._connections)

    def _accept(self, sock: socket.socket) -> None:
        host = address_text(sock.getpeername()).rpartition(":")[0]
        settings, from_there = self.settings, sum(one.host == host for one in self._connections)
        if (
            len(self._connections) >= settings.ha_max_connections
            or from_there >= settings.ha_max_connections_per_address
        ):
            sock.close()
            self._note_refused(host, from_there)
            return
        connection = HaConnection(
            self, self._reactor, sock, self._store, self.settings, meter=self._meter, now=self._now
        )
        self._connections.append(connection)
        self._connected.set()
        log.info("slave %s connected", connection.peer)
        self._emit("ha_connected", slave=connection.peer)

    def _note_refused(self, host: str, from_there: int) -> None:
        """Log refused connections, in one line per period."""
        self._refused[host if host in self._refused or len(self._refused) < _MOST_HOSTS else "others"] += 1
        if self._now() < self._say_refused_at:
            return
        self._say_refused_at = self._now() + _REFUSALS_SAID_EVERY
        log.warning(
            "%d slaves are connected, %d of them from %s: turned away since the last such line: %s",
            len(self._connections),
            from_there,
            host,
            ", ".join(f"{count} from {name}" for name, count in self._refused.most_common(5)),
        )
        self._refused.clear()
