"""One consume queue file as bytes, for readers of a store that is not open.

Sections 3.1 and 3.2. Written entries are at the start, and their commit log offsets only rise: bisection finds the end
and an offset.
"""

import contextlib
import mmap
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path

from rmqlab.runtime.regularfile import open_regular
from rmqlab.store.config import QUEUE_ENTRY_SIZE
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.sparse import first_hole
from rmqlab.store.queue.consumequeue import ENTRY, PRE_BLANK_SIZE


def queue_files(root: Path) -> list[Path]:
    """The files of all consume queues of a store."""
    return sorted(path for path in (root / "consumequeue").glob("*/*/*") if path.name.isdecimal() and path.is_file())


def last_queue_files(root: Path) -> list[Path]:
    """The two last files of each consume queue: the very last may be empty."""
    by_queue: dict[Path, list[Path]] = {}
    for path in queue_files(root):
        by_queue.setdefault(path.parent, []).append(path)
    return [path for paths in by_queue.values() for path in paths[-2:]]


@contextlib.contextmanager
def written_part(path: Path) -> Iterator[memoryview]:
    """A file mapped for reading, up to its first hole: behind it there are no entries."""
    size = first_hole(path, path.stat().st_size, Disk())
    if not size:
        yield memoryview(b"")
        return
    with (
        open_regular(path) as file,
        mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        yield view


def written_count(raw: memoryview) -> int:
    """Entries that were written: those have a size."""
    return bisect_left(range(len(raw) // QUEUE_ENTRY_SIZE), 1, key=lambda i: _entry(raw, i)[1] <= 0)


def count_until(raw: memoryview, is_beyond: Callable[[int, int], bool]) -> int:
    """Entries before the first of which this is true, of offset and size.

    It must stay true from there on.
    """

    def judge(i: int) -> bool:
        offset, size = _entry(raw, i)
        return size != PRE_BLANK_SIZE and is_beyond(offset, size)

    return bisect_left(range(written_count(raw)), 1, key=judge)


def last_end(raw: memoryview) -> int:
    """Return the commit log offset of the end of the last entry's record.

    0 without an entry.
    """
    count = written_count(raw)
    offset, size = _entry(raw, count - 1) if count else (0, 0)
    return offset + size if size != PRE_BLANK_SIZE else 0


def last_end_of(path: Path) -> int:
    """`last_end` of a file."""
    with written_part(path) as raw:
        return last_end(raw)


def _entry(raw: memoryview, i: int) -> tuple[int, int]:
    """Commit log offset and size."""
    offset, size, _ = ENTRY.unpack_from(raw, i * QUEUE_ENTRY_SIZE)
    return offset, size
