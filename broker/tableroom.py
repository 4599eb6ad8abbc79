"""Room in a table that travels in one frame.

A broker registers all its topics in one request, and a slave copies topics and groups by one request each. A table that
does not fit into a frame (16 MiB) ends both: the nameservers drop the broker after 120 s. Clients make topics and
groups, so the bytes are limited, as well as the entries.
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
    """Bytes of an entry without its name, which is in it twice: the longest numbers included."""
    entries: int = attrs.field(default=0, init=False)
    bytes: int = attrs.field(default=0, init=False)

    def add(self, name: str) -> None:
        """Count a new entry."""
        self.entries += 1
        self.bytes += self._cost(name)

    def remove(self, name: str) -> None:
        """Count an entry no longer."""
        self.entries -= 1
        self.bytes -= self._cost(name)

    def count(self, names: Iterable[str]) -> None:
        """Count these entries instead of those before."""
        self.entries = self.bytes = 0
        for name in names:
            self.add(name)

    def has_room(self, name: str) -> bool:
        """True if an entry of this name may be created."""
        return self.entries < self.max_entries and self.bytes + self._cost(name) <= self.max_bytes

    def _cost(self, name: str) -> int:
        return self.entry_bytes + 2 * len(msgspec.json.encode(name))
