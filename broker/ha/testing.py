"""Test doubles of the HA stream: a commit log in memory, an event recorder."""

from collections.abc import Callable
from typing import Any

import attrs
import trio

from rmqlab.broker.ha.master import HaMaster


@attrs.frozen
class FileSize:
    """The settings of the store that replication reads."""

    mapped_file_size_commit_log: int = 65_536


@attrs.define(eq=False)
class MemoryLog:
    """In-memory log with the store's interface for replication (section 4.5).

    `first` is the start of its first file.
    """

    config: FileSize = FileSize()
    first: int | None = None
    data: bytearray = attrs.field(factory=bytearray)
    fails_with: OSError | None = None

    @property
    def min_commit_log_offset(self) -> int:
        return self.first or 0

    @property
    def max_commit_log_offset(self) -> int:
        return self.min_commit_log_offset + len(self.data)

    def append(self, data: bytes | bytearray) -> None:
        """Let the master's log grow."""
        self.data = self.data + data  # a new object: views of the old one may be alive

    def drop_before(self, offset: int) -> None:
        """Let files expire."""
        self.data = self.data[offset - self.min_commit_log_offset :]
        self.first = offset

    def read_log(self, offset: int, limit: int) -> memoryview:
        at = offset - self.min_commit_log_offset
        if not 0 <= at < len(self.data):
            return memoryview(b"")
        limit = min(limit, self.config.mapped_file_size_commit_log - offset % self.config.mapped_file_size_commit_log)
        return memoryview(self.data)[at : at + limit]

    def read_whole(self, first: int, end: int) -> bytes:
        """All bytes from `first` to `end`, across files."""
        return bytes(self.data[first - self.min_commit_log_offset : end - self.min_commit_log_offset])

    def append_raw(self, offset: int, data: bytes | memoryview) -> bool:
        if self.fails_with is not None:
            raise self.fails_with
        file_size = self.config.mapped_file_size_commit_log
        if self.first is None:
            self.first = offset - offset % file_size
        if file_size - self.max_commit_log_offset % file_size < len(data):
            return False
        self.append(bytes(data))
        return True


@attrs.define(eq=False)
class Recorder:
    """Records the events of both sides, and lets a test wait for a condition."""

    events: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)
    acks: list[int] = attrs.field(factory=list)
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def kinds(self) -> list[str]:
        """The kinds of the events so far."""
        return [kind for kind, _ in self.events]

    def reasons(self, kind: str) -> list[str]:
        """Return the reasons of closed connections."""
        return [fields["reason"] for known, fields in self.events if known == kind]

    def emit(self, kind: str, **fields: Any) -> None:
        """Record an event; pass this method as `emit`."""
        self.events.append((kind, fields))
        self.changed()

    def acked(self, master: HaMaster) -> None:
        """Record each rise of the highest acknowledged offset; pass this as `on_ack`."""
        if master.push_to_slave_max_offset > max(self.acks, default=0):
            self.acks.append(master.push_to_slave_max_offset)
        self.changed()

    def changed(self) -> None:
        """Pass this method as `on_received`."""
        self._changed.set()
        self._changed = trio.Event()

    async def wait_until(self, is_true: Callable[[], bool]) -> None:
        """Check the condition after each event."""
        await trio.lowlevel.checkpoint()
        while not is_true():
            await self._changed.wait()
