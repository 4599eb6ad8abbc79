"""One file of the index: a chained hash table in a mapped file (section 3.3).

Keys are not stored: a reader gets every message whose key has the same hash, and compares.

| bytes | what |
|---|---|
| 40 | header: times and log offsets of the first and the last entry, used slots, entries |
| 4 x slots | slots: the number of the newest entry of a hash |
| 20 x entries | entries: hash, log offset, seconds since the file's begin, the entry before it in its slot |
"""

import mmap
import os
import struct
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from rmqlab.store.columns import big_endian
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.logfile import LogFile, populate
from rmqlab.store.files.sparse import data_ranges
from rmqlab.store.keyindex.indexkeys import IndexEntry, IndexKeys, packed

INDEX_HEADER: Final = struct.Struct(">qqqqii")
INDEX_ENTRY: Final = struct.Struct(">iqii")  # key hash, commit log offset, seconds since the file's begin, previous
INDEX_SLOT: Final = struct.Struct(">i")
_HEADER_SIZE: Final = 40
_ENTRY_SIZE: Final = 20
_PACK_HEADER: Final = INDEX_HEADER.pack_into
_PACK_ENTRY: Final = INDEX_ENTRY.pack_into
_PACK_SLOT: Final = INDEX_SLOT.pack_into
_UNPACK_SLOT: Final = INDEX_SLOT.unpack_from
_UNIT_BITS: Final = 16  # slots are hit at random: their blocks are allocated 64 KiB at a time, when first hit
_PAGE: Final = 4096  # no file system has smaller holes
_ENTRY_STEP: Final = 256 * 1024
_MAX_MILLIS: Final = 253_402_300_799_999  # the end of the year 9999
_MANY: Final = 8  # entries from which on columns are quicker

_EXAMINED_AT_ONCE: Final = 32


@attrs.define(eq=False)
class IndexFile:
    """A file of the index, with the fields of its header. Times are in ms."""

    file: LogFile
    slots: int
    max_index: int
    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_physical: int = 0
    end_physical: int = 0
    slot_count: int = 0
    index_count: int = 1  # entry 0 is never used
    _map: mmap.mmap = attrs.field(init=False)
    _slot_units: bytearray = attrs.field(init=False)
    _slot_pages: bytearray = attrs.field(init=False)  # 0: a hole; of the pages with the header and the slots
    _has_holes: bool = attrs.field(default=True, init=False)  # there are slots without blocks
    _entries_at: int = attrs.field(init=False)
    _entry_room: int = attrs.field(init=False)
    _lacks_entries: bool = attrs.field(default=False, init=False)  # the last ones of the header were never written

    def __attrs_post_init__(self) -> None:
        self._map = self.file.map
        self._entries_at = _HEADER_SIZE + 4 * self.slots
        self._slot_units = bytearray((self._entries_at >> _UNIT_BITS) + 1)
        self._slot_pages = bytearray(-(-self._entries_at // _PAGE))
        self._entry_room = self._entries_at

    @classmethod
    def open(cls, path: Path, slots: int, max_index: int, disk: Disk, *, create: bool) -> "IndexFile":
        """Map a file of any length, as MappedFile.init does."""
        size = _HEADER_SIZE + 4 * slots + _ENTRY_SIZE * max_index
        file = LogFile.open(path, size, disk, create=create, is_scattered=True, is_exact=False)
        index = cls(file, slots, max_index)
        if not create:
            (index.begin_timestamp, index.end_timestamp, index.begin_physical, index.end_physical,
             index.slot_count, count) = INDEX_HEADER.unpack(file.read_head(_HEADER_SIZE))  # fmt: skip
            index.index_count = max(1, count)
            index._find_data()
        return index

    def _find_data(self) -> None:
        """Find the parts of a file that are no holes. OSError."""
        written = 0
        with self.file.disk.opened(self.file.path, os.O_RDONLY) as descriptor:
            for start, end in data_ranges(descriptor, 0, self.file.size):
                self._note_slots(start, min(end, self._entries_at))
                written = end
        entries_end = self._entries_at + _ENTRY_SIZE * self.index_count
        self._lacks_entries = self.index_count > 1 and written < min(entries_end, self.file.size)

    def _note_slots(self, start: int, end: int) -> None:
        first, last = start // _PAGE, -(-end // _PAGE)
        self._slot_pages[first:last] = b"\1" * (last - first)

    @property
    def is_sane(self) -> bool:
        """True if the header is valid.

        A disk fault, a kill or another program may leave any bytes.
        """
        moments, places = (self.begin_timestamp, self.end_timestamp), (self.begin_physical, self.end_physical)
        return (
            not self._lacks_entries
            and max(self.index_count, self.slot_count) <= self.max_index
            and min(self.slot_count, *moments, *places) >= 0
            and max(moments) <= _MAX_MILLIS
        )

    def cut(self, log_end: int) -> bool:
        """Drop the entries of records from here on, the file's last.

        Returns True if there were any.
        """
        count = self.index_count
        while count > 1:
            entry_at = self._entries_at + _ENTRY_SIZE * (count - 1)
            hashed, physical, _, previous = INDEX_ENTRY.unpack_from(self._map, entry_at)
            if physical < log_end:
                break
            slot_at = _HEADER_SIZE + 4 * (hashed % self.slots)
            if _UNPACK_SLOT(self._map, slot_at)[0] == count - 1:
                _PACK_SLOT(self._map, slot_at, previous)
                self.slot_count -= previous == 0
            count -= 1
        self.end_physical = min(self.end_physical, log_end)
        if count == self.index_count:
            return False
        self.index_count = count
        self.end_timestamp = self._stored_at(count - 1)
        self._write_header()
        return True

    def _stored_at(self, number: int) -> int:
        """Store time of an entry, in ms and rounded down to the second that is kept."""
        seconds: int = INDEX_ENTRY.unpack_from(self._map, self._entries_at + _ENTRY_SIZE * number)[2]
        return self.begin_timestamp + seconds * 1000

    def put(self, entries: Sequence[IndexEntry]) -> None:
        """Enter keys in the order of the log. The caller has checked that they fit."""
        if len(entries) < _MANY or self.index_count == 1:  # the first of all sets the times of the file
            self._put_each(entries)
        else:
            self._put_many(entries)

    def _put_each(self, entries: Sequence[IndexEntry]) -> None:
        mapped, count, slots, entries_at = self._map, self.index_count, self.slots, self._entries_at
        begin, physical_offset, stored_at = self.begin_timestamp, self.end_physical, self.end_timestamp
        try:
            for hashed, physical_offset, stored_at in entries:
                slot_at = _HEADER_SIZE + 4 * (hashed % slots)
                entry_at = entries_at + _ENTRY_SIZE * count
                if not self._slot_units[slot_at >> _UNIT_BITS]:
                    self._allocate_slots(slot_at >> _UNIT_BITS)
                if entry_at + _ENTRY_SIZE > self._entry_room:
                    self._allocate_entries(entry_at, entry_at + _ENTRY_SIZE)
                (previous,) = _UNPACK_SLOT(mapped, slot_at)
                if previous <= 0 or previous > count:
                    self.slot_count += 1
                    previous = 0
                seconds = (stored_at - begin) // 1000 if begin > 0 else 0
                if not 0 <= seconds <= 0x7FFFFFFF:
                    seconds = 0 if seconds < 0 else 0x7FFFFFFF
                _PACK_ENTRY(mapped, entry_at, hashed, physical_offset, seconds, previous)
                _PACK_SLOT(mapped, slot_at, count)
                if count == 1:
                    begin = self.begin_timestamp = stored_at
                    self.begin_physical = physical_offset
                count += 1
        finally:  # also when the disk is full: entries made so far count
            if count > self.index_count:
                self.index_count = count
                self.end_timestamp, self.end_physical = stored_at, physical_offset
                self._write_header()

    def _put_many(self, entries: Sequence[IndexEntry]) -> None:
        """The same by columns, all or none."""
        count, slots, size = self.index_count, self.slots, len(entries)
        hashes = entries.hashes if type(entries) is IndexKeys else [entry[0] for entry in entries]
        places = [hashed % slots for hashed in hashes]
        entries_at = self._entries_at + _ENTRY_SIZE * count
        entries_end = entries_at + _ENTRY_SIZE * size
        self._secure(places, entries_at, entries_end)

        chained = array("i")
        table = self.file.view[_HEADER_SIZE : self._entries_at].cast("i")
        for place, number in zip(places, big_endian("i", range(count, count + size)), strict=True):
            chained.append(table[place])
            table[place] = number
        table.release()
        previous = array("I", bytes(4 * size))
        if chained.tobytes() == previous.tobytes():  # no bytes to swap or to check
            self.slot_count += size
        else:
            found = enumerate(big_endian("i", chained), count)
            previous = array("I", [one if 0 < one <= number else 0 for number, one in found])
            self.slot_count += previous.count(0)
        self._map[entries_at:entries_end] = packed(entries, self.begin_timestamp, previous)
        self.index_count = count + size
        _, self.end_physical, self.end_timestamp = entries[-1]
        self._write_header()

    def _write_header(self) -> None:
        _PACK_HEADER(
            self._map, 0, self.begin_timestamp, self.end_timestamp, self.begin_physical, self.end_physical,
            self.slot_count, self.index_count,
        )  # fmt: skip

    def _secure(self, places: Sequence[int], entries_at: int, entries_end: int) -> None:
        """Allocate blocks for these slots and entries.

        OSError, without any change, if there is no room.
        """
        if self._has_holes:
            first, last = [_HEADER_SIZE + 4 * place >> _UNIT_BITS for place in (min(places), max(places))]
            if 0 in self._slot_units[first : last + 1]:
                for unit in {(_HEADER_SIZE + 4 * place) >> _UNIT_BITS for place in places}:
                    if not self._slot_units[unit]:
                        self._allocate_slots(unit)
        if entries_end > self._entry_room:
            self._allocate_entries(max(entries_at, self._entry_room), entries_end)

    def _allocate_slots(self, unit: int) -> None:
        for needed in {0, unit}:  # unit 0 has the header, too
            if not self._slot_units[needed]:
                start = needed << _UNIT_BITS
                end = min(start + (1 << _UNIT_BITS), self.file.size)
                self._allocate(start, end)
                self._slot_units[needed] = 1
                self._note_slots(start, min(end, self._entries_at))
        self._has_holes = 0 in self._slot_units

    def _allocate_entries(self, start: int, end: int) -> None:
        room = min(max(start + _ENTRY_STEP, end), self.file.size)
        self._allocate(start, room)
        self._entry_room = room

    def _allocate(self, start: int, end: int) -> None:
        self.file.allocate(start, end)
        populate(self._map, start, end)

    def search(self, hashed: int, found: list[int], limit: int, begin: int, end: int) -> Iterator[None]:
        """Add log offsets of this hash stored in [begin, end] to `found`.

        Newest first, up to `limit` in all. Yields now and then: a key of very many records makes a long chain. The file
        must be open when the search continues.
        """
        at = self._newest(hashed)
        if at > self.index_count or self.index_count <= 1:
            return
        examined = 0
        while 0 < at < self.max_index and len(found) < limit:
            if (examined := examined + 1) % _EXAMINED_AT_ONCE == 0:
                yield
            its_hash, physical_offset, seconds, previous = INDEX_ENTRY.unpack_from(
                self._map, self._entries_at + _ENTRY_SIZE * at
            )
            stored_at = self.begin_timestamp + seconds * 1000
            if seconds < 0 or stored_at < begin:
                break
            if its_hash == hashed and stored_at <= end:
                found.append(physical_offset)
            if previous > self.index_count or previous >= at:  # newer than itself: a damaged chain may be a ring
                break
            at = previous

    def _newest(self, hashed: int) -> int:
        """Return the number of the newest entry in the slot of a hash; 0 without one.

        Slots in a hole are not read: see `LogFile.read_head`.
        """
        slot_at = _HEADER_SIZE + INDEX_SLOT.size * (hashed % self.slots)
        if not (self._slot_pages[slot_at // _PAGE] and self._slot_pages[(slot_at + INDEX_SLOT.size - 1) // _PAGE]):
            return 0
        number: int = _UNPACK_SLOT(self._map, slot_at)[0]
        return number

    def overlaps(self, begin: int, end: int) -> bool:
        return begin <= self.end_timestamp and self.begin_timestamp <= end
