"""One journal file, changed in place: entries with the bytes that they take."""

from collections.abc import Iterable
from pathlib import Path

import attrs
import msgpack

from rmqlab.runtime.journal import JournalEntry, pack_entry


@attrs.frozen
class PlacedEntry:
    """An entry and its bytes in the file."""

    start: int
    end: int
    entry: JournalEntry


def placed_entries(path: Path) -> list[PlacedEntry]:
    """All entries of an intact journal, in the order of the file."""
    unpacker = msgpack.Unpacker(strict_map_key=False)
    unpacker.feed(path.read_bytes())
    found, start = [], 0
    for packed in unpacker:
        entry = JournalEntry(packed["at"], packed["node"], packed["kind"], packed["fields"])
        found.append(PlacedEntry(start, unpacker.tell(), entry))
        start = unpacker.tell()
    return found


def insert(path: Path, at: int, entry: JournalEntry) -> None:
    """Insert an entry at a byte offset between two others."""
    content = path.read_bytes()
    path.write_bytes(content[:at] + pack_entry(entry) + content[at:])


def remove(path: Path, placed: PlacedEntry) -> None:
    """Remove an entry with its bytes."""
    content = path.read_bytes()
    path.write_bytes(content[: placed.start] + content[placed.end :])


def rewrite(path: Path, entries: Iterable[JournalEntry]) -> None:
    """Replace all entries of a file."""
    path.write_bytes(b"".join(map(pack_entry, entries)))
