"""The end of the entries in a queue file (sections 3.1 and 3.5)."""

import contextlib
import functools
import operator
import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

from rmqlab.store.columns import from_big_endian
from rmqlab.store.config import QUEUE_ENTRY_SIZE
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.files.sparse import first_hole

OFFSET_AND_SIZE: Final = struct.Struct(">qi8x")
"""The first fields of an entry: commit log offset and size of its record. The tags code follows."""
_WORDS: Final = QUEUE_ENTRY_SIZE // 4
_RECOVERED_FILES: Final = 3
_PAGE_SIZE: Final = 4096


def unchecked_files(files: Sequence[LogFile], complete_to: int | None) -> Sequence[LogFile]:
    """Return the files of a queue whose entries a start checks.

    These are the last three, as in RocketMQ. After a crash also those before, back to one that begins with the entry of
    a record before `complete_to`: the entries up to this commit log offset are on disk.
    """
    number = max(0, len(files) - _RECOVERED_FILES)
    while complete_to is not None and number:
        offset, size = OFFSET_AND_SIZE.unpack_from(files[number].read_head())
        if size > 0 and 0 <= offset < complete_to:
            break
        number -= 1
    return files[number:]


def find_end(file: LogFile, after: int, complete_to: int | None) -> tuple[int, bool]:
    """Return the bytes of a file's entries, and whether others are damaged.

    `after` is the commit log offset of the entry before the file; -1 without one. A hole was never written. After a
    clean stop (`complete_to` is None), a file has only zeros after its entries. `complete_to` as in `unchecked_files`.
    """
    room = first_hole(file.path, file.size, file.disk) // QUEUE_ENTRY_SIZE
    entries = file.view[: room * QUEUE_ENTRY_SIZE]
    if room and _is_entry(entries, 0) and offset_at(entries, 0) < after:
        return 0, True
    if complete_to is not None:  # the log is compared with the queues
        return valid_count(entries) * QUEUE_ENTRY_SIZE, False
    end = bisect_left(range(room), 1, key=lambda i: not _is_entry(entries, i)) * QUEUE_ENTRY_SIZE
    return end, bool(bytes(entries[end:]).strip(b"\0"))


def may_lack_page(file: LogFile, complete_to: int) -> bool:
    """True if the last entry of a file is in two pages, and not surely on disk.

    The second page has its tags code, or a part of it. `complete_to` as in `unchecked_files`.
    """
    begin = file.wrote - QUEUE_ENTRY_SIZE
    if begin < 0 or begin // _PAGE_SIZE == (file.wrote - 1) // _PAGE_SIZE:
        return False
    return offset_at(file.view, begin // QUEUE_ENTRY_SIZE) >= complete_to


def offset_at(entries: memoryview, i: int) -> int:
    """Return the commit log offset of an entry."""
    offset: int = OFFSET_AND_SIZE.unpack_from(entries, i * QUEUE_ENTRY_SIZE)[0]
    return offset


def offset_of_each(entries: memoryview) -> Callable[[int], int]:
    """Return the commit log offset of entry i, for bisecting."""
    return functools.partial(offset_at, entries)


def _is_entry(entries: memoryview, i: int) -> bool:
    offset, size = OFFSET_AND_SIZE.unpack_from(entries, i * QUEUE_ENTRY_SIZE)
    return bool(offset >= 0 and size > 0)


def valid_count(view: memoryview) -> int:
    """Return the number of entries before the first invalid one.

    Invalid is a negative offset, one below the offset before it, or a size of 0. A start after a crash checks all
    entries of up to three files of every queue, so this uses arrays instead of a loop.
    """
    words = view.cast("i")  # five to an entry
    sizes = from_big_endian("i", words[2::_WORDS].tobytes())
    with contextlib.suppress(ValueError):
        del sizes[sizes.index(0) :]
    offsets = array("i", bytes(8 * len(sizes)))
    for half in (0, 1):
        offsets[half::2] = array("i", words[half : _WORDS * len(sizes) : _WORDS].tobytes())
    words.release()
    offsets = from_big_endian("q", offsets.tobytes())
    if min(sizes, default=1) > 0 and min(offsets, default=0) >= 0 and all(map(operator.le, offsets, offsets[1:])):
        return len(sizes)
    before = zip(sizes, offsets, (0, *offsets), strict=False)
    return next(i for i, (size, offset, last) in enumerate(before) if size <= 0 or offset < last)
