"""Recovery: find the end of a commit log after a stop (section 3.5)."""

import enum
import struct
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol
from zlib import crc32

import attrs

from rmqlab.remoting.message import (
    BLANK_MAGIC,
    HEADS,
    IPV6_MASK,
    MESSAGE_MAGIC,
    SYS_FLAG_AT,
    TRANSACTION_PREPARED,
    body_crc,
    store_time_at,
)
from rmqlab.store.files.fileimage import FileImage
from rmqlab.store.files.logfile import LogFile

_RECORD: Final = struct.Struct(">iii24xi44xi")  # size, magic, CRC, sysFlag, body length; hosts are IPv4
_START: Final = struct.Struct(">iii")
_PREFIX: Final = struct.Struct(">ii")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_SHORT: Final = struct.Struct(">h")
_WINDOW: Final = 32 * 2**20
"""Bytes of the log whose records are compared with the queues at once."""


class Walk(enum.Enum):
    """The reason why a walk over one file's records ended."""

    BLANK = "the rest of the file is declared empty: continue with the next file"
    END = "no whole record follows"
    LIMIT = "the walk reached its limit"


def record_size(view: memoryview, at: int, *, check_crc: bool) -> int:
    """Return the size of the whole, consistent record at `at`; 0 without one."""
    if at + 88 > len(view):
        return 0
    size: int
    size, magic, crc = _START.unpack_from(view, at)
    if magic != MESSAGE_MAGIC or at + size > len(view):
        return 0
    head = HEADS[(_INT.unpack_from(view, at + SYS_FLAG_AT)[0] & IPV6_MASK) >> 4]
    body_at = at + head.size
    if body_at + 3 > at + size:
        return 0
    body_size: int = _INT.unpack_from(view, body_at - 4)[0]
    topic_at = body_at + body_size
    if body_size < 0 or topic_at + 3 > at + size:
        return 0
    properties_at = topic_at + 1 + view[topic_at] + 2
    if properties_at > at + size:
        return 0
    if properties_at + _SHORT.unpack_from(view, properties_at - 2)[0] != at + size:
        return 0
    if check_crc and body_size and body_crc(view[body_at:topic_at]) != crc:
        return 0
    return size


def walk_records(
    view: memoryview, start: int = 0, limit: int | None = None, *, check_crc: bool, entered: list[int] | None = None
) -> tuple[int, Walk]:
    """Walk over whole records that start from `start` up to `limit`.

    Return the end of the last one, and the reason.

    `start` is the start of a record. Positions of records that have a queue entry are appended to `entered`. The checks
    of `record_size` are repeated inline for speed: a start after a crash spends most of its time here.
    """
    length, unpack, short, entries = (
        len(view),
        _RECORD.unpack_from,
        _SHORT.unpack_from,
        [] if entered is None else entered,
    )
    at, last = start, length - _RECORD.size
    limit = length if limit is None else limit
    while at <= last and at < limit:
        size, magic, crc, sys_flag, body_size = unpack(view, at)
        end = at + size
        if magic != MESSAGE_MAGIC or end > length:
            break
        if sys_flag & IPV6_MASK:
            if not record_size(view, at, check_crc=check_crc):
                break
        else:
            body_at = at + 88
            topic_at = body_at + body_size
            if body_size < 0 or topic_at + 3 > end:
                break
            properties_at = topic_at + view[topic_at] + 3
            if properties_at > end or properties_at + short(view, properties_at - 2)[0] != end:
                break
            if check_crc and body_size and crc32(view[body_at:topic_at]) & 0x7FFFFFFF != crc:
                break
        if not sys_flag & TRANSACTION_PREPARED:  # nor a rollback (store-ha#22)
            entries.append(at)
        at = end
    if at >= limit:
        return at, Walk.LIMIT if at < length else Walk.END
    if at + 8 <= length:
        size, magic = _PREFIX.unpack_from(view, at)
        if magic == BLANK_MAGIC and at + size == length:
            return at, Walk.BLANK
    return at, Walk.END


@attrs.frozen
class FirstRecord:
    """The fields of each file's first record that recovery after a crash reads."""

    magic: int
    stored_at: int

    @classmethod
    def read(cls, file: LogFile, at: int = 0) -> "FirstRecord":
        """Read the record at a position of a file. OSError."""
        head = file.read_head(at + HEADS[0].size)
        _, magic = _PREFIX.unpack_from(head, at)
        (sys_flag,) = _INT.unpack_from(head, at + SYS_FLAG_AT)
        return cls(magic, _LONG.unpack_from(head, at + store_time_at(sys_flag))[0])


def first_file_after_clean_stop(count: int) -> int:
    """Two files before the last: flushing may lag behind by that much."""
    return max(0, count - 3)


def first_file_after_crash(firsts: Sequence[FirstRecord], safe_timestamp: int) -> int:
    """Return the newest file whose first message is surely on disk (store-ha#25).

    On disk in log and queues alike. Returns the number of the file.
    """
    for at in range(len(firsts) - 1, -1, -1):
        first = firsts[at]
        if first.magic == MESSAGE_MAGIC and first.stored_at and first.stored_at <= safe_timestamp:
            return at
    return 0


class LogPart(Protocol):
    """A file of a log."""

    @property
    def first_offset(self) -> int:
        """The log offset of its first byte."""

    def image(self) -> AbstractContextManager[FileImage]:
        """Return its bytes. OSError."""


@attrs.define
class LogWalk:
    """A walk over the files of a log from number `start` on, window by window.

    `end` is the commit log offset after the last whole record, once all windows are seen. A blank counts only if a
    next file exists: it is written again with the next record.
    """

    files: Sequence[LogPart]
    start: int
    check_crc: bool
    end: int = attrs.field(init=False)
    last_record: int = attrs.field(default=-1, init=False)
    """Commit log offset of the last record that has a queue entry."""

    def __attrs_post_init__(self) -> None:
        self.end = self.files[self.start].first_offset

    def windows(self, size: int = _WINDOW) -> Iterator[tuple[int, int, list[int]]]:
        """Yield the parts of the log, with their records that have a queue entry. OSError.

        Each part is its begin, its end, and the offsets of these records.
        """
        for number in range(self.start, len(self.files)):
            first, at, why = self.files[number].first_offset, 0, Walk.LIMIT
            with self.files[number].image() as image:
                while why is Walk.LIMIT:
                    entered: list[int] = []
                    low = at
                    at, why = self._walk_part(image, at, at + size, entered)
                    if first:
                        entered = [first + start for start in entered]
                    if entered:
                        self.last_record = entered[-1]
                    self.end = first + at
                    yield first + low, self.end, entered
            if why is Walk.END or number + 1 == len(self.files):
                return
            self.end = self.files[number + 1].first_offset

    def _walk_part(self, image: FileImage, at: int, limit: int, entered: list[int]) -> tuple[int, Walk]:
        """`walk_records` of a part of a file."""
        image.load(at, limit)
        at, why = walk_records(image.view, at, limit, check_crc=self.check_crc, entered=entered)
        if why is Walk.END and (end := _end_of_next(image, at)) > image.high:  # read a part of it only
            image.load(at, end)
            why = Walk.LIMIT
        return at, why


def _end_of_next(image: FileImage, at: int) -> int:
    """Return the end of the record that may begin at a position.

    At most the end of its file.
    """
    if at + _RECORD.size > image.high:
        return min(at + _RECORD.size, image.size)
    size, magic = _PREFIX.unpack_from(image.view, at)
    return min(at + size, image.size) if magic == MESSAGE_MAGIC else at


def log_end(files: Sequence[LogPart], start: int, *, check_crc: bool) -> int:
    """Return the log offset after the last whole record, from file `start` on."""
    walk = LogWalk(files, start, check_crc)
    for _ in walk.windows():
        pass
    return walk.end


def first_missing(wanted: Sequence[int], there: Sequence[int]) -> int | None:
    """Return the first wanted offset that is missing, or None.

    Both are in rising order.
    """
    if wanted == there:
        return None
    known = frozenset(there)
    return next((offset for offset in wanted if offset not in known), None)
