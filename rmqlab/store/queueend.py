"""The end of the entries in a queue file (sections 3.1 and 3.5)."""

import contextlib
import struct
import sys
from array import array
from bisect import bisect_left
from typing import Final

from rmqlab.store.config import QUEUE_ENTRY_SIZE
from rmqlab.store.logfile import LogFile
from rmqlab.store.sparse import first_hole

OFFSET_AND_SIZE: Final = struct.Struct(">qi8x")
"""The first fields of an entry: commit log offset and size of its record. The tags code follows."""
_WORDS: Final = QUEUE_ENTRY_SIZE // 4


def written_bytes(file: LogFile, *, crashed: bool) -> int:
    """Return the bytes of entries at the start of a file. A hole was never written."""
    room = first_hole(file.path, file.size, file.disk) // QUEUE_ENTRY_SIZE
    entries = file.view[: room * QUEUE_ENTRY_SIZE]
    if crashed:
        return valid_count(entries) * QUEUE_ENTRY_SIZE
    return bisect_left(range(room), 1, key=lambda i: not _is_entry(entries, i)) * QUEUE_ENTRY_SIZE


def _is_entry(entries: memoryview, i: int) -> bool:
    offset, size = OFFSET_AND_SIZE.unpack_from(entries, i * QUEUE_ENTRY_SIZE)
    return bool(offset >= 0 and size > 0)


def valid_count(view: memoryview) -> int:
    """Return the number of entries before the first invalid one.

    Invalid is a negative offset or a size of 0. A start after a crash checks all entries of up to three files of every
    queue, so this uses arrays instead of a loop.
    """
    words = view.cast("i")  # five to an entry
    sizes, highs = (_big_endian(words[first::_WORDS]) for first in (2, 0))
    with contextlib.suppress(ValueError):
        count = sizes.index(0)
        del sizes[count:], highs[count:]
    words.release()
    if min(sizes, default=1) > 0 and min(highs, default=0) >= 0:
        return len(sizes)
    return next(i for i, (size, high) in enumerate(zip(sizes, highs, strict=True)) if size <= 0 or high < 0)


def _big_endian(words: memoryview) -> "array[int]":
    numbers = array("i", words.tobytes())
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
