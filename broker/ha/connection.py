"""A master's connection to one slave, as reactor callbacks (HAConnection)."""

import logging
import socket
from collections.abc import Callable
from typing import Any, Protocol

from rmqlab.broker.ha.byterate import ByteRate
from rmqlab.broker.ha.sender import LogSender, SourceLog
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.stream import MasterStream, StreamError
from rmqlab.runtime.net.address import address_text
from rmqlab.runtime.net.fault_hooks import Transport
from rmqlab.runtime.net.meter import Meter
from rmqlab.runtime.net.reactor import READ, WRITE, Reactor

log = logging.getLogger(__name__)

_RECEIVE_SIZE = 64 * 1024


class Owner(Protocol):
    """The owner of a connection: gets its events and provides the end of the log."""

    def reported(self, connection: "HaConnection", offset: int, *, is_first: bool) -> None:
        """The slave reported that it has everything before this offset."""

    def closed(self, connection: "HaConnection", reason: str) -> None:
        """The connection is closed."""

    def max_servable_offset(self) -> int:
        """Return the highest offset that a slave can have from this master."""


class HaConnection:
    """Serves one slave. Owns its socket from now on."""

    def __init__(
        self,
        owner: Owner,
        reactor: Reactor,
        sock: socket.socket,
        source: SourceLog,
        settings: HaSettings,
        *,
        meter: Meter,
        now: Callable[[], float],
    ) -> None:
        self.peer = address_text(sock.getpeername())
        self.host = self.peer.rpartition(":")[0]
        self.is_same_host = sock.getsockname()[0] == sock.getpeername()[0]
        """True if the slave has this master's own address, as others on this machine may have."""
        self.is_closed = False
        self.accepted_at = now()
        self.stream = MasterStream.accepted(settings, now())
        self._sender = LogSender(self.stream, source, settings.ha_transfer_batch_size)
        self._rate = ByteRate(now())
        self._owner = owner
        self._reactor = reactor
        self._source = source
        self._settings = settings
        self._meter = meter
        self._now = now
        self._waits_for_room = False
        self._is_starving = False
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = reactor.links.attach(self, sock)
        reactor.register(self._sock, READ, self._on_ready, is_urgent=True)

    def replace_transport(self, sock: Transport) -> None:
        """Replace the socket by this transport, because a fault begins or ends."""
        self._sock = sock

    def replace_settings(self, settings: HaSettings) -> None:
        """Use these settings from now on; a frame that is sent in part keeps its size."""
        self._settings = self.stream.settings = settings
        self._sender.frame_size = settings.ha_transfer_batch_size

    def push(self) -> None:
        """Send new bytes of the log, unless the socket's buffer is full."""
        if self.stream.is_begun and not self._waits_for_room and not self.is_closed:
            self._guarded(self._send)

    def check_timers(self) -> None:
        """Check deadlines (see `_check_time`), within the boundary of this connection."""
        self._guarded(self._check_time)

    def _guarded(self, fn: Callable[..., None], *args: object) -> None:
        """Call `fn`, and close this connection if the call raises.

        After an exception the state of the connection is undefined.
        """
        if not self._reactor.errors.call("HA connection", fn, *args):
            self.close("internal error")

    def _check_time(self) -> None:
        """Close the connection of a silent slave, or send a heartbeat.

        Reads the socket before it judges, as 4.9 does (ReadSocketService): reports received while this process was
        stopped are unread, not missing.
        """
        if self._now() >= self.stream.silent_at:
            self._receive()
        if self.is_closed:
            return
        if self._now() >= self.stream.silent_at:
            self.close(f"no report for {self._settings.housekeeping_interval:g} s")
        else:
            self.push()

    def next_timer_at(self) -> float:
        """Return the latest time for the next `check_timers`."""
        stream = self.stream
        if stream.is_begun and not self._waits_for_room:
            return min(stream.heartbeat_at, stream.silent_at)
        return min(self._now() + self._settings.heartbeat_interval, stream.silent_at)

    def close(self, reason: str) -> None:
        """Close at once and report it to the owner."""
        if self.is_closed:
            return
        self.is_closed = True
        self._reactor.unregister(self._sock)
        self._sock.close()
        self._owner.closed(self, reason)

    def snapshot(self) -> dict[str, Any]:
        """Return the connection's part of the node's snapshot."""
        stream = self.stream
        diff = self._source.max_commit_log_offset - max(stream.ack_offset, 0)
        return {
            "address": self.peer,
            "slave_ack_offset": stream.ack_offset,
            "diff": diff,
            "transferred_bytes_per_second": self._rate.per_second(self._now()),
            "in_sync": stream.is_begun and diff < self._settings.ha_slave_fallbehind_max,
            "transfer_from_where": stream.next_offset,
            "state": self._state,
            "seconds_since_report": round(self._now() - stream.last_read_at, 3),
        }

    @property
    def _state(self) -> str:
        """Return the state in 5.x's terms: READY, TRANSFER or SUSPEND.

        READY before the slave's first report, TRANSFER after it, SUSPEND while the requested offset is missing.
        """
        if not self.stream.is_begun:
            return "READY"
        return "SUSPEND" if self._is_starving else "TRANSFER"

    def _on_ready(self, events: int) -> None:
        self._guarded(self._serve, events)

    def _serve(self, events: int) -> None:
        if events & READ:
            self._receive()
        if events & WRITE and not self.is_closed:
            self._send()

    def _receive(self) -> None:
        try:
            data = self._sock.recv(_RECEIVE_SIZE)
        except BlockingIOError:
            return
        except OSError as exc:
            self.close(exc.strerror or str(exc))
            return
        if not data:
            self.close("closed by the slave")
            return
        was_begun = self.stream.is_begun
        try:
            offset = self.stream.receive(
                data,
                log_end=self._source.max_commit_log_offset,
                file_size=self._source.config.mapped_file_size_commit_log,
                now=self._now(),
                log_first=0 if was_begun else self._source.min_commit_log_offset,
                max_servable_offset=-1 if was_begun else self._owner.max_servable_offset(),
            )
        except StreamError as exc:
            self.close(str(exc))
            return
        if offset is not None:
            self._owner.reported(self, offset, is_first=not was_begun)
            if not was_begun:
                self.push()

    def _send(self) -> None:
        now = self._now()
        before = self._sender.sent_total
        try:
            waits = self._sender.send(self._sock, now)
        except StreamError as exc:
            self.close(str(exc))
            return
        except OSError as exc:
            self.close(exc.strerror or str(exc))
            return
        gained = self._sender.sent_total - before
        self._rate.count(gained, now)
        self._meter.sent += gained
        if waits != self._waits_for_room:
            self._waits_for_room = waits
            self._reactor.modify(self._sock, READ | WRITE if waits else READ, self._on_ready)
        if not waits:
            self._note_starving()

    def _note_starving(self) -> None:
        """Log once that the slave requests an expired or unknown offset (store-ha#57)."""
        wanted, first, end = (
            self.stream.next_offset,
            self._source.min_commit_log_offset,
            self._source.max_commit_log_offset,
        )
        is_starving = wanted < first or wanted > end
        if wanted < first and self._settings.ha_restart_expired_slave:
            self.close(
                f"it requests bytes from {wanted} on, our log begins at {first}: it must start again with an empty log"
            )
            return
        if is_starving and not self._is_starving:
            log.warning(
                "slave %s requests bytes from %d on, our log has %d to %d: heartbeats only",
                self.peer,
                wanted,
                first,
                end,
            )
        self._is_starving = is_starving
