"""What the files of a log state of themselves.

That is where each belongs, and what follows the last record. Nothing but the first record of each file, and the bytes
behind the last one, is read.
"""

import contextlib
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from rmqlab.remoting.message import BLANK_SIZE, FIXED_SIZE, MESSAGE_MAGIC, RecordError, StoredMessage, decode_message
from rmqlab.runtime.regularfile import open_regular
from rmqlab.store.logplaces import files_in, is_unused, lead_at, log_directory

_PREFIX: Final = struct.Struct(">ii")


@attrs.frozen
class LogHead:
    """The first record of a log file."""

    file: str
    """The file's path in its store."""
    begin: int
    """Commit log offset of the file's first byte, by its name."""
    stated: int
    """Commit log offset that the record states."""
    host: str
    """`ip:port` of the broker that stored it."""
    stored_at: int
    """Milliseconds of that broker's clock."""


def read_heads(root: Path) -> Iterator[LogHead]:
    """Yield the first record of each log file of a store, oldest first.

    Files that begin with no record are left out. Raises OSError.
    """
    for path in files_in(log_directory(root)):
        with _mapped(path) as view:
            first = _first_record(view, int(path.name))
            if first is not None:
                ip, port = first.store_host
                file = f"{root.name}/{path.relative_to(root)}"
                yield LogHead(file, int(path.name), first.physical_offset, f"{ip}:{port}", first.store_timestamp)


def lost_tail(root: Path, end: int, recorded: int) -> tuple[int, int] | None:
    """Return which bytes of a log are no record although its broker wrote them.

    None if that is not certain. `end` is where the last record ends, and `recorded` the end of the log that the broker
    recorded. A slave receives the log in pieces, so it may end within a record; the rest of a file may be declared empty.
    """
    for path in files_in(log_directory(root)):
        begin = int(path.name)
        with _mapped(path) as view:
            if not begin <= end < begin + len(view) or recorded - end <= BLANK_SIZE:
                continue
            if is_unused(view, end - begin):
                end = begin + len(view)
            elif _may_be_unfinished(view, begin, end - begin, recorded - begin):
                return None
    return (end, recorded) if recorded - end > BLANK_SIZE else None


def _may_be_unfinished(view: memoryview, begin: int, at: int, end: int) -> bool:
    """True if the bytes at `at` begin a record that is longer than what was received."""
    at += lead_at(view, at, begin)
    if at + _PREFIX.size > len(view):
        return True
    size, magic = _PREFIX.unpack_from(view, at)
    return bool(magic == MESSAGE_MAGIC and size >= FIXED_SIZE and at + size > end)


def _first_record(view: memoryview, begin: int) -> StoredMessage | None:
    at = lead_at(view, 0, begin)
    with contextlib.suppress(RecordError):
        return decode_message(view, at)
    return None


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    if not path.stat().st_size:  # also a pipe or a device
        yield memoryview(b"")
        return
    with (
        open_regular(path) as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        yield view
