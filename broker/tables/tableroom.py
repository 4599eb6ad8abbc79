"""Limits of a table that must fit into one frame.

A broker registers all its topics in one request, and a slave copies topics and groups with one request each. If a table
exceeds a frame (16 MiB), both fail, and the nameservers drop the broker after 120 s. Clients create topics and groups,
so both the entries and their bytes are limited.
"""

from collections.abc import Iterable

import attrs
import msgspec


@attrs.define(eq=False)
class TableRoom:
    """Counts the entries of a table, and the bytes of their JSON."""

    max_entries: int
    max_bytes: int
    entry_bytes: int
    """Maximum bytes of an entry without its name, which occurs in it twice."""
    entries: int = attrs.field(default=0, init=False)
    bytes: int = attrs.field(default=0, init=False)

    def add(self, name: str) -> None:
        """Count a new entry."""
        self.entries += 1
        self.bytes += self._cost(name)

    def remove(self, name: str) -> None:
        """Subtract a deleted entry."""
        self.entries -= 1
        self.bytes -= self._cost(name)

    def count(self, names: Iterable[str]) -> None:
        """Reset the counts to those of these entries."""
        self.entries = self.bytes = 0
        for name in names:
            self.add(name)

    def has_room(self, name: str) -> bool:
        """True if an entry of this name may be created."""
        return self.entries < self.max_entries and self.bytes + self._cost(name) <= self.max_bytes

    def _cost(self, name: str) -> int:
        return self.entry_bytes + 2 * len(msgspec.json.encode(name))
