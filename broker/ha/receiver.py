"""Log bytes in: frames of the master, received straight into the mapped commit log.

While a body is under way, its rest and the next header are asked for in one call, so a frame of a long run
costs one call and no copy. Between runs everything that is there is taken into a small buffer instead: a
short frame then costs one call, too, and a copy of a few bytes.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import attrs

from broker.ha.settings import HEADER_SIZE
from broker.ha.stream import FrameHeader, SlaveStream, StreamError

PASS_SIZE: Final = 2**20
"""Bytes after which what came is acknowledged and dispatched, and other sockets get their turn."""
_HEAP_SIZE: Final = 16 * 1024


class ReplicaLog(Protocol):
    """The commit log as a slave writes it."""

    @property
    def max_commit_log_offset(self) -> int:
        """Where the log ends; 0 if it is empty."""

    def log_space(self, offset: int, size: int) -> memoryview | None:
        """Where `size` bytes of the stream go. None if they do not fit into the file; OSError without disk space."""

    def log_filled(self, end: int) -> None:
        """The stream's bytes up to `end` are in the space that was given."""


class Receiving(Protocol):
    """What is used of a socket."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """As of a socket that does not block."""

    def recvmsg_into(self, buffers: Sequence[memoryview], /) -> tuple[int, Any, int, Any]:
        """As of a socket that does not block."""


@attrs.define(eq=False)
class LogReceiver:
    """Appends a master's frames to the log, each when it is complete (section 4.5).

    A body that does not fit into the rest of the file is dropped, and the next header then contradicts our
    offset: so 4.9 behaves, and that is how a slave with another file size shows.
    """

    stream: SlaveStream
    log: ReplicaLog
    _heap: memoryview = attrs.field(factory=lambda: memoryview(bytearray(_HEAP_SIZE)), init=False)
    _held: int = attrs.field(default=0, init=False)  # bytes of an incomplete header, at the start of the heap
    _frame: FrameHeader | None = attrs.field(default=None, init=False)  # its header is here, its body is not
    _body_got: int = attrs.field(default=0, init=False)
    _space: memoryview | None = attrs.field(default=None, init=False)  # of that body; kept during a pass only
    _fits: bool = attrs.field(default=True, init=False)  # else it is received into nowhere

    def receive(self, sock: Receiving, now: float) -> None:
        """Take what is there, up to PASS_SIZE. StreamError, also at the end of the stream; OSError."""
        left = PASS_SIZE
        try:
            while left > 0:
                asked, got = (
                    self._receive_frames(sock) if self._frame is None else self._receive_body(sock, self._frame)
                )
                self.stream.last_read_at = now
                if got < asked:
                    return
                left -= got
        except BlockingIOError:
            return
        finally:
            self._space = None

    def _receive_frames(self, sock: Receiving) -> tuple[int, int]:
        room = self._heap[self._held :]
        got = sock.recv_into(room)
        if not got:
            raise StreamError("closed by the master")
        self._take(self._held + got)
        return len(room), got

    def _receive_body(self, sock: Receiving, frame: FrameHeader) -> tuple[int, int]:
        space = self._space if self._space is not None else self._find_space(frame)
        rest = space[self._body_got :]
        missing = len(rest)
        got = sock.recvmsg_into([rest, self._heap[:HEADER_SIZE]])[0]
        if not got:
            raise StreamError(f"closed by the master within a frame, {missing} bytes of it missing")
        if got < missing:
            self._body_got += got
        else:
            self._complete(frame)
            self._take(got - missing)
        return missing + HEADER_SIZE, got

    def _take(self, end: int) -> None:
        """Handle the frames in the heap's first `end` bytes; leave the last one's body to be received in place."""
        heap, at = self._heap, 0
        while end - at >= HEADER_SIZE:
            frame = self.stream.header(heap[at : at + HEADER_SIZE], log_end=self.log.max_commit_log_offset)
            at += HEADER_SIZE
            space = self._find_space(frame)
            got = min(frame.size, end - at)
            space[:got] = heap[at : at + got]
            at += got
            if got < frame.size:
                self._frame, self._body_got = frame, got
            else:
                self._complete(frame)
        self._held = end - at
        if at:
            heap[: self._held] = bytes(heap[at:end])

    def _find_space(self, frame: FrameHeader) -> memoryview:
        try:
            space = self.log.log_space(frame.offset, frame.size)
        except OSError as exc:
            raise StreamError(f"no room for {frame.size} bytes at {frame.offset}: {exc.strerror or exc}") from exc
        self._fits = space is not None
        self._space = memoryview(bytearray(frame.size)) if space is None else space
        return self._space

    def _complete(self, frame: FrameHeader) -> None:
        if self._fits:
            self.log.log_filled(frame.offset + frame.size)
        self._frame = self._space = None
