"""Directories and record layout of a broker's log: plain, DLedger, or mixed.

A plain broker writes consecutive records to `commitlog/`. A member of a DLedger group writes them to
`dledger-<selfId>/data/`, each after an entry header of 48 bytes (docs/protocol/dledger.md, sections 1.1 to 1.3).
Readers detect entry headers, so they need no settings. A member that was a plain broker before has both directories:
its offsets continue those of the files in `commitlog/` (section 8.5).
"""

import struct
from pathlib import Path
from typing import Final

from rmqlab.remoting.message import BLANK_MAGIC, BLANK_SIZE, FIXED_SIZE, MESSAGE_MAGIC
from rmqlab.store.files.fileimage import FileImage

ENTRY_HEADER: Final = struct.Struct(">iiqqqiiii")
"""Magic, size, index, term, position, channel, two CRCs, size of the body."""
ENTRY_MAGIC: Final = 1
ENTRY_BLANK_MAGIC: Final = -1
_BLANK: Final = struct.Struct(">ii")
_HEADS_SIZE: Final = ENTRY_HEADER.size + FIXED_SIZE


def log_directory(root: Path) -> Path:
    """Return the directory of a store's log files, whether it exists or not.

    For a mixed log, this is the directory of its entries; see `files_in`.
    """
    members = [path for path in sorted(root.glob("dledger-*/data")) if path.is_dir()]
    return members[0] if members else root / "commitlog"


def files_in(directory: Path) -> list[Path]:
    """Return the files of the log in a directory, oldest first.

    For a mixed log, the files of the plain log come first.
    """
    is_members = directory.name == "data" and directory.parent.name.startswith("dledger-")
    places = [directory.parent.parent / "commitlog", directory] if is_members else [directory]
    found = (path for place in places if place.is_dir() for path in place.iterdir() if path.name.isdecimal())
    return sorted(found, key=lambda path: path.name)


def log_extents(root: Path) -> list[tuple[int, int]]:
    """Return the first and end commit log offsets of each file of a store.

    The end is computed from the file's size on disk. Empty files are left out.
    """
    sizes = ((int(path.name), path.stat().st_size) for path in files_in(log_directory(root)))
    return [(first, first + size) for first, size in sizes if size]


def log_begin(root: Path) -> int:
    """Return the minimum commit log offset of a store; 0 without files.

    Messages below it have expired.
    """
    files = files_in(log_directory(root))
    return int(files[0].name) if files else 0


def entry_header_at(view: memoryview, at: int, base: int) -> int:
    """Return the size of the DLedger entry header at a position; 0 without a header.

    A header is detected by its position field, `base + at`, where `base` is the log offset of the first byte.
    """
    if at + ENTRY_HEADER.size > len(view):
        return 0
    magic, size, _, _, place, _, _, _, body_size = ENTRY_HEADER.unpack_from(view, at)
    is_header = magic == ENTRY_MAGIC and place == base + at and size == body_size + ENTRY_HEADER.size
    return ENTRY_HEADER.size if is_header else 0


def is_unused(view: memoryview, at: int) -> bool:
    """True if a blank at this position marks the rest of the file as unused."""
    if at + BLANK_SIZE > len(view):
        return False
    first, second = _BLANK.unpack_from(view, at)
    left = len(view) - at
    return (first, second) in ((left, BLANK_MAGIC), (ENTRY_BLANK_MAGIC, left))


def load_record(image: FileImage, at: int) -> None:
    """Read the record or DLedger entry that may begin at a position.

    Also the head of its successor. OSError.
    """
    end = at + _HEADS_SIZE
    if at < image.low or end > image.high:
        image.load(at, end)
    if at + BLANK_SIZE > image.size:
        return
    first, second = _BLANK.unpack_from(image.view, at)
    size = first if second == MESSAGE_MAGIC else second if first == ENTRY_MAGIC else 0
    if end + size > image.high and 0 < size <= image.size - at:
        image.load(at, end + size)
