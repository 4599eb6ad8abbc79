"""Reads messages that a slave truncated from its log and saved in `diverged/`.

`rmqlab.store.truncate.save_from` writes one file for each truncation, named `<offset>.<time>`: the commit log offset of
the first byte in 20 digits, and the time in ms. Records are copied unchanged, with their physical offsets.
"""

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from rmqlab.remoting.message import BLANK_MAGIC, BLANK_SIZE, RecordError, StoredMessage, decode_message
from rmqlab.store.files.fileimage import FileImage
from rmqlab.store.log.loglayout import load_record
from rmqlab.store.offline.scan import begins_record, next_record

FOLDER = "diverged"
MOST_BYTES: Final = 2**28
"""Maximum total size of the saved files of a store; files beyond it are not read."""
MOST_DAMAGES: Final = 100
"""Maximum damages reported for a file; the rest of the file is not read."""
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

    `root` is the store's root directory. Yields nothing if there are no saved files. Yields a damage for each file
    beyond `MOST_BYTES`.
    """
    left = MOST_BYTES
    directory = root / FOLDER
    paths = list(directory.iterdir()) if directory.is_dir() else []
    for path in sorted(paths, key=lambda path: (path.suffix.rjust(20), path.name)):
        match = _NAME.fullmatch(path.name)
        if match is None or not path.is_file():
            yield CutDamage(path, 0, "not a file that a slave saved: expected OFFSET.MILLIS as its name")
            continue
        try:
            left -= path.stat().st_size
            if left >= 0:
                yield from _read_file(path, int(match[1]))
            else:
                yield CutDamage(path, 0, f"not read: with earlier files it exceeds {MOST_BYTES} bytes")
        except OSError as exc:
            yield CutDamage(path, 0, f"cannot be read: {exc.strerror}")


def _read_file(path: Path, base: int) -> Iterator[CutMessage | CutDamage]:
    with FileImage.open(path) as image:
        if not image.size:
            yield CutDamage(path, 0, "an empty file: the slave ended before it had written it")
            return
        at, damages, view = 0, 0, image.view
        while at < image.size:
            load_record(image, at)
            if blank := _blank_size(view, at):
                at += blank
                continue
            found = _read_record(view, at, base)
            if isinstance(found, StoredMessage):
                yield CutMessage(found, path)
                at += found.store_size
                continue
            damages += 1
            if damages > MOST_DAMAGES:
                yield CutDamage(path, at, f"not read from here on: {MOST_DAMAGES} damages before it")
                return
            yield CutDamage(path, at, found)
            at = next_record(image, at + 1, base)


def _blank_size(view: memoryview, at: int) -> int:
    """Return the size of the blank that ends a file of the log; 0 if none is here."""
    if at + BLANK_SIZE > len(view):
        return 0
    size, magic = _PREFIX.unpack_from(view, at)
    return int(size) if magic == BLANK_MAGIC and BLANK_SIZE <= size <= len(view) - at else 0


def _read_record(view: memoryview, at: int, base: int) -> StoredMessage | str:
    if not begins_record(view, at, base):
        return "no record begins here"
    try:
        message = decode_message(view, at)
    except (RecordError, struct.error, UnicodeDecodeError) as exc:
        return f"a torn record: {exc}"
    return message if message.is_intact else "a record whose body does not match its checksum"
