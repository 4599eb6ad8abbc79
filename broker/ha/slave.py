"""Replication client of a slave: appends the master's log, reports offsets.

Class HAClient. Retries follow 4.9: after 5 s without an address or after a failed connect, at once after a stream that
ended (section 4.5, store-ha#47). One departure: when streams repeatedly end within a second, the slave waits between
them, up to 5 s; 4.9 reconnects without a pause.
"""

import logging
import socket
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import trio

from rmqlab.broker.ha.byterate import ByteRate
from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.receiver import AppendError, LogReceiver, ReplicaLog
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.stream import BadFrameError, SlaveStream, StreamError
from rmqlab.runtime.net.fault_hooks import Transport
from rmqlab.runtime.net.meter import Meter
from rmqlab.runtime.net.reactor import READ, Reactor
from rmqlab.runtime.net.remoting_client import open_connection
from rmqlab.runtime.net.remoting_errors import ConnectError

log = logging.getLogger(__name__)

RETRY_PERIOD = 5.0
CONNECT_TIMEOUT = 5.0
_SHORT_LIFE = 1.0
_FIRST_PAUSE = 0.1
_WRITE_ATTEMPTS = 3


class MasterCheck(Protocol):
    """Checks of a master that 4.9 does not make.

    See `rmqlab.broker.ha.master_precheck`.
    """

    @property
    def verdict(self) -> str:
        """Why the last master was not followed, or followed unchecked; empty if it passed."""

    async def is_fit(self, ha_address: str, settings: HaSettings, /) -> bool:
        """Return True if the slave may follow the master at this address."""

    def begin(self, settings: HaSettings, /) -> None:
        """Prepare for a new connection."""

    def find_fault(self) -> str | None:
        """Return the fault of received bytes, which are dropped; None without a fault."""


class NoCheck:
    """No checks, as in 4.9."""

    verdict = ""

    async def is_fit(self, _ha_address: str, _settings: HaSettings, /) -> bool:
        """Accept any master."""
        await trio.lowlevel.checkpoint()
        return True

    def begin(self, _settings: HaSettings, /) -> None:
        """No preparation."""

    def find_fault(self) -> str | None:
        """Accept any bytes."""
        return None


class ConnectionObserver(Protocol):
    """Gets the connections of a slave to its master."""

    def master_connected(self) -> None:
        """A connection to the master is open."""


class TroubleObserver(Protocol):
    """Receives the reason why a slave stopped replication; see trouble_report."""

    async def report(self, text: str, ha_port: int, /) -> None:
        """Return when the master has the report, or cannot be reached.

        `ha_port` is the local port of the connection that ended.
        """


class HaClient:
    """A slave's connection to its master, from connect to close. Owns its socket."""

    def __init__(
        self,
        reactor: Reactor,
        sock: socket.socket,
        store: ReplicaLog,
        settings: HaSettings,
        *,
        on_received: Callable[[], None],
        master_check: MasterCheck,
        meter: Meter,
        now: Callable[[], float],
    ) -> None:
        master_check.begin(settings)
        self._has_ended = False
        self._woken = trio.Event()
        self.close_reason = ""
        self.local_port: int = sock.getsockname()[1]
        self.received_invalid = False
        """True if closed because of invalid bytes of the master, which is logged as a warning."""
        self.trouble = ""
        """Why it ended, if the master cannot see the cause: this slave's disk, or a log that differs."""
        self.opened_at = now()
        self.stream = SlaveStream.connected(settings, store.max_commit_log_offset, self.opened_at)
        self.rate = ByteRate(self.opened_at)
        self._receiver = LogReceiver(self.stream, store)
        self._settings = settings
        self._reactor = reactor
        self._meter = meter
        self._store = store
        self._on_received = on_received
        self._master_check = master_check
        self._now = now
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = reactor.links.attach(self, sock)
        reactor.register(self._sock, READ, self._on_ready)

    def replace_transport(self, sock: Transport) -> None:
        """Replace the socket by this transport, because a fault begins or ends."""
        self._sock = sock

    def replace_settings(self, settings: HaSettings) -> None:
        """Use these settings from now on; the checks of the master were chosen at connect."""
        self._settings = settings
        self.stream.replace_settings(settings)
        self._wake()

    def _wake(self) -> None:
        woken, self._woken = self._woken, trio.Event()
        woken.set()

    async def report_until_ended(self) -> None:
        """Send reports and check deadlines until the connection ends."""
        stream = self.stream
        while not self._has_ended:
            due_at = min(stream.report_at, stream.unreported_at)
            with trio.move_on_at(due_at if stream.silent_at is None else min(due_at, stream.silent_at)):
                await self._woken.wait()
            self._check_timers()

    def close(self, reason: str) -> None:
        """Close at once."""
        self._end(reason)
        self._sock.close()

    def _end(self, reason: str) -> None:
        """Stop sending and receiving; `close` closes the socket.

        Only the first reason counts.
        """
        if self._has_ended:
            return
        self.close_reason = reason
        self._reactor.unregister(self._sock)
        self._has_ended = True
        self._wake()

    def _check_timers(self) -> None:
        if self._has_ended:
            return
        if self._is_silent() or self._is_unreported():  # this process may have been stopped: read first
            self._on_ready(READ)
        if self._has_ended:
            return
        now = self._now()
        if self._is_silent():
            self.close(f"the master was silent for {self._settings.housekeeping_interval:g} s")
        elif self._is_unreported():
            self.close(f"housekeeping: no report left for {self._settings.housekeeping_interval:g} s")
        elif (report := self.stream.repeated(now)) is not None:
            self._write(report)

    def _is_silent(self) -> bool:
        silent_at = self.stream.silent_at
        return silent_at is not None and self._now() >= silent_at

    def _is_unreported(self) -> bool:
        return self._now() >= self.stream.unreported_at

    def _on_ready(self, _events: int) -> None:
        if not self._reactor.errors.call("HA client", self._receive):
            self.close("internal error")

    def _receive(self) -> None:
        now, had, reason = self._now(), self._store.max_commit_log_offset, ""
        try:
            self._receiver.receive(self._sock, now)
        except (BadFrameError, AppendError) as exc:
            self.trouble = reason = str(exc)
            self.received_invalid = isinstance(exc, BadFrameError)
        except StreamError as exc:
            reason = str(exc)
        except OSError as exc:
            reason = exc.strerror or str(exc)
        if (fault := self._master_check.find_fault()) is not None:
            self.trouble = reason = fault
            self.received_invalid = True
        # Whole frames before the fault are acknowledged, as in 4.9. The report is sent before dispatch, because a send
        # on the master may wait for it.
        log_end = self._store.max_commit_log_offset
        if (report := self.stream.advanced(log_end, now)) is not None:
            self._write(report)
        if reason:
            self._end(reason)
        if (gained := log_end - had) > 0:
            self.rate.count(gained, now)
            self._on_received()

    def _write(self, report: bytes) -> None:
        """Send a report in at most three attempts, then close (section 4.2).

        A master that does not read reports is stuck.
        """
        try:
            for _ in range(_WRITE_ATTEMPTS):
                try:
                    sent = self._sock.send(report)
                except BlockingIOError:
                    continue
                self._meter.sent += sent
                report = report[sent:]
                if not report:
                    return
            self.close("the master does not read reports")
        except OSError as exc:
            self.close(exc.strerror or str(exc))


class HaSlave:
    """The slave's side of replication, in brokers of any role.

    It idles without a master's address (section 4.1).
    """

    def __init__(
        self,
        reactor: Reactor,
        store: ReplicaLog,
        settings: HaSettings,
        known_master: KnownMaster,
        *,
        on_received: Callable[[], None],
        emit: Callable[..., None],
        connection_observer: ConnectionObserver | None = None,
        master_check: MasterCheck | None = None,
        trouble_observer: TroubleObserver | None = None,
        source_ip: str | None = None,
        meter: Meter | None = None,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        """Create a slave without a connection.

        `trouble_observer` gets the reasons that a master does not see, with `ha_report_trouble`.
        """
        self._reactor = reactor
        self._meter = meter or reactor.meter
        self._store = store
        self.settings = settings
        """See `replace_settings`."""
        self._known_master = known_master
        self._on_received = on_received
        self._connection_observer = connection_observer
        self._emit = emit
        self._master_check = master_check or NoCheck()
        self._trouble_observer = trouble_observer
        self._source_ip = source_ip
        self._now = now
        self._address_changed = known_master.ha_address_changed
        self._client: HaClient | None = None
        self._has_connected = False
        self._last_failure = ""

    def replace_settings(self, settings: HaSettings) -> None:
        """Use these settings from now on, for a live connection, too, as in 4.9."""
        self.settings = settings
        if self._client is not None:
            self._client.replace_settings(settings)

    def snapshot(self) -> dict[str, Any]:
        """Return the slave's part of the node's snapshot."""
        client, now = self._client, self._now()
        return {
            "master_address": self._known_master.ha_address,
            "connected": client is not None,
            "has_connected": self._has_connected,
            "verdict": self._master_check.verdict,
            "reported_offset": client.stream.reported if client is not None else self._store.max_commit_log_offset,
            "received_bytes_per_second": client.rate.per_second(now) if client is not None else 0,
            "seconds_since_receipt": round(now - client.stream.last_read_at, 3) if client is not None else None,
        }

    def close(self) -> None:
        """End the connection, if there is one; `run_forever` opens the next."""
        if self._client is not None:
            self._client.close("closed from here")

    async def run_forever(self) -> NoReturn:
        """Connect to the master and follow it, until cancelled."""
        short_lives = 0
        while True:
            sock = await self._connect()
            if sock is None:
                await self._wait_retry()
                continue
            opened_at = self._now()
            await self._follow(sock)
            short_lives = short_lives + 1 if self._now() - opened_at < _SHORT_LIFE else 0
            if short_lives > 1:
                await trio.sleep(min(_FIRST_PAUSE * 2.0 ** min(short_lives - 2, 16), RETRY_PERIOD))

    async def _connect(self) -> socket.socket | None:
        address, self._address_changed = self._known_master.ha_address, self._known_master.ha_address_changed
        if address is None:
            return None
        try:
            sock = await open_connection(
                address, source_ip=self._source_ip, connect_timeout=CONNECT_TIMEOUT, links=self._reactor.links
            )
        except ConnectError as exc:
            if str(exc) != self._last_failure:  # log it once, not every 5 s
                log.warning("%s; tried again every %g s", exc, RETRY_PERIOD)
                self._last_failure = str(exc)
            return None
        # The check runs after the connect and before the first report: if the master restarts meanwhile, the connection
        # is lost, so the checked master is the one that is followed.
        is_fit = False
        try:
            is_fit = await self._master_check.is_fit(address, self.settings)
            if not is_fit:
                await self._report_trouble(self._master_check.verdict, sock.getsockname()[1])
        finally:
            if not is_fit:
                sock.close()
        return sock if is_fit else None

    async def _report_trouble(self, text: str, ha_port: int) -> None:
        """Report why replication stops.

        Call it before the connection closes: then the master fails waiting sends, with the reported text.
        """
        if text and self._trouble_observer is not None and self.settings.ha_report_trouble:
            await self._trouble_observer.report(text, ha_port)

    async def _wait_retry(self) -> None:
        """Wait 5 s.

        4.9 ignores an address that arrives meanwhile, so its first connect is some 5 s after the start.
        """
        with trio.move_on_after(RETRY_PERIOD):
            if self.settings.ha_report_at_once:
                await self._address_changed.wait()
            else:
                await trio.sleep_forever()

    async def _follow(self, sock: socket.socket) -> None:
        master, self._last_failure = self._known_master.ha_address, ""
        try:
            client = HaClient(
                self._reactor,
                sock,
                self._store,
                self.settings,
                on_received=self._on_received,
                master_check=self._master_check,
                meter=self._meter,
                now=self._now,
            )
        except OSError:  # gone already
            sock.close()
            return
        self._client, self._has_connected = client, True
        log.info("connected to master %s, our log ends at %d", master, self._store.max_commit_log_offset)
        self._emit("ha_client_connected", master=master, offset=self._store.max_commit_log_offset)
        if self._connection_observer is not None:
            self._connection_observer.master_connected()
        try:
            await client.report_until_ended()
            await self._report_trouble(client.trouble, client.local_port)
        finally:
            client.close("the broker stops")
            self._client = None
            level = logging.WARNING if client.received_invalid else logging.INFO
            log.log(level, "disconnected from master %s: %s", master, client.close_reason)
            self._emit("ha_client_disconnected", master=master, reason=client.close_reason)
