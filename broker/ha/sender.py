"""Log bytes out: frames for one slave, sent from the mapped files without copying.

One call sends many frames. Between two passes only the offset of a frame and the number of sent bytes are kept; its
bytes are read again from the log, because the mapped file may be closed meanwhile.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import attrs

from rmqlab.broker.ha.settings import HEADER_SIZE
from rmqlab.broker.ha.stream import HEADER, FrameHeader, MasterStream, StreamError

PASS_SIZE: Final = 4 * 2**20
"""Bytes for one slave after which other sockets get their turn."""
_RUN_SIZE: Final = 2**20
_MAX_FRAMES: Final = 256  # two buffers each; the system's limit is 1024 buffers in a call


class LogConfig(Protocol):
    """The settings of the store that are used here."""

    @property
    def mapped_file_size_commit_log(self) -> int:
        """Bytes of one commit log file."""


class SourceLog(Protocol):
    """The commit log as a master reads it.

    Offsets are bytes from the beginning of the first file ever.
    """

    @property
    def config(self) -> LogConfig:
        """The store's settings."""

    @property
    def min_commit_log_offset(self) -> int:
        """The first byte still there."""

    @property
    def max_commit_log_offset(self) -> int:
        """One past the last readable byte; not necessarily flushed."""

    def read_log(self, offset: int, limit: int) -> memoryview:
        """At most `limit` bytes from `offset`, never across the end of a file.

        Empty if no byte there is readable.
        """


class SendSocket(Protocol):
    """The methods of a socket that are used here."""

    def sendmsg(self, buffers: Sequence[bytes | memoryview], /) -> int:
        """Send buffers, as a non-blocking socket does."""


@attrs.define(eq=False)
class LogSender:
    """Sends a slave the log it lacks, in contiguous frames (store-ha#38).

    A frame never crosses the end of a log file.
    """

    stream: MasterStream
    log: SourceLog
    frame_size: int
    sent_total: int = 0
    _frame: FrameHeader | None = attrs.field(default=None, init=False)  # begun, its end not yet sent
    _frame_sent: int = attrs.field(default=0, init=False)  # bytes of the frame sent so far, header included

    def send(self, sock: SendSocket, now: float) -> bool:
        """Send the log that the slave lacks, up to PASS_SIZE.

        Return True if bytes are left for when the socket is writable again. Raises StreamError and OSError.
        """
        left = PASS_SIZE
        try:
            while left > 0:
                frames, buffers = self._gather(now)
                if not frames:
                    return False
                sent = sock.sendmsg(buffers)
                self.stream.wrote(now)
                self.sent_total += sent
                self._settle(frames, sent)
                if self._frame is None and self.stream.next_offset == self.log.max_commit_log_offset:
                    return False
                left -= sent
        except BlockingIOError:
            return True
        return True

    def _gather(self, now: float) -> tuple[list[FrameHeader], list[bytes | memoryview]]:
        """Return the next frames to send and their bytes (section 4.4).

        First the rest of an incomplete frame, then a heartbeat if one is due, then log.
        """
        frame, offset = self._frame, self.stream.next_offset
        if frame is not None:
            return [frame], self._rest_of(frame)
        if now >= self.stream.heartbeat_at:
            return [FrameHeader(offset, 0)], [HEADER.pack(offset, 0)]
        limit = self.frame_size
        run = self.log.read_log(offset, min(_MAX_FRAMES * limit, max(_RUN_SIZE, limit)))
        frames: list[FrameHeader] = []
        buffers: list[bytes | memoryview] = []
        for start in range(0, len(run), limit):
            body = run[start : start + limit]
            size = len(body)
            frames.append(FrameHeader(offset, size))
            buffers += (HEADER.pack(offset, size), body)
            offset += size
        return frames, buffers

    def _rest_of(self, frame: FrameHeader) -> list[bytes | memoryview]:
        sent = self._frame_sent
        body_sent = max(sent - HEADER_SIZE, 0)
        rest: list[bytes | memoryview] = []
        if sent < HEADER_SIZE:
            rest.append(HEADER.pack(frame.offset, frame.size)[sent:])
        if body_sent < frame.size:
            missing = frame.size - body_sent
            body = self.log.read_log(frame.offset + body_sent, missing)
            if len(body) < missing:
                raise StreamError(f"the log lost the bytes from {frame.offset} on while they were sent")
            rest.append(body)
        return rest

    def _settle(self, frames: list[FrameHeader], sent: int) -> None:
        """Record how many bytes of these frames were sent.

        Frames without a sent byte are dropped, and built again for the next send.
        """
        sent += self._frame_sent
        self._frame, self._frame_sent = None, 0
        for frame in frames:
            if not sent:
                return
            whole = HEADER_SIZE + frame.size
            self.stream.next_offset = frame.offset + frame.size
            if sent < whole:
                self._frame, self._frame_sent = frame, sent
                return
            sent -= whole
