"""A slave's connection to its master: appends what it receives, reports offsets.

The checks of a master are those of the hardened profile; 4.9 makes none.
"""

import socket
from collections.abc import Callable
from typing import Protocol

import trio

from rmqlab.broker.ha.byterate import ByteRate
from rmqlab.broker.ha.receiver import AppendError, LogReceiver, ReplicaLog
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.stream import BadFrameError, SlaveStream, StreamError
from rmqlab.runtime.net.fault_hooks import Transport
from rmqlab.runtime.net.meter import Meter
from rmqlab.runtime.net.reactor import READ, Reactor

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
