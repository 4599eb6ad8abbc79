"""Where a broker's log is, and where records are in its files, in both forms.

A plain broker keeps records one after the other in `commitlog/`. A member of a DLedger group keeps them in
`dledger-<selfId>/data/`, each behind the 48 bytes of its entry's header (docs/protocol/dledger.md, sections 1.1 to
1.3). Readers of files recognize a header by itself, so they need no settings. A member that was a plain broker before
has both: its offsets continue those of the files in `commitlog/` (section 8.5).
"""

import struct
from pathlib import Path
from typing import Final

from rmqlab.remoting.message import BLANK_MAGIC, BLANK_SIZE

ENTRY_HEADER: Final = struct.Struct(">iiqqqiiii")
"""Magic, size, index, term, position, channel, two CRCs, size of the body."""
ENTRY_MAGIC: Final = 1
ENTRY_BLANK_MAGIC: Final = -1
_BLANK: Final = struct.Struct(">ii")


def log_directory(root: Path) -> Path:
    """Return the directory of a store's log files, whether it exists or not.

    For a mixed log, this is the directory of its entries; see `files_in`.
    """
    members = [path for path in sorted(root.glob("dledger-*/data")) if path.is_dir()]
    return members[0] if members else root / "commitlog"


def files_in(directory: Path) -> list[Path]:
    """Return the files of the log in a directory, oldest first.

    Before those with a member's entries are the files of a plain log that they continue.
    """
    is_members = directory.name == "data" and directory.parent.name.startswith("dledger-")
    places = [directory.parent.parent / "commitlog", directory] if is_members else [directory]
    found = (path for place in places if place.is_dir() for path in place.iterdir() if path.name.isdigit())
    return sorted(found, key=lambda path: path.name)


def log_extents(root: Path) -> list[tuple[int, int]]:
    """Return at which commit log offsets each file of a store begins and ends.

    The end is that of the file on disk; empty files are left out.
    """
    sizes = ((int(path.name), path.stat().st_size) for path in files_in(log_directory(root)))
    return [(first, first + size) for first, size in sizes if size]


def log_begin(root: Path) -> int:
    """Return the commit log offset at which a store's first log file begins.

    0 without one. Below it messages are expired.
    """
    files = files_in(log_directory(root))
    return int(files[0].name) if files else 0


def lead_at(view: memoryview, at: int, base: int) -> int:
    """Return the size of the entry's header at a position; 0 without one.

    A header contains its own position, `base + at`, where `base` is the log offset of the first byte.
    """
    if at + ENTRY_HEADER.size > len(view):
        return 0
    magic, size, _, _, place, _, _, _, body_size = ENTRY_HEADER.unpack_from(view, at)
    is_header = magic == ENTRY_MAGIC and place == base + at and size == body_size + ENTRY_HEADER.size
    return ENTRY_HEADER.size if is_header else 0


def is_unused(view: memoryview, at: int) -> bool:
    """True if the rest of a file is declared empty, in either form."""
    if at + BLANK_SIZE > len(view):
        return False
    first, second = _BLANK.unpack_from(view, at)
    left = len(view) - at
    return (first, second) in ((left, BLANK_MAGIC), (ENTRY_BLANK_MAGIC, left))
