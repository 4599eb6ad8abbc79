"""Reads the first record of each log file, and the bytes after the last record.

The first record shows which broker and offset a file belongs to. No other bytes of the files are read.
"""

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from rmqlab.remoting.message import BLANK_SIZE, FIXED_SIZE, MESSAGE_MAGIC, RecordError, StoredMessage, decode_message
from rmqlab.runtime.regularfile import open_regular
from rmqlab.store.files.fileimage import FileImage
from rmqlab.store.files.sparse import data_ranges
from rmqlab.store.log.loglayout import (
    ENTRY_HEADER,
    ENTRY_MAGIC,
    entry_header_at,
    files_in,
    is_unused,
    load_record,
    log_directory,
)

_PREFIX: Final = struct.Struct(">ii")
_BLOCK: Final = 1 << 20


@attrs.frozen
class LogHead:
    """The first record of a log file."""

    file: str
    """The file's path in its store."""
    begin: int
    """Commit log offset of the file's first byte, from its name."""
    stated: int
    """Commit log offset of the file's first byte, from the record's physical offset field."""
    host: str
    """`ip:port` of the broker that stored it."""
    stored_at: int
    """Store time in ms, of that broker's clock."""


def read_heads(root: Path) -> Iterator[LogHead]:
    """Yield the first record of each log file of a store, oldest first.

    Files that begin with no record are left out. Raises OSError.
    """
    for path in _files_of(root):
        with FileImage.open(path) as image:
            load_record(image, 0)
            first, lead = _first_record(image.view, int(path.name)), entry_header_at(image.view, 0, int(path.name))
            if first is not None:
                ip, port = first.store_host
                file = f"{root.name}/{path.relative_to(root)}"
                stated = first.physical_offset - lead  # behind the header of a DLedger entry
                yield LogHead(file, int(path.name), stated, f"{ip}:{port}", first.store_timestamp)


def lost_tail(root: Path, end: int, recorded: int) -> tuple[int, int] | None:
    """Return the range of bytes after the last record that the broker had written.

    None if that is not certain. `end` is the end of the last record, `recorded` the end of the log that the broker
    recorded. An incomplete record at the end of a slave's log is normal, because it receives the log in pieces. So is
    the blank at the end of a file.
    """
    for path in _files_of(root):
        begin = int(path.name)
        with FileImage.open(path) as image:
            if not begin <= end < begin + image.size or recorded - end <= BLANK_SIZE:
                continue
            load_record(image, end - begin)
            if is_unused(image.view, end - begin):
                end = begin + image.size
            elif _may_be_unfinished(image.view, begin, end - begin, recorded - begin):
                return None
    return (end, recorded) if recorded - end > BLANK_SIZE else None


@attrs.frozen
class StrayBytes:
    """Bytes of one log file after the log's end that are not zero."""

    file: str
    """The file's path in its store."""
    at: int
    """Position of the first byte in the file."""
    begin: int
    """Commit log offset of the first byte."""
    end: int
    """Commit log offset after the last byte that is not zero."""


def stray_tail(root: Path, end: int) -> StrayBytes | None:
    """Return bytes after the end of a log that no broker can have written.

    None if there are none. `end` is the end of the last record. Brokers fill new files with zeros, and zero the bytes
    that they truncate. Three things may legally follow the last record: an incomplete record (partly received by a
    slave, or cut by a kill), the blank at the end of a file, and new records of a running broker. Returns only the
    first file with other bytes. Raises OSError.
    """
    for path in _files_of(root):
        begin = int(path.name)
        with FileImage.open(path) as image:
            if begin + image.size <= end:
                continue
            start = max(end - begin, 0)
            at = _reach(image, begin, start)
            found = _written(path, image, at)
            image.forget()
            if found is not None and _reach(image, begin, start) == at:
                first, last = found
                return StrayBytes(f"{root.name}/{path.relative_to(root)}", first, begin + first, begin + last)
    return None


def _reach(image: FileImage, begin: int, at: int) -> int:
    """Return the end of the records that follow one another from `at` on.

    The last one may be unfinished.
    """
    view = image.view
    while at < len(view):
        load_record(image, at)
        if is_unused(view, at):
            break
        lead = entry_header_at(view, at, begin)
        if at + lead + _PREFIX.size > len(view):
            break
        size, magic = _PREFIX.unpack_from(view, at + lead)
        if magic != MESSAGE_MAGIC or size < FIXED_SIZE:
            return at + _begun_size(view, at, lead)
        at += lead + size
    return len(view)


def _begun_size(view: memoryview, at: int, lead: int) -> int:
    """Return the size of an incomplete record that has no valid prefix yet.

    0 if the bytes are not the start of a record.
    """
    if lead or _PREFIX.unpack_from(view, at)[0] == ENTRY_MAGIC:
        return ENTRY_HEADER.size + _PREFIX.size
    return 0 if any(view[at + _PREFIX.size : at + FIXED_SIZE]) else _PREFIX.size


def _written(path: Path, image: FileImage, at: int) -> tuple[int, int] | None:
    """Return the range of bytes from `at` on that are not zero; None without any."""
    first, last = None, 0
    with open_regular(path) as file:
        for low, high in data_ranges(file.fileno(), at, image.size):
            for start in range(low, high, _BLOCK):
                image.load(start, min(start + _BLOCK, high))
                block = bytes(image.view[start : min(start + _BLOCK, high)])
                kept = len(block.rstrip(b"\0"))
                if kept and first is None:
                    first = start + len(block) - len(block.lstrip(b"\0"))
                last = start + kept if kept else last
    return None if first is None else (first, last)


def _may_be_unfinished(view: memoryview, begin: int, at: int, end: int) -> bool:
    """True if the bytes at `at` begin a record that is longer than what was received."""
    at += entry_header_at(view, at, begin)
    if at + _PREFIX.size > len(view):
        return True
    size, magic = _PREFIX.unpack_from(view, at)
    return bool(magic == MESSAGE_MAGIC and size >= FIXED_SIZE and at + size > end)


def _first_record(view: memoryview, begin: int) -> StoredMessage | None:
    at = entry_header_at(view, 0, begin)
    with contextlib.suppress(RecordError):
        return decode_message(view, at)
    return None


def _files_of(root: Path) -> list[Path]:
    """Return the files of a log that are not empty. A pipe or a device has no size."""
    return [path for path in files_in(log_directory(root)) if path.stat().st_size]
