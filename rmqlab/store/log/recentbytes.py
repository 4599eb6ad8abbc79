"""Keeps the bytes that a master appended last, to send them to slaves from memory.

Reading them through the mapping of the log would cause a page fault for each new page, and the kernel's read-ahead
would fill pages after the log's end with zeros. For batches of 100 that would be a quarter of the master's work.
"""

from typing import Final

import attrs

MOST: Final = 256 * 1024
"""Maximum number of bytes kept. One pass of the event loop appends less before it sends."""


@attrs.define(eq=False)
class RecentBytes:
    """Consecutive bytes of one file of the log."""

    _pieces: list[memoryview] = attrs.field(factory=list, init=False)
    _end: int = attrs.field(default=0, init=False)
    """The log offset after the last piece."""
    _size: int = attrs.field(default=0, init=False)
    """Bytes of all pieces."""

    def add(self, offset: int, data: memoryview, *, begins_file: bool) -> None:
        """Keep bytes that were appended at this offset of the log. They must not change."""
        if offset != self._end or begins_file:
            self.clear()
        self._pieces.append(data)
        self._end = offset + len(data)
        self._size += len(data)
        while self._size > MOST:
            self._size -= len(self._pieces.pop(0))

    def clear(self) -> None:
        """Forget all, because the log was truncated."""
        self._pieces.clear()
        self._size = 0

    def read(self, offset: int, limit: int, log_end: int) -> memoryview | None:
        """Return at most `limit` bytes from an offset before the log's end.

        None unless all bytes from there to the log's end are kept.
        """
        if log_end != self._end or not 0 < log_end - offset <= self._size:
            return None
        pieces, start = self._pieces, self._end
        number = len(pieces)
        while start > offset:
            number -= 1
            start -= len(pieces[number])
        joined = pieces[number] if number == len(pieces) - 1 else memoryview(b"".join(pieces[number:]))
        return joined[offset - start : offset - start + limit]
