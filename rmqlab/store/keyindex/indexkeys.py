"""Keys to be entered in the index, as columns."""

import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Final, Self, overload

import attrs

from rmqlab.store.columns import from_little_endian

IndexEntry = tuple[int, int, int]  # key hash, commit log offset, store time

_ENTRY: Final = struct.Struct(">iqii")  # key hash, commit log offset, seconds since the file's begin, previous
_WORDS: Final = 5  # of 32 bits in an entry of an index file: hash, offset (2), seconds, previous


@attrs.define
class IndexKeys(Sequence[IndexEntry]):
    """Index entries of many records, in the order of the log."""

    hashes: "array[int]" = attrs.field(factory=lambda: array("I"))
    physicals: "array[int]" = attrs.field(factory=lambda: array("q"))
    times: "array[int]" = attrs.field(factory=lambda: array("q"))

    @classmethod
    def of(cls, entries: Sequence[IndexEntry]) -> Self:
        """Return these entries as columns."""
        if isinstance(entries, cls):
            return entries
        hashes, physicals, times = zip(*entries, strict=True) if entries else ((), (), ())
        return cls(array("I", hashes), array("q", physicals), array("q", times))

    @classmethod
    def of_one_time(cls, hashes: "array[int]", physicals: bytes, stored_at: int) -> Self:
        """Return the entries of records of one store time.

        `physicals` are little-endian, in 8 bytes each.
        """
        return cls(hashes, from_little_endian("q", physicals), array("q", [stored_at]) * len(hashes))

    def __len__(self) -> int:
        return len(self.hashes)

    def __iter__(self) -> Iterator[IndexEntry]:
        return zip(self.hashes, self.physicals, self.times, strict=True)

    @overload
    def __getitem__(self, place: int) -> IndexEntry: ...
    @overload
    def __getitem__(self, place: slice) -> Self: ...
    def __getitem__(self, place: int | slice) -> IndexEntry | Self:
        if isinstance(place, slice):
            return type(self)(self.hashes[place], self.physicals[place], self.times[place])
        return self.hashes[place], self.physicals[place], self.times[place]

    def add(self, keys: "IndexKeys") -> None:
        """Append these entries."""
        self.hashes += keys.hashes
        self.physicals += keys.physicals
        self.times += keys.times

    def seconds_since(self, begin: int) -> "array[int]":
        """Return the store times as seconds after this time, as an index file has them."""
        if self.times.tobytes() == self.times[:1].tobytes() * len(self):
            return array("I", [_seconds(self.times[0], begin)]) * len(self)
        known = {stored_at: _seconds(stored_at, begin) for stored_at in set(self.times)}
        return array("I", map(known.__getitem__, self.times))

    def packed(self, begin: int, previous: "array[int]") -> bytes:
        """Return the bytes of the entries in an index file that begins at this time."""
        words, halves = array("I", bytes(4 * _WORDS * len(self))), array("I", self.physicals.tobytes())
        low = 0 if sys.byteorder == "little" else 1
        words[0::_WORDS] = self.hashes
        words[1::_WORDS] = halves[1 - low :: 2]
        words[2::_WORDS] = halves[low::2]
        words[3::_WORDS] = self.seconds_since(begin)
        words[4::_WORDS] = previous
        if sys.byteorder == "little":
            words.byteswap()
        return words.tobytes()


@attrs.define(eq=False)
class KeyCollector:
    """Collects index entries of single records and of runs, in the order of the log."""

    singles: list[IndexEntry] = attrs.field(factory=list)
    """Entries after the last run; callers append to this list."""
    _runs: IndexKeys | None = attrs.field(default=None, init=False)

    def add_run(self, keys: IndexKeys) -> None:
        """Append the entries of a run."""
        if self.singles:
            before, self.singles = IndexKeys.of(self.singles), []
            if self._runs is None:
                self._runs = before
            else:
                self._runs.add(before)
        if self._runs is None:
            self._runs = keys
        else:
            self._runs.add(keys)

    def entries(self) -> Sequence[IndexEntry]:
        """Return all entries."""
        if self._runs is None:
            return self.singles
        if self.singles:
            self.add_run(IndexKeys())
        return self._runs


def packed(entries: Sequence[IndexEntry], begin: int, previous: "array[int]") -> bytes:
    """Return the bytes of entries in an index file that begins at this time."""
    if type(entries) is IndexKeys:  # quicker than isinstance, for an abstract base class
        return entries.packed(begin, previous)
    hashes, physicals, times = zip(*entries, strict=True)
    seconds = {stored_at: _seconds(stored_at, begin) for stored_at in set(times)}
    return b"".join(map(_ENTRY.pack, hashes, physicals, map(seconds.__getitem__, times), previous))


def _seconds(stored_at: int, begin: int) -> int:
    seconds = (stored_at - begin) // 1000 if begin > 0 else 0
    return min(max(seconds, 0), 0x7FFFFFFF)
