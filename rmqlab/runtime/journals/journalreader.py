"""Reads journals.

A file may end in the middle of an entry, because its writer may be killed at any time. Readers skip bytes that are no
entry, and continue with the next one (`scan_journal`).
"""

import contextlib
import errno
import heapq
import operator
import os
import re
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import attrs

from rmqlab.runtime.journals.journalentry import BROKEN, JournalEntry, new_unpacker, whole_entries
from rmqlab.runtime.journals.journalfiles import journal_files
from rmqlab.runtime.journals.journalwaste import LEAST_WASTE, Waste
from rmqlab.runtime.regularfile import open_regular

READ_BYTES = 2**20

_FIRST_READ_BYTES = 4 * 2**10
"""Bytes of the first read from a place on; each further one is twice as large, up to `READ_BYTES`."""

_HEAD_KEYS = re.compile(
    rb"\xa1v[\x00-\x7f]\xa2at(?:[\x00-\x7f\xe0-\xff]|[\xcc\xd0].|[\xcd\xd1]..|[\xce\xd2].{4}|[\xcf\xd3].{8})\xa4node",
    re.DOTALL,
)
"""The begin of an entry of any version: `v`, the number `at`, and the key `node`.

`re` finds a pattern faster if it begins with a literal.
"""

_HEAD_MAPS = b"\x85\x86"
"""The byte before these keys: a map of five or six items."""

_HEAD_BYTES = 21
"""Its longest."""


@attrs.frozen
class Torn:
    """Bytes of a journal that are no entry: a tail whose writer was killed, or damage."""

    at: int
    """Offset of the first byte in the file."""
    size: int
    """Bytes up to the next entry, or to the end of the file."""


def read_journal(path: Path) -> Iterator[JournalEntry]:
    """Yield the entries of one file, and skip other bytes.

    OSError if the file cannot be read.
    """
    with open_regular(path) as file:
        yield from (found[1] for found in scan_journal(file.fileno()) if not isinstance(found, Torn))


def read_journals(directory: Path) -> list[JournalEntry]:
    """Return the entries of all files of a journal directory by time.

    Empty if the directory is missing.
    """
    return merge_entries(*map(read_journal, journal_files(directory)))


def merge_entries(*journals: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Merge several journals by time.

    Entries of one journal and one millisecond keep their order.
    """
    return list(heapq.merge(*(sorted(journal, key=_at) for journal in journals), key=_at))


def scan_journal(file: int, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, JournalEntry] | Torn]:
    """Yield the entries that begin in a range of an open file, with their places.

    Bytes after them that are no entry are yielded as Torn. Without `end` the range ends with the file. The last entry
    is read to its end, and bytes after it that are no entry belong to it. Raises OSError if the file cannot be read.
    """
    size = os.fstat(file).st_size
    end = size if end is None else min(end, size)
    waste = Waste(begin)
    at = _next_entry(file, begin, end, waste) if begin else 0
    while at < end:
        for place, after, entry in _entries_from(file, at, waste):
            if place >= end:
                return
            yield place, entry
            at = after
        if at < size:
            following = _next_entry(file, at + 1, size, waste)
            yield Torn(at, following - at)
            at = following


def _entries_from(file: int, begin: int, waste: Waste) -> Generator[tuple[int, int, JournalEntry], None, None]:
    """Yield consecutive entries from a place on, each with its begin and end."""
    longest, most_items = waste.limits(begin)
    unpacker, fed, at = new_unpacker(most_items), begin, begin
    step, least_waste = _FIRST_READ_BYTES, 0
    try:
        while fed - at < longest and (more := os.pread(file, step, fed)):
            unpacker.feed(more)
            fed += len(more)
            step = min(2 * step, READ_BYTES)
            for entry in whole_entries(unpacker):
                after = begin + unpacker.tell()
                yield at, after, entry
                at = after
    except BROKEN:
        least_waste = LEAST_WASTE
    finally:
        waste.size += max(fed - at, least_waste)


def _next_entry(file: int, begin: int, end: int, waste: Waste) -> int:
    """Return the first place from `begin` on where a whole entry begins.

    `end` if there is no such place before it. Holes of a sparse file are not read: an entry's first byte is not 0.
    """
    step = _FIRST_READ_BYTES
    while (begin := _after_hole(file, begin, end)) < end:
        data = os.pread(file, step, begin)
        step = min(2 * step, READ_BYTES)
        for keys in _HEAD_KEYS.finditer(data):
            head = keys.start() - 1
            if begin + head >= end:
                return end
            if head >= 0 and data[head] in _HEAD_MAPS and _is_entry(file, begin + head, waste):
                return begin + head
        if len(data) < _HEAD_BYTES:
            break
        begin += len(data) - _HEAD_BYTES + 1
    return end


def _is_entry(file: int, at: int, waste: Waste) -> bool:
    with contextlib.closing(_entries_from(file, at, waste)) as entries:
        return next(entries, None) is not None


def _after_hole(file: int, begin: int, end: int) -> int:
    """Return the first place from `begin` on that is not in a hole.

    `end` if the rest of the file is a hole.
    """
    try:
        return os.lseek(file, begin, os.SEEK_DATA)
    except OSError as exc:
        return end if exc.errno == errno.ENXIO else begin  # file systems without holes have other errors


_at = operator.attrgetter("at_millis")
