"""One consume queue file as bytes, for readers of a store that is not open.

Sections 3.1 and 3.2. Written entries are at the start, and their commit log offsets only rise: bisection finds the end
and an offset.
"""

from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path

from rmqlab.runtime.regularfile import open_regular
from rmqlab.store.config import QUEUE_ENTRY_SIZE
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.sparse import first_hole
from rmqlab.store.queue.consumequeue import ENTRY, PRE_BLANK_SIZE


def queue_files(root: Path) -> list[Path]:
    """The files of all consume queues of a store."""
    return sorted(path for path in (root / "consumequeue").glob("*/*/*") if path.name.isdecimal() and path.is_file())


def written_part(path: Path) -> bytes:
    """Return a file's bytes up to its first hole: behind it there are no entries.

    OSError. A mapping would end the process with SIGBUS if the file is truncated meanwhile.
    """
    size = first_hole(path, path.stat().st_size, Disk())
    with open_regular(path) as file:
        return file.read(size)


def written_count(raw: bytes) -> int:
    """Entries that were written: those have a size."""
    return bisect_left(range(len(raw) // QUEUE_ENTRY_SIZE), 1, key=lambda i: _entry(raw, i)[1] <= 0)


def count_until(raw: bytes, is_beyond: Callable[[int, int], bool]) -> int:
    """Entries before the first of which this is true, of offset and size.

    It must stay true from there on.
    """

    def judge(i: int) -> bool:
        offset, size = _entry(raw, i)
        return size != PRE_BLANK_SIZE and is_beyond(offset, size)

    return bisect_left(range(written_count(raw)), 1, key=judge)


def last_end(raw: bytes) -> int:
    """Return the commit log offset of the end of the last entry's record.

    0 without an entry.
    """
    count = written_count(raw)
    offset, size = _entry(raw, count - 1) if count else (0, 0)
    return offset + size if size != PRE_BLANK_SIZE else 0


def _entry(raw: bytes, i: int) -> tuple[int, int]:
    """Commit log offset and size."""
    offset, size, _ = ENTRY.unpack_from(raw, i * QUEUE_ENTRY_SIZE)
    return offset, size
