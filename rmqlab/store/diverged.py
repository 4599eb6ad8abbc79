"""Reads what a slave cut from its log, from files in `store/diverged/`.

`rmqlab.store.truncate.save_from` writes a file for each cut: its name is the commit log offset of its first byte, 20
digits, a point, and the time in ms. Records are as in the log, so a record states its own place.
"""

import contextlib
import mmap
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import attrs

from rmqlab.remoting.message import BLANK_MAGIC, BLANK_SIZE, RecordError, StoredMessage, decode_message
from rmqlab.store.scan import begins_record, next_record

FOLDER = "diverged"
_NAME = re.compile(r"(\d{20})\.(\d{1,19})")
_PREFIX = struct.Struct(">ii")


@attrs.frozen
class CutMessage:
    """A message that is no longer in the log."""

    message: StoredMessage
    file: Path


@attrs.frozen
class CutDamage:
    """Bytes of a saved file that are not a record, or a file that cannot be read."""

    file: Path
    at: int
    """Byte of the file."""
    reason: str


def read_diverged(root: Path) -> Iterator[CutMessage | CutDamage]:
    """Yield messages that were cut from a store's log, by time, and damages.

    `root` is the store's root directory. Nothing without saved files.
    """
    directory = root / FOLDER
    paths = list(directory.iterdir()) if directory.is_dir() else []
    for path in sorted(paths, key=lambda path: (path.suffix.rjust(20), path.name)):
        match = _NAME.fullmatch(path.name)
        if match is None or not path.is_file():
            yield CutDamage(path, 0, "not a file that a slave saved: expected OFFSET.MILLIS as its name")
            continue
        try:
            yield from _read_file(path, int(match[1]))
        except OSError as exc:
            yield CutDamage(path, 0, f"cannot be read: {exc.strerror}")


def _read_file(path: Path, base: int) -> Iterator[CutMessage | CutDamage]:
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        if not path.stat().st_size:
            return
        mapped = stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        view = stack.enter_context(memoryview(mapped))
        at = 0
        while at + BLANK_SIZE <= len(view):
            size, magic = _PREFIX.unpack_from(view, at)
            if magic == BLANK_MAGIC and BLANK_SIZE <= size <= len(view) - at:
                at += size  # the end of a file of the log
                continue
            found = _read_record(view, at, base)
            if isinstance(found, StoredMessage):
                yield CutMessage(found, path)
                at += found.store_size
            else:
                yield CutDamage(path, at, found)
                at = next_record(view, at + 1, base, len(view))


def _read_record(view: memoryview, at: int, base: int) -> StoredMessage | str:
    if not begins_record(view, at, base):
        return "no record begins here"
    try:
        message = decode_message(view, at)
    except (RecordError, struct.error, UnicodeDecodeError) as exc:
        return f"a torn record: {exc}"
    return message if message.is_intact else "a record whose body does not match its checksum"
