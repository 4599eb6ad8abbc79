"""End of the readable log: entries without a quorum are in no queue.

Read from the files alone (docs/protocol/dledger.md, sections 1.4, 1.5 and 8.4).
"""

import struct
from pathlib import Path
from typing import Final

from rmqlab.runtime.regularfile import open_regular, read_regular
from rmqlab.store.log.loglayout import log_directory

EVERYTHING: Final = 2**63 - 1
_UNIT: Final = struct.Struct(">4xqi16x")
"""Position and size of an entry, in its unit of the index."""


def readable_end(root: Path) -> int:
    """Return the log offset behind the last entry that a member knows to be committed.

    Its checkpoint has it, as of its stop or up to 3 s before its death. EVERYTHING for a plain log, and without a
    readable checkpoint.
    """
    data = log_directory(root)
    if data.name != "data":
        return EVERYTHING
    try:
        lines = read_regular(data.parent / "checkpoint").decode("latin-1").splitlines()
        number = int(next(line for line in lines if line.startswith("committedIndex=")).partition("=")[2])
        return _end_of(data.parent / "index", number) if number >= 0 else _divide(data)
    except (OSError, ValueError, StopIteration, struct.error):
        return EVERYTHING


def _end_of(index: Path, number: int) -> int:
    offset = number * _UNIT.size
    first = max(at for path in index.iterdir() if path.name.isdecimal() and (at := int(path.name)) <= offset)
    with open_regular(index / f"{first:020d}") as file:
        file.seek(offset - first)
        position, size = _UNIT.unpack(file.read(_UNIT.size))
    return int(position + size)


def _divide(data: Path) -> int:
    """Return where the entries begin: all before is a plain log."""
    return min(int(path.name) for path in data.iterdir() if path.name.isdecimal())
