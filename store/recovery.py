"""What to keep of a commit log after a stop: decisions over bytes, without files (section 3.5)."""

import enum
import struct
from collections.abc import Sequence
from typing import Final

import attrs

from remoting.message import BLANK_MAGIC, BORN_HOST_IPV6, HEADS, IPV6_MASK, MESSAGE_MAGIC, SYS_FLAG_AT, body_crc

_START: Final = struct.Struct(">iii")
_PREFIX: Final = struct.Struct(">ii")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_SHORT: Final = struct.Struct(">h")


class Walk(enum.Enum):
    """Why a walk over one file's records ended."""

    BLANK = "the rest of the file is declared empty: go on with the next"
    END = "no whole record follows"


def record_size(view: memoryview, at: int, *, check_crc: bool) -> int:
    """Size of the whole, consistent record at `at`; 0 if there is none."""
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


def walk_records(view: memoryview, *, check_crc: bool) -> tuple[int, Walk]:
    """Go from whole record to whole record, from the file's start. Answer where they end, and why."""
    at = 0
    while size := record_size(view, at, check_crc=check_crc):
        at += size
    if at + 8 <= len(view):
        size, magic = _PREFIX.unpack_from(view, at)
        if magic == BLANK_MAGIC and at + size == len(view):
            return at, Walk.BLANK
    return at, Walk.END


@attrs.frozen
class FirstRecord:
    """What an abnormal recovery looks at in each file."""

    magic: int
    stored_at: int

    @classmethod
    def read(cls, view: memoryview) -> "FirstRecord":
        _, magic = _PREFIX.unpack_from(view, 0)
        born_ipv6 = _INT.unpack_from(view, SYS_FLAG_AT)[0] & BORN_HOST_IPV6
        return cls(magic, _LONG.unpack_from(view, 68 if born_ipv6 else 56)[0])


def first_file_after_clean_stop(count: int) -> int:
    """Two files before the last: flushing may lag behind by that much."""
    return max(0, count - 3)


def first_file_after_crash(firsts: Sequence[FirstRecord], safe_timestamp: int) -> int:
    """The newest file that begins with a message surely on disk, in log and queues alike (store-ha#25)."""
    for at in range(len(firsts) - 1, -1, -1):
        first = firsts[at]
        if first.magic == MESSAGE_MAGIC and first.stored_at and first.stored_at <= safe_timestamp:
            return at
    return 0


def log_end(views: Sequence[memoryview], offsets: Sequence[int], start: int, *, check_crc: bool) -> int:
    """The commit log offset after the last whole record, walking from file number `start`.

    A blank counts only if a next file exists: it is written again with the next record.
    """
    end = offsets[start]
    for at in range(start, len(views)):
        wrote, why = walk_records(views[at], check_crc=check_crc)
        end = offsets[at] + wrote
        if why is Walk.END or at + 1 == len(views):
            return end
        end = offsets[at + 1]
    return end
