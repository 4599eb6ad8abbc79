"""One journal file, changed in place: entries with the bytes that they take.

Entries are handled as the maps that the file holds, so that all members stay as they were written.
"""

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import msgpack

from rmqlab.runtime.journals.journalentry import OPENED, SEALS
from rmqlab.runtime.regularfile import read_regular

_MOST_BYTES: Final = 2**34
"""Bytes of a journal."""


@attrs.frozen
class PlacedEntry:
    """An entry and its bytes in the file."""

    start: int
    end: int
    members: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.members["kind"])

    @property
    def at_millis(self) -> int:
        return int(self.members["at"])

    @property
    def fields(self) -> Mapping[str, Any]:
        fields: Mapping[str, Any] = self.members["fields"]
        return fields

    def changed(self, fields: Mapping[str, Any], *, later_by: int = 0) -> dict[str, Any]:
        """Return the entry with some fields changed, and at another time, in ms."""
        return {**self.members, "at": self.at_millis + later_by, "fields": {**self.fields, **fields}}


def placed_entries(path: Path) -> list[PlacedEntry]:
    """All entries of an intact journal, in the order of the file."""
    unpacker = msgpack.Unpacker(strict_map_key=False)
    unpacker.feed(read_regular(path, _MOST_BYTES))
    found, start = [], 0
    for members in unpacker:
        found.append(PlacedEntry(start, unpacker.tell(), members))
        start = unpacker.tell()
    return found


def insert(path: Path, after: PlacedEntry, members: Mapping[str, Any]) -> None:
    """Insert an entry after another.

    The entries behind it are numbered anew, where entries have numbers.
    """
    entries = placed_entries(path)
    index = entries.index(after) + 1
    kept = [placed.members for placed in entries]
    rewrite(path, [*kept[:index], *_renumbered([members, *kept[index:]], +1)])


def remove(path: Path, placed: PlacedEntry) -> None:
    """Remove an entry.

    The entries behind it are numbered anew, where entries have numbers.
    """
    entries = placed_entries(path)
    index = entries.index(placed)
    kept = [one.members for one in entries]
    rewrite(path, [*kept[:index], *_renumbered(kept[index + 1 :], -1)])


def remove_kind(path: Path, kind: str) -> int:
    """Remove all entries of a kind, and return their number.

    The entries behind them are numbered anew, where entries have numbers.
    """
    kept: list[Mapping[str, Any]] = []
    removed = 0
    for placed in placed_entries(path):
        if placed.kind == kind:
            removed += 1
        else:
            kept += _renumbered([placed.members], -removed)
    rewrite(path, kept)
    return removed


def rewrite(path: Path, entries: Iterable[Mapping[str, Any]]) -> None:
    """Replace all entries of a file.

    Last entries get the checksum that their process would have written.
    """
    content, crc = bytearray(), 0
    for one in entries:
        crc = 0 if one["kind"] == OPENED else crc
        sealed = one["kind"] in SEALS and "crc" in one["fields"]
        packed = msgpack.packb({**one, "fields": {**one["fields"], "crc": crc}} if sealed else one)
        crc = zlib.crc32(packed, crc)
        content += packed
    path.write_bytes(content)


def overwrite_entry(path: Path, placed: PlacedEntry, members: Mapping[str, Any]) -> None:
    """Replace the bytes of an entry.

    The rest of the file, with its checksum, stays as it is.
    """
    content = path.read_bytes()
    path.write_bytes(content[: placed.start] + msgpack.packb(members) + content[placed.end :])


def repeat(path: Path, placed: PlacedEntry) -> None:
    """Write the bytes of an entry a second time, behind it."""
    content = path.read_bytes()
    path.write_bytes(content[: placed.end] + content[placed.start :])


def _renumbered(entries: Iterable[Mapping[str, Any]], step: int) -> list[Mapping[str, Any]]:
    return [{**one, "seq": one["seq"] + step} if "seq" in one else one for one in entries]
