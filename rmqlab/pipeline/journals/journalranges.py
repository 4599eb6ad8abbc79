"""Journals of a run on disk, cut into ranges for independent tasks.

No Spark; Arrow only for remote files. A range owns the entries that begin in it, and its reader reads the last of them
to its end (`scan_journal`).
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import attrs

from rmqlab.pipeline.paths.sourcepaths import AnyPath, SourcePath, address_of, range_size, size_of
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalfiles import SUFFIX
from rmqlab.runtime.journals.journalreader import Torn, scan_journal

P = TypeVar("P", bound=SourcePath)
OLD: Final = ".old"
"""Suffix of the journal of an earlier start of the same cluster."""


class NoJournalError(Exception):
    """A path contains no journal. The text says what was expected."""


@attrs.frozen
class JournalRange:
    """A part of one journal file, in bytes."""

    path: str
    start: int
    end: int

    @property
    def process(self) -> str:
        """The process that wrote the file."""
        return Path(self.path).name.removesuffix(OLD).removesuffix(SUFFIX)


def journal_files(path: P, *, with_old: bool = False) -> list[P]:
    """Return the journal files of a run, a cluster, a directory, or the file itself.

    Raises NoJournalError if there is none.
    """
    if path.is_file():
        return [path]
    directory = path / "journal" if (path / "journal").is_dir() else path
    patterns = [f"*{SUFFIX}", *([f"*{SUFFIX}{OLD}"] if with_old else [])]
    files = sorted(found for pattern in patterns for found in directory.glob(pattern) if _can_be_read(found))
    if not files:
        raise NoJournalError(f"{path} holds no journal: expected journal/<node>{SUFFIX} below it")
    return files


def _can_be_read(path: SourcePath) -> bool:
    """False for a pipe, a directory or a device: to open it could wait forever.

    Also for a file without permission.
    """
    return not isinstance(path, Path) or (path.is_file() and os.access(path, os.R_OK))


def journal_ranges(files: Sequence[AnyPath], range_bytes: int) -> list[JournalRange]:
    """Cut files into ranges of about this size."""
    return [
        JournalRange(address_of(path), start, min(start + step, size))
        for path in files
        for size, step in [(size_of(path), range_size(path, range_bytes))]
        for start in range(0, max(size, 1), step)  # an empty file is a range too
    ]


def read_range(part: JournalRange) -> Iterator[tuple[int, JournalEntry] | Torn]:
    """Yield a range's entries with their positions, and the bytes between them (Torn).

    An entry belongs to the range in which it begins.
    """
    with Path(part.path).open("rb") as file:
        yield from scan_journal(file.fileno(), part.start, part.end)
