"""Receiver of log bytes: reads the master's frames and writes them to the log.

Frames are received in bulk into a buffer, and written one by one. Receiving straight into the mapped log would save a
copy, and costs more: each page that is first written through a mapping is a fault of its own, and is protected anew by
every flush.
"""

from typing import Final, Protocol

import attrs

from rmqlab.broker.ha.settings import HEADER_SIZE
from rmqlab.broker.ha.stream import BadFrameError, FrameHeader, SlaveStream, StreamError
from rmqlab.store.files.disk import StoreCorrupt

PASS_SIZE: Final = 2**20
"""Bytes after which received log is acknowledged and dispatched, and other sockets have their turn."""
MANY_FRAMES: Final = 1_000
"""Frames of one receive after which other sockets have their turn, and less is received: a frame costs some 4 us."""
_BUFFER_SIZE: Final = 256 * 1024
_SMALLEST_RECEIVE: Final = 8 * 1024


class AppendError(StreamError):
    """The slave cannot write its log."""


class ReplicaLog(Protocol):
    """The commit log as a slave writes it."""

    @property
    def max_commit_log_offset(self) -> int:
        """The end of the log; 0 if it is empty."""

    def append_raw(self, offset: int, data: memoryview) -> bool:
        """Append bytes of the stream at `offset`.

        False if they do not fit into the file; OSError; StoreCorrupt if they cannot be the begin of a file.
        """


class ReceiveSocket(Protocol):
    """The methods of a socket that are used here."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Receive into a buffer, as a non-blocking socket does."""


@attrs.define(eq=False)
class LogReceiver:
    """Appends a master's frames to the log, each when it is complete (section 4.5).

    A body that does not fit into the rest of the file is dropped, as in 4.9. The next header then
    contradicts our offset, and the connection is closed: the symptom of a slave with another file size.
    """

    stream: SlaveStream
    log: ReplicaLog
    _buffer: memoryview = attrs.field(factory=lambda: memoryview(bytearray(_BUFFER_SIZE)), init=False)
    _receive_size: int = attrs.field(default=PASS_SIZE, init=False)  # of one receive, at most
    _held: int = attrs.field(default=0, init=False)  # bytes of an incomplete frame at the start of the buffer
    _frame: FrameHeader | None = attrs.field(default=None, init=False)  # its header is known, its body is not here

    def receive(self, sock: ReceiveSocket, now: float) -> None:
        """Receive available bytes, up to PASS_SIZE; fewer of very small frames.

        StreamError, also at the end of the stream; OSError of the socket.
        """
        left = PASS_SIZE
        try:
            while left > 0:
                room = self._buffer[self._held : self._held + self._receive_size]
                got = sock.recv_into(room)
                if not got:
                    raise StreamError("closed by the master" + self._what_is_missing())
                self.stream.last_read_at = now
                frames = self._take(self._held + got)
                if frames > MANY_FRAMES:
                    self._receive_size = max(got // frames * MANY_FRAMES, _SMALLEST_RECEIVE)
                    return
                if got < len(room):
                    return
                if frames < MANY_FRAMES // 4:
                    self._receive_size = min(2 * self._receive_size, PASS_SIZE)
                elif frames > MANY_FRAMES // 2:
                    return
                left -= got
        except BlockingIOError:
            return

    def _take(self, end: int) -> int:
        """Append the frames that are complete in the buffer's first `end` bytes.

        Keep the rest. Return their number.
        """
        buffer, at, count = self._buffer, 0, 0
        while True:
            if self._frame is None and end - at >= HEADER_SIZE:
                raw = buffer[at : at + HEADER_SIZE]
                self._frame = self.stream.header(raw, log_end=self.log.max_commit_log_offset)
                at += HEADER_SIZE
            frame = self._frame
            if frame is None or end - at < frame.size:
                break
            self._append(frame, buffer[at : at + frame.size])
            at += frame.size
            count += 1
            self._frame = None
        if frame is not None and frame.size > len(buffer):
            self._buffer = memoryview(bytearray(frame.size))
        self._held = end - at
        if at or self._buffer is not buffer:
            self._buffer[: self._held] = bytes(buffer[at:end])
        return count

    def _append(self, frame: FrameHeader, body: memoryview) -> None:
        try:
            self.log.append_raw(frame.offset, body)
        except OSError as exc:
            raise AppendError(f"cannot append {frame.size} bytes at {frame.offset}: {exc.strerror or exc}") from exc
        except StoreCorrupt as exc:
            raise BadFrameError(f"it sent bytes from {frame.offset} on that cannot begin a file: {exc}") from None

    def _what_is_missing(self) -> str:
        return "" if self._frame is None else f" within a frame, {self._frame.size - self._held} bytes of it missing"
