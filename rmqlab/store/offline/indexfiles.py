"""Finds index files that a broker cannot have written.

Layout: a head of 40 bytes, hash slots of 4, entries of 20 (store-and-ha section 3.3). RocketMQ never uses entry 0.
"""

import array
import calendar
import contextlib
import itertools
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import attrs

from rmqlab.remoting.message import (
    FIXED_SIZE,
    PROPERTY_KEYS,
    PROPERTY_UNIQ_KEY,
    RecordError,
    StoredMessage,
    decode_message,
)
from rmqlab.runtime.config.tomltext import parse_toml
from rmqlab.runtime.regularfile import open_regular, read_regular
from rmqlab.store.config import StoreConfig
from rmqlab.store.keyindex.indexfile import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT
from rmqlab.store.keyindex.indexing import key_hash
from rmqlab.store.log.loglayout import files_in, log_directory
from rmqlab.store.offline.indexchains import broken_chains

_LARGEST_RECORD: Final = 16 * 2**20
"""Bytes: a wrong entry may point at any four bytes, and a record has at most 4 MB of body by default."""
_TRIED: Final = 60
"""Entries of an index file that are compared with their records."""
_FEW: Final = 9
"""Entries that may be wrong because their records are damaged."""
_NAME_DIGITS: Final = 17
"""A file is named by the local time of its creation: year to second, then milliseconds."""
_FARTHEST_ZONE: Final = 13 * 3_600_000
"""Milliseconds. The local time of no place is farther behind UTC."""
_SUMMER_TIMES: Final = (1_800_000, 3_600_000)
"""Milliseconds by which local time goes back when summer time ends."""
_CREATION_SLACK: Final = 300_000
"""Milliseconds by which files may be created later than their first messages were stored."""
_ROUNDED: Final = 1000
"""Milliseconds: a broker that cuts an index after a loss rounds the time of the last message."""


@attrs.frozen
class _Head:
    """The head of an index file. Times are in ms, places are commit log offsets."""

    begin_time: int
    end_time: int
    begin: int
    end: int
    slots: int
    count: int
    """Number of its entries, with entry 0."""


def odd_index_names(root: Path) -> Iterator[str]:
    """Yield index files whose names are not times, or not in their order.

    A broker reads files in the order of names, and no file with another name. Raises OSError.
    """
    heads: dict[str, _Head] = {}
    for path in sorted(one for one in (root / "index").glob("*") if one.is_file()):
        created = _creation(path.name)
        if created is None:
            yield f"{root.name}/index/{path.name}: no broker gives an index file this name"
        elif path.stat().st_size >= INDEX_HEADER.size:
            head = heads[path.name] = _read_head(path)
            if created < head.begin_time - _FARTHEST_ZONE:
                yield f"{root.name}/index/{path.name}: its name is an earlier time than that of its first message"
    used = [(name, head) for name, head in heads.items() if head.count > 1]
    for (before, one), (name, other) in itertools.pairwise(used):
        if other.begin < one.end and not _is_end_of_summer_time(before, one, name, other):
            yield (
                f"{root.name}/index/{name}: it states messages from {other.begin} on, and {before}, which is older by"
                f" its name, messages up to {one.end}: one of them was renamed or copied, or the local time was set back"
            )


def _is_end_of_summer_time(before: str, one: _Head, name: str, other: _Head) -> bool:
    """Return True if a file has an earlier name because summer time ended.

    `before` is the later file: the difference of its name and the time of its first message is smaller.
    """
    later, earlier = _creation(before), _creation(name)
    if later is None or earlier is None or other.begin_time > one.begin_time:
        return False
    went_back = (earlier - other.begin_time) - (later - one.begin_time)
    return any(abs(went_back - by) <= _CREATION_SLACK for by in _SUMMER_TIMES)


def _creation(name: str) -> int | None:
    """Return the time in a file's name, read as UTC, in ms; None for other names."""
    if len(name) != _NAME_DIGITS or not (name.isascii() and name.isdecimal()):
        return None
    with contextlib.suppress(ValueError):
        return calendar.timegm(time.strptime(name[:14], "%Y%m%d%H%M%S")) * 1000 + int(name[14:])
    return None


def foreign_indexes(root: Path) -> Iterator[str]:
    """Yield index files with many entries that do not lead to their records.

    Entries of expired records are not checked; a few wrong entries point to a damaged log. Raises OSError if a file
    cannot be read.
    """
    with contextlib.closing(_Records(root)) as records:
        yield from _foreign_indexes(root, records)


def _foreign_indexes(root: Path, records: "_Records") -> Iterator[str]:
    slots, most = _index_sizes(root.parent / "config.toml")
    for path in sorted(one for one in (root / "index").glob("*") if one.name.isdecimal() and one.is_file()):
        entries_at = INDEX_HEADER.size + INDEX_SLOT.size * slots
        if path.stat().st_size != entries_at + INDEX_ENTRY.size * most:  # cut, or of other settings
            yield from (f"{root.name}/index/{path.name}: {line}" for line in _cut_off(path, entries_at, records))
            continue
        tried = [records.have_key(hashed, offset) for hashed, offset in _entries(path, entries_at, most)]
        known = [is_right for is_right in tried if is_right is not None]
        wrong = known.count(False)
        head = _read_head(path)
        if not tried and head.end:
            yield f"{root.name}/index/{path.name}: it states messages up to {head.end}, and has no entries"
        if known and (wrong == len(known) or wrong > max(_FEW, len(known) // 5)):
            yield (
                f"{root.name}/index/{path.name}: {wrong} of {len(known)} entries that were tried do not lead to a"
                " record with such a key: it is damaged, or the index of another broker"
            )
            continue
        lines = list(_miscounted(path, head, entries_at, most, records)) if tried else []
        if tried and not lines:
            lines += _misstated(path, head, entries_at, most, records)
        used = _used_slots(path, slots)
        if used < head.slots // 2:
            lines.append(
                f"{head.slots - used} of its {head.slots} hash slots are empty: queries do not find their keys"
            )
        if tried and not lines:
            lines += broken_chains(path, slots, min(head.count, most))
        yield from (f"{root.name}/index/{path.name}: {line}" for line in lines)


def _index_sizes(config: Path) -> tuple[int, int]:
    """Return the slots and entries of a node's index files.

    From its settings; RocketMQ's defaults without valid settings.
    """
    store = StoreConfig()
    with contextlib.suppress(OSError, ValueError, RecursionError):
        settings = parse_toml(read_regular(config).decode())
        keys = ("max_hash_slot_num", "max_index_num")
        store = StoreConfig(**{key: settings[key] for key in keys if isinstance(settings.get(key), int)})
    return store.max_hash_slot_num, store.max_index_num


def _entries(path: Path, entries_at: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield key hash and commit log offset of some entries, evenly spread.

    RocketMQ never uses the first one.
    """
    with open_regular(path) as file:
        *_, count = INDEX_HEADER.unpack(file.read(INDEX_HEADER.size))
        count = min(max(count, 1), most)
        for number in range(1, count, max(1, (count - 1) // _TRIED)):
            file.seek(entries_at + INDEX_ENTRY.size * number)
            hashed, offset, _, _ = INDEX_ENTRY.unpack(file.read(INDEX_ENTRY.size))
            yield hashed, offset


def _cut_off(path: Path, entries_at: int, records: "_Records") -> Iterator[str]:
    """Yield a line if a file ends before the entries that its head states.

    It has as many slots as the settings say if its first entry is that of its first message.
    """
    with open_regular(path) as file:
        start = file.read(INDEX_HEADER.size)
        file.seek(entries_at + INDEX_ENTRY.size)
        first = file.read(INDEX_ENTRY.size)
        size = file.seek(0, os.SEEK_END)
    if len(start) < INDEX_HEADER.size:
        if start:  # a full disk may leave an empty file
            yield "it is shorter than its head"
        return
    head, is_known = _Head(*INDEX_HEADER.unpack(start)), False
    if len(first) == INDEX_ENTRY.size:
        hashed, offset, _, _ = INDEX_ENTRY.unpack(first)
        is_known = offset == head.begin and records.have_key(hashed, offset) is True
    if size < INDEX_ENTRY.size * head.count + (entries_at if is_known else INDEX_HEADER.size):
        yield f"its head states {head.count - 1} entries, and it ends before the last of them: it was cut"


def _miscounted(path: Path, head: _Head, entries_at: int, most: int, records: "_Records") -> Iterator[str]:
    """Yield a line if the head states fewer or more entries than the file has.

    Entries of records that a broker cut off its log stay behind the others.
    """
    with open_regular(path) as file:
        file.seek(entries_at + INDEX_ENTRY.size * max(head.count - 1, 0))
        last, following = file.read(INDEX_ENTRY.size), file.read(INDEX_ENTRY.size)
    if 1 < head.count <= most and not any(last):
        yield f"its head states {head.count - 1} entries, and the last of them is empty"
    if 0 < head.count < most and any(following) and records.have_key(*INDEX_ENTRY.unpack(following)[:2]):
        yield (
            f"its head states {head.count - 1} entries, and more follow: a broker that starts overwrites them, and"
            " queries do not find their keys"
        )


def _misstated(path: Path, head: _Head, entries_at: int, most: int, records: "_Records") -> Iterator[str]:
    """Yield a line if the head states other messages or times than the entries.

    Queries leave out a file whose times are not those asked for. After a broker cut records off its log, the head
    states the new end of the log, and the time of the last message in whole seconds.
    """
    if not 1 < head.count <= most:
        return
    with open_regular(path) as file:
        first, last = (_offset_at(file, entries_at, number) for number in (1, head.count - 1))
    if head.begin != first or head.end < last or records.ends_before(head.end - 1):
        yield f"its head states messages from {head.begin} to {head.end}, and its entries lead from {first} to {last}"
    for stated, at, slack in ((head.begin_time, first, 0), (head.end_time, last, _ROUNDED)):
        stored_at = records.stored_at(at)
        if stored_at is not None and abs(stated - stored_at) > slack:
            yield (
                f"its head has the time {stated} for the message at {at}, which was stored at {stored_at}: queries of"
                " a time leave out the file"
            )


def _offset_at(file: BinaryIO, entries_at: int, number: int) -> int:
    """Return the commit log offset in an entry."""
    file.seek(entries_at + INDEX_ENTRY.size * number)
    offset: int = INDEX_ENTRY.unpack(file.read(INDEX_ENTRY.size))[1]
    return offset


def _used_slots(path: Path, slots: int) -> int:
    """Return how many hash slots of an index file have an entry."""
    with open_regular(path) as file:
        file.seek(INDEX_HEADER.size)
        values = array.array("i", file.read(INDEX_SLOT.size * slots))
    return len(values) - values.count(0)


def _read_head(path: Path) -> _Head:
    with open_regular(path) as file:
        return _Head(*INDEX_HEADER.unpack(file.read(INDEX_HEADER.size)))


class _Records:
    """Reads records of a log.

    Keeps the last file open: entries of an index are in the order of the log.
    """

    def __init__(self, root: Path) -> None:
        self._files = [(int(path.name), path.stat().st_size, path) for path in files_in(log_directory(root))]
        self._path: Path | None = None
        self._file: BinaryIO | None = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def have_key(self, hashed: int, offset: int) -> bool | None:
        """Return whether the record at a commit log offset has a key with this hash.

        None for a record in a file that is expired or missing.
        """
        if (self._files and not offset >= 0) or self.ends_before(offset):
            return False
        for begin, size, path in self._files:
            if begin <= offset < begin + size:
                record = _record(self._opened(path), offset - begin)
                return record is not None and hashed in {key_hash(key) for key in _keys(record)}
        return None

    def ends_before(self, offset: int) -> bool:
        """Return True if the log has files, and an offset is their end or beyond."""
        return bool(self._files) and offset >= self._files[-1][0] + self._files[-1][1]

    def stored_at(self, offset: int) -> int | None:
        """Return the store time of the record at an offset, in ms.

        None without a readable record.
        """
        for begin, size, path in self._files:
            if begin <= offset < begin + size and (record := _record(self._opened(path), offset - begin)):
                return record.store_timestamp if record.physical_offset == offset else None
        return None

    def _opened(self, path: Path) -> BinaryIO:
        if self._file is None or path != self._path:
            self.close()
            self._path, self._file = path, open_regular(path)
        return self._file


def _record(file: BinaryIO, at: int) -> StoredMessage | None:
    file.seek(at)
    size = int.from_bytes(file.read(4), "big")
    file.seek(at)
    data = file.read(size) if FIXED_SIZE <= size <= _LARGEST_RECORD else b""
    with contextlib.suppress(RecordError, struct.error, UnicodeDecodeError):
        return decode_message(memoryview(data), 0)
    return None


def _keys(record: StoredMessage) -> Iterator[bytes]:
    words = [record.properties.get(PROPERTY_UNIQ_KEY, ""), *record.properties.get(PROPERTY_KEYS, "").split(" ")]
    return (f"{record.topic}#{word}".encode() for word in words if word)
