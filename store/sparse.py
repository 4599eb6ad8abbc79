"""Files of which a small part was ever written: where their data lies, without reading the rest.

A file system that cannot say where the holes of a file are is taken to have none in it.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_BLOCK: Final = 1 << 20
_NO_DATA: Final = errno.ENXIO
_UNKNOWN: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.ENOTTY})
SEEK_DATA: Final[int | None] = getattr(os, "SEEK_DATA", None)
SEEK_HOLE: Final[int | None] = getattr(os, "SEEK_HOLE", None)


def data_ranges(descriptor: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where, from `start` up to `end`, a file may have bytes that are not zero: begins and ends, rising."""
    at = start
    while at < end and (at := _seek(descriptor, at, SEEK_DATA, at, end)) < end:
        hole = min(end, _seek(descriptor, at, SEEK_HOLE, end, end))
        yield at, hole
        at = hole


def first_hole(path: Path, size: int) -> int:
    """Where the first hole of a file of this size begins; its size without one. OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return min(size, _seek(descriptor, 0, SEEK_HOLE, size, size))
    finally:
        os.close(descriptor)


def _seek(descriptor: int, at: int, whence: int | None, unknown: int, none: int) -> int:
    """`lseek`; `unknown` where the file system does not support it, `none` where nothing follows."""
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


def zero_from(path: Path, start: int) -> int:
    """Zero a file from a position on. Returns the position after the last byte that was not zero, else 0. OSError."""
    end = 0
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        for low, high in data_ranges(descriptor, start, os.fstat(descriptor).st_size):
            for at in range(low, high, _BLOCK):
                block = os.pread(descriptor, min(_BLOCK, high - at), at)
                kept = len(block.rstrip(b"\0"))
                if kept:
                    end = at + kept
                    _write(descriptor, bytes(kept), at)
    finally:
        os.close(descriptor)
    return end


def _write(descriptor: int, data: bytes, at: int) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.pwrite(descriptor, rest, at + len(data) - len(rest)) :]
