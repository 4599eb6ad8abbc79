"""Data ranges of sparse files, without reading their holes.

On a file system that does not report holes, a file counts as having none.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rmqlab.store.files.disk import Disk

_BLOCK: Final = 1 << 20
_NO_DATA: Final = errno.ENXIO
_UNKNOWN: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.ENOTTY})
SEEK_DATA: Final[int | None] = getattr(os, "SEEK_DATA", None)
SEEK_HOLE: Final[int | None] = getattr(os, "SEEK_HOLE", None)


def data_ranges(descriptor: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of [start, end) that may have bytes other than zero.

    Each is its begin and end, in rising order.
    """
    at = start
    while at < end and (at := _seek(descriptor, at, SEEK_DATA, at, end)) < end:
        hole = min(end, _seek(descriptor, at, SEEK_HOLE, end, end))
        yield at, hole
        at = hole


def first_hole(path: Path, size: int, disk: Disk) -> int:
    """Return the start of the first hole in a file of this size; its size without one.

    OSError.
    """
    with disk.opened(path, os.O_RDONLY) as descriptor:
        return min(size, _seek(descriptor, 0, SEEK_HOLE, size, size))


def data_end(path: Path, disk: Disk) -> int:
    """Return the end of the last range that may have bytes other than zero.

    0 without one. OSError.
    """
    with disk.opened(path, os.O_RDONLY) as descriptor:
        return data_end_of(descriptor)


def data_end_of(descriptor: int) -> int:
    """`data_end` of an open file."""
    size = os.fstat(descriptor).st_size
    return max((end for _, end in data_ranges(descriptor, 0, size)), default=0)


def _seek(descriptor: int, at: int, whence: int | None, unknown: int, none: int) -> int:
    """Return the result of `lseek`, with defaults for its failures.

    `unknown` if the file system does not support it, `none` if there is no such position before the end.
    """
    if whence is None:
        return unknown
    try:
        return os.lseek(descriptor, at, whence)
    except OSError as exc:
        if exc.errno == _NO_DATA:
            return none
        if exc.errno in _UNKNOWN:
            return unknown
        raise


def zero_from(path: Path, start: int, disk: Disk) -> int:
    """Zero a file from a position on.

    Returns the position after the last byte that was not zero, else 0. OSError.
    """
    end = 0
    with disk.opened(path) as descriptor:
        for low, high in data_ranges(descriptor, start, os.fstat(descriptor).st_size):
            for at in range(low, high, _BLOCK):
                block = disk.read(descriptor, min(_BLOCK, high - at), at)
                kept = len(block.rstrip(b"\0"))
                if kept:
                    end = at + kept
                    _write(descriptor, bytes(kept), at, disk)
    return end


def _write(descriptor: int, data: bytes, at: int, disk: Disk) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[disk.write(descriptor, rest, at + len(data) - len(rest)) :]
