"""Finds the end of a log after any stop, and fixes its index.

Section 7.4, DLedgerMmapFileStore.recover.
"""

import logging
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import attrs

from rmqlab.dledger.entry import BLANK_MAGIC, HEADER, UNIT, EntryHeader, IndexUnit
from rmqlab.store.files.disk import StoreCorrupt
from rmqlab.store.files.filequeue import FileQueue
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.files.sparse import zero_from

logger = logging.getLogger(__name__)

IsWhole: TypeAlias = Callable[[memoryview], bool]
"""True for the body of an entry that was written as a whole."""
IsTorn: TypeAlias = Callable[[memoryview, int, EntryHeader], bool]
"""True for an entry at a position of its file whose body a power loss may have taken, though another one follows."""
_CHECKED_FILES: Final = 3
"""The last files, which recovery reads as a whole."""
_ZEROED_AT_ONCE: Final = 2**20
"""Bytes. A cut may be as large as a file."""
_MAGIC = struct.Struct(">i")


@attrs.frozen
class LogEnd:
    """The last valid entry, and the position behind it.

    Index and term are -1 in an empty log.
    """

    index: int
    term: int
    position: int


@attrs.frozen
class BodyChecks:
    """What recovery knows of entries' bodies. By default all are valid."""

    is_whole: IsWhole = lambda _body: True
    is_torn: IsTorn = lambda _view, _at, _header: False
    synced_end: int = 0
    """Position before which all entries were synced: recovery does not read their bodies, but for the last entries."""


def recover(data: FileQueue, index: FileQueue, checks: BodyChecks) -> LogEnd:
    """Cut both file lists behind the last valid entry, and fix the index.

    The bytes behind that entry become zeros, which are synced. DLedger checks headers only. A power loss may leave an
    entry's header, but not its body; the last entries are dropped until one has a whole body, so that the leader sends
    them again. With them the member could lead, and replace the right entries of the others. A torn entry among those
    that were not synced is dropped with all behind it.

    A blank at the end becomes zeros, too: the entry that did not fit is lost, and a smaller one may follow. Members
    that have no blank would reject it at the begin of the next file.

    StoreCorrupt if a file in the middle is missing (DISK_ERROR in DLedger), or if more than one file would be lost,
    where DLedger ends its process; OSError if units cannot be written.
    """
    _check_continuous(data)
    _check_continuous(index)
    end = _Recovery(data, index, checks).run() if data.files else LogEnd(-1, -1, 0)
    _check_loss(data, end.position)
    end = _end_with(data, index, end.index)
    while end.index >= 0 and not checks.is_whole(_body_of(data, index, end.index)):
        logger.warning("%s: entry %d has no whole body: it is dropped", data.directory, end.index)
        end = _end_with(data, index, end.index - 1)
    data.trim(end.position)
    last = data.last  # otherwise an entry that was cut may follow a new one of the same size, also after a power loss
    if last is not None and zero_from(last.path, last.wrote, data.disk):
        last.sync()
    index.trim((end.index + 1) * UNIT.size)
    return end


def cut(files: FileQueue, offset: int) -> bool:
    """Make an offset the end of the files (dledger#46). OSError.

    If they do not reach it, all are deleted and they begin there, in the file that contains it. True then.
    """
    files.trim(offset)
    if files.max_offset == offset:
        return False
    files.destroy()
    files.add(offset - offset % files.file_size).wrote = offset % files.file_size
    return True


def zero(file: LogFile, begin: int, end: int) -> None:
    """Make a part of a file zeros, which was written before."""
    for at in range(begin, end, _ZEROED_AT_ONCE):
        count = min(_ZEROED_AT_ONCE, end - at)
        file.map[at : at + count] = bytes(count)


def last_ending_by(index: FileQueue, first: int, last: int, position: int) -> int:
    """Return the last of some entries that ends at or before a position.

    That before `first`, if none does.
    """

    def end_of(number: int) -> int:
        unit = unit_at(index, number)
        return unit.pos + unit.size if unit is not None else position + 1

    return bisect_right(range(last + 1), position, lo=first, key=end_of) - 1


def unit_at(index: FileQueue, number: int) -> IndexUnit | None:
    """Return the unit of an entry, or None if no file has it."""
    offset = number * UNIT.size
    file = index.file_at(offset)
    if file is None or file.end_offset < offset + UNIT.size:
        return None
    return IndexUnit.decode(file.view, offset - file.first_offset)


def _body_of(data: FileQueue, index: FileQueue, number: int) -> memoryview:
    """Return the body of an entry that the walk has found; empty without a place.

    OSError.
    """
    unit = unit_at(index, number)
    file = data.file_at(unit.pos) if unit else None
    if unit is None or file is None:
        return memoryview(b"")
    at = unit.pos - file.first_offset
    with file.image() as image:
        image.load(at, at + unit.size)
        return memoryview(bytes(image.view[at + HEADER.size : at + unit.size]))


def _end_with(data: FileQueue, index: FileQueue, number: int) -> LogEnd:
    """Return the end of a log whose last entry has an index.

    That of an empty log without such an entry.
    """
    unit = unit_at(index, number)
    if unit is None or unit.number != number or data.file_at(unit.pos) is None:
        return LogEnd(-1, -1, data.min_offset)
    return LogEnd(unit.number, unit.term, unit.pos + unit.size)


def _check_continuous(files: FileQueue) -> None:
    for before, after in zip(files.files, files.files[1:], strict=False):
        if after.first_offset - before.first_offset != files.file_size:
            raise StoreCorrupt(f"{after.path} does not follow {before.path.name}: files between them are missing")


def _check_loss(data: FileQueue, end: int) -> None:
    """Raise StoreCorrupt if recovery would delete more than a file of entries.

    Files behind a damaged entry that begin with zeros have lost what was not synced. A log whose first file begins with
    zeros begins within that file: nothing of it was read.
    """
    file, last = data.file_at(end), data.last
    if file is None or last is None or last.first_offset - end <= data.file_size or _is_zero(data.files[0]):
        return
    behind = [one for one in data.files if one.first_offset > end]
    if any(_first_header(one).is_valid_at(one.first_offset) for one in behind):
        raise StoreCorrupt(
            f"{file.path} has no valid entry at offset {end}, and recovery would delete the files up to"
            f" {last.path.name}: restore it, or delete {data.directory} to get all entries from the leader"
        )


def _is_zero(file: LogFile) -> bool:
    """Return True if a file begins with zeros in the place of an entry's header."""
    return not any(file.read_head(HEADER.size))


def _first_header(file: LogFile) -> EntryHeader:
    return EntryHeader.decode(memoryview(file.read_head(HEADER.size)))


@attrs.define
class _Recovery:
    data: FileQueue
    index: FileQueue
    checks: BodyChecks
    mended_from: int | None = None
    """Begin of the first unit that does not match its entry: it and all later ones are rewritten."""

    def run(self) -> LogEnd:
        first = self._first_file()
        end = LogEnd(-1, -1, self.data.files[first].first_offset)
        for file in self.data.files[first:]:
            is_complete = False
            for header in self._headers(file):
                if header is None:
                    is_complete = True
                elif not _continues(header, end):
                    break
                else:
                    self._mend_index(header)
                    end = LogEnd(header.number, header.term, header.pos + header.size)
            if not is_complete:
                break
            end = attrs.evolve(end, position=file.first_offset + file.size)
        self._sync_index()
        return end

    def _sync_index(self) -> None:
        """Sync the files with rewritten units. OSError.

        Later syncs are of files with units of new entries.
        """
        for file in self.index.files:
            if self.mended_from is not None and file.end_offset > self.mended_from:
                file.sync()

    def _first_file(self) -> int:
        """Return the number of the file to begin with; entries before it are trusted."""
        start = max(len(self.data.files) - _CHECKED_FILES, 0)
        return next((number for number in range(start, -1, -1) if self._is_sound(self.data.files[number])), 0)

    def _is_sound(self, file: LogFile) -> bool:
        header = _first_header(file)
        return header.is_valid_at(file.first_offset) and unit_at(self.index, header.number) == header.unit

    def _headers(self, file: LogFile) -> Iterator[EntryHeader | None]:
        """Yield each valid header of a file, and None at a blank. OSError."""
        at = 0
        with file.image() as image:
            while at + _MAGIC.size <= file.size:
                image.load(at, at + HEADER.size)
                if _MAGIC.unpack_from(image.view, at)[0] == BLANK_MAGIC:
                    yield None
                    return
                if at + HEADER.size > file.size:
                    return
                header = EntryHeader.decode(image.view, at)
                if not header.is_valid_at(file.first_offset + at) or at + header.size > file.size:
                    return
                if header.pos >= self.checks.synced_end:
                    image.load(at, min(at + header.size + HEADER.size, file.size))
                    if self.checks.is_torn(image.view, at, header):
                        logger.warning("%s: entry %d is torn: the log ends before it", file.path, header.number)
                        return
                yield header
                at += header.size

    def _mend_index(self, header: EntryHeader) -> None:
        if self.mended_from is None and unit_at(self.index, header.number) != header.unit:
            self.mended_from = header.number * UNIT.size
            cut(self.index, self.mended_from)
        if self.mended_from is not None:
            self.index.file_to_write().append(header.unit.encode())


def _continues(header: EntryHeader, end: LogEnd) -> bool:
    """True if an entry may follow the last valid one. Any entry may be the first."""
    return header.term >= end.term and (end.index == -1 or header.number == end.index + 1)
