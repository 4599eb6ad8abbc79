"""The HA protocol without I/O: state machines of both sides.

Each machine turns received bytes into bytes to send. A slave sends reports of 8 bytes: the offset that it wants next,
which acknowledges all before it. A master sends frames: a header of 12 bytes (commit log offset of the first byte,
size) and that many bytes of its commit log, cut anywhere; a frame without bytes is a heartbeat. There is nothing else:
no handshake, no version (store-and-ha sections 4.2 to 4.5; classes HAConnection, HAClient).

Times are seconds of the process's clock and always passed in. `sender` and `receiver` read and write the log.
"""

import struct
from typing import Final

import attrs

from rmqlab.broker.ha.settings import HEADER_SIZE, MAX_FRAME, HaSettings

REPORT: Final = struct.Struct(">q")
HEADER: Final = struct.Struct(">qi")
MAX_OFFSET: Final = 2**62
"""Highest log offset that a slave accepts: behind it, a master needs room for its own offsets, of 63 bits."""


class StreamError(Exception):
    """The connection must be closed. The text is the reason, with offsets."""


class BadFrameError(StreamError):
    """The master sent a frame that does not continue the slave's log."""


@attrs.define
class MasterStream:
    """A master's side of one connection, from accept to close.

    Offsets are -1 until the first report.
    """

    settings: HaSettings
    last_read_at: float
    last_write_at: float
    request_offset: int = -1
    """The first report: the offset the slave requested. For 0, the transfer begins at our last file (store-ha#36)."""
    ack_offset: int = -1
    """The newest report."""
    next_offset: int = -1
    """Of the next byte to be framed."""
    _cut: bytes = b""

    @classmethod
    def accepted(cls, settings: HaSettings, now: float) -> "MasterStream":
        """Return the state of a connection just accepted, with both timers running.

        A silent slave is closed 20 s later, whether it has reported or not (store-ha#40).
        """
        return cls(settings, last_read_at=now, last_write_at=now)

    @property
    def is_begun(self) -> bool:
        """True after the first report. Before it, no frame may be sent (store-ha#35)."""
        return self.request_offset >= 0

    def receive(
        self,
        data: bytes,
        *,
        log_end: int,
        file_size: int,
        now: float,
        log_first: int = 0,
        max_servable_offset: int = -1,
    ) -> int | None:
        """Feed bytes of the slave.

        Return the acknowledged offset, or None while a report is incomplete.

        Of several reports only the last counts. The first of a connection is not checked: it may be inside a record,
        before our first byte or beyond our last (store-ha#37). A later one beyond our end is a StreamError and
        acknowledges nothing (store-ha#41). Switches are stricter: a first report beyond `max_servable_offset`, the end
        of what a slave can have from us, or before `log_first` is a StreamError, too.
        """
        self.last_read_at = now
        data = self._cut + data
        whole = len(data) & ~7
        self._cut = data[whole:]
        if not whole:
            return None
        report: int = REPORT.unpack_from(data, whole - REPORT.size)[0]
        if report < 0:
            raise StreamError(f"it reported {report}")
        if self.is_begun:
            self._check_later(report, log_end)
        else:
            self._check_first(report, log_end, log_first, max_servable_offset)
            self.request_offset = report
            start = log_first if self.settings.ha_bootstrap_from_first_byte else log_end - log_end % file_size
            self.next_offset = start if report == 0 else report
        self.ack_offset = report
        return report

    def _check_first(self, report: int, log_end: int, log_first: int, max_servable_offset: int) -> None:
        if self.settings.ha_refuse_false_reports:
            if report > log_end:
                raise StreamError(f"it reported {report}, our log ends at {log_end}")
            if 0 <= max_servable_offset < report:
                raise StreamError(
                    f"it reported {report}, but from {max_servable_offset} on our bytes are new and were never sent:"
                    " its log differs"
                )
        if self.settings.ha_restart_expired_slave and 0 < report < log_first:
            raise StreamError(
                f"it requests bytes from {report} on, our log begins at {log_first}: it must start again"
                " with an empty log"
            )

    def _check_later(self, report: int, log_end: int) -> None:
        if report > log_end:
            raise StreamError(f"it reported {report}, our log ends at {log_end}")
        if self.settings.ha_refuse_false_reports and report > self.next_offset:
            raise StreamError(f"it reported {report}, and was sent bytes up to {self.next_offset} only")

    def wrote(self, now: float) -> None:
        """Note that bytes were sent, in a frame of any kind."""
        self.last_write_at = now

    @property
    def heartbeat_at(self) -> float:
        """Time of the next heartbeat, due when there is no data.

        Also before the first data (section 4.3).
        """
        return self.last_write_at + self.settings.heartbeat_interval

    @property
    def silent_at(self) -> float:
        """Time at which the connection is closed unless the slave reports."""
        return self.last_read_at + self.settings.housekeeping_interval


@attrs.frozen
class FrameHeader:
    """The header of a frame: `size` bytes of the commit log from `offset` on follow."""

    offset: int
    size: int


@attrs.define
class SlaveStream:
    """A slave's side of one connection, from connect to close."""

    settings: HaSettings
    reported: int
    """The slave's offset at connect, then as last reported."""
    report_at: float
    """Time of the next report without new data."""
    last_read_at: float
    """Time of the last received bytes; 4.9 checks its own reports instead, so it never detects a silent master."""
    last_write_at: float
    """Time of the last report, or of the connect (HAClient.lastWriteTimestamp)."""

    @classmethod
    def connected(cls, settings: HaSettings, log_end: int, now: float) -> "SlaveStream":
        """Return the state of a connection just made.

        The first report is due one heartbeat interval after connecting, as in 4.9, or at once with `ha_report_at_once`.
        """
        wait = 0.0 if settings.ha_report_at_once else settings.heartbeat_interval
        return cls(settings, reported=log_end, report_at=now + wait, last_read_at=now, last_write_at=now)

    def replace_settings(self, settings: HaSettings) -> None:
        """Use these settings from now on, for the time of the next report, too."""
        self.settings = settings
        self.report_at = self.last_write_at + settings.heartbeat_interval

    def header(self, raw: bytes | bytearray | memoryview, *, log_end: int) -> FrameHeader:
        """Parse and check a header before its body arrives (store-ha#43).

        Heartbeats are checked too. Raises BadFrameError.
        """
        offset, size = HEADER.unpack(raw)
        if log_end not in (0, offset):
            raise BadFrameError(f"it sent bytes from {offset} on, our log ends at {log_end}")
        if not 0 <= size <= MAX_FRAME - HEADER_SIZE:
            raise BadFrameError(f"it sent a frame of {size} bytes; the limit is {MAX_FRAME - HEADER_SIZE}")
        if not 0 <= offset <= MAX_OFFSET:  # an empty log accepts any first offset
            raise BadFrameError(f"it sent bytes from {offset} on, which is not a valid log offset")
        return FrameHeader(offset, size)

    def advanced(self, log_end: int, now: float) -> bytes | None:
        """The report to send after complete frames.

        None if they did not raise the offset (store-ha#42).
        """
        return self._report(log_end, now) if log_end > self.reported else None

    def repeated(self, now: float) -> bytes | None:
        """Return the periodic report.

        None before it is due (store-ha#39).
        """
        return self._report(self.reported, now) if now >= self.report_at else None

    def _report(self, offset: int, now: float) -> bytes:
        self.reported = offset
        self.last_write_at = now
        self.report_at = now + self.settings.heartbeat_interval
        return REPORT.pack(offset)

    @property
    def unreported_at(self) -> float:
        """Time at which 4.9 closes because no report was sent (HAClient.run).

        The limit is the housekeeping interval, in seconds after the last report. Reports are sent each heartbeat
        interval, so this happens only if the housekeeping interval is not longer, or if this process was stopped. Data
        from the master does not count, unless it is acknowledged.
        """
        return self.last_write_at + self.settings.housekeeping_interval

    @property
    def silent_at(self) -> float | None:
        """Time at which the connection is closed unless the master sends; None if never."""
        if not self.settings.ha_drop_silent_master:
            return None
        return self.last_read_at + self.settings.housekeeping_interval
