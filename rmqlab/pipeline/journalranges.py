"""Journals of a run on disk, cut into ranges that tasks read apart from each other. No Spark, no Arrow.

A journal is a row of msgpack maps (rmqlab/runtime/journal.py). Each begins with the same seven bytes, so that a reader who
begins anywhere finds the next one. A range owns the maps that begin in it; it reads the last of them to its end.
"""

import mmap
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import msgpack

_HEAD: Final = b"\x85\xa1v\x01\xa2at"
"""A map of five, of version 1, whose second key is `at`."""
_KEYS: Final = {"v", "at", "node", "kind", "fields"}
SUFFIX: Final = ".msgpack"
OLD: Final = ".old"
"""What an earlier start of the same cluster wrote, kept beside."""


class NoJournalError(Exception):
    """A path holds no journal. The text says what was looked for."""


@attrs.frozen
class JournalRange:
    """A part of one journal file, in bytes."""

    path: str
    start: int
    end: int

    @property
    def process(self) -> str:
        """Who wrote it."""
        return Path(self.path).name.removesuffix(OLD).removesuffix(SUFFIX)


@attrs.frozen
class Torn:
    """Bytes of a journal that are no entry: its end, where a writer was killed, or damage."""

    at: int
    size: int


def journal_files(path: Path, *, with_old: bool = False) -> list[Path]:
    """The journal files of a run or a cluster, of a journal directory, or the one file. NoJournalError if none."""
    if path.is_file():
        return [path]
    directory = path / "journal" if (path / "journal").is_dir() else path
    patterns = [f"*{SUFFIX}", *([f"*{SUFFIX}{OLD}"] if with_old else [])]
    files = sorted(found for pattern in patterns for found in directory.glob(pattern))
    if not files:
        raise NoJournalError(f"{path} holds no journal: expected journal/<node>{SUFFIX} below it")
    return files


def journal_ranges(files: list[Path], range_bytes: int) -> list[JournalRange]:
    """Cut files into ranges of about this size."""
    return [
        JournalRange(str(path), start, min(start + range_bytes, size))
        for path in files
        for size in [path.stat().st_size]
        for start in range(0, size, range_bytes)
    ]


def read_range(part: JournalRange) -> Iterator[tuple[int, dict[str, Any]] | Torn]:
    """The entries that begin in a range, each with its place; and what lies between them and is none."""
    with Path(part.path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        at = 0 if part.start == 0 else _next_entry(mapped, part.start)
        while at < part.end:
            at = yield from _entries(mapped, at, part.end)
            if at < part.end:
                following = _next_entry(mapped, at + 1)
                yield Torn(at, following - at)
                at = following


def _entries(mapped: mmap.mmap, begin: int, end: int) -> Generator[tuple[int, dict[str, Any]], None, int]:
    """Entries from a place on; answers where the first one begins that is not given."""
    unpacker = msgpack.Unpacker(strict_map_key=False, max_buffer_size=0)
    fed = at = begin
    while at < end:
        try:
            entry = unpacker.unpack()
        except msgpack.OutOfData:
            if not (more := mapped[fed : fed + 2**20]):
                return at
            unpacker.feed(more)
            fed += len(more)
            continue
        except (ValueError, TypeError, msgpack.UnpackException):
            return at
        if not isinstance(entry, dict) or entry.keys() < _KEYS:
            return at
        yield at, entry
        at = begin + unpacker.tell()
    return at


def _next_entry(mapped: mmap.mmap, at: int) -> int:
    """The first place from `at` on where an entry begins whole; the file's length where none does."""
    found = mapped.find(_HEAD, at)
    while found >= 0:
        if next(_entries(mapped, found, found + 1), None) is not None:
            return found
        found = mapped.find(_HEAD, found + 1)
    return len(mapped)
