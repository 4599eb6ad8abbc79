"""Entries of one consume queue whose file cannot be created or opened now.

They are kept in memory, so that one queue does not stop the dispatch of all others (issue 12.5). If the disk has no
room, entries are not held: all dispatch waits.
"""

import errno
from typing import Final

import attrs

from rmqlab.store.config import QUEUE_ENTRY_SIZE
from rmqlab.store.files.disk import StoreCorrupt
from rmqlab.store.queue.queueend import OFFSET_AND_SIZE

FAILURES: Final = (OSError, StoreCorrupt)
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_MOST: Final = 1_000_000
"""Maximum number of entries held for one queue (20 MB). RocketMQ stops all dispatch after one queue fails for 30 s."""


def concerns_one_queue(problem: Exception) -> bool:
    """True if other queues can continue."""
    return not isinstance(problem, OSError) or problem.errno not in _NO_ROOM


@attrs.define(eq=False)
class HeldEntries:
    """Entries that one queue has to write later, in order.

    They are runs of entries, each with its first queue offset.
    """

    runs: list[tuple[int, bytearray]] = attrs.field(factory=list)
    first_physical: int = -1
    """Commit log offset of the first record that has no entry; -1 without one."""

    @property
    def end(self) -> int:
        """The queue offset after the last entry."""
        first, entries = self.runs[-1]
        return first + len(entries) // QUEUE_ENTRY_SIZE

    @property
    def end_physical(self) -> int:
        """The commit log offset after the record of the last entry."""
        offset, size = OFFSET_AND_SIZE.unpack_from(self.runs[-1][1], len(self.runs[-1][1]) - QUEUE_ENTRY_SIZE)
        return int(offset + size)

    @property
    def is_full(self) -> bool:
        return sum(len(entries) for _, entries in self.runs) >= _MOST * QUEUE_ENTRY_SIZE

    def add(self, queue_offset: int, entries: bytes) -> None:
        """Append entries that follow the held ones."""
        if not self.runs:
            self.first_physical = OFFSET_AND_SIZE.unpack_from(entries)[0]
        if self.runs and self.end == queue_offset:
            self.runs[-1][1].extend(entries)
        else:
            self.runs.append((queue_offset, bytearray(entries)))

    def cut(self, log_end: int) -> bool:
        """Drop the entries of records from `log_end` on. False if no entry is left."""
        for _, entries in self.runs:
            kept = sum(offset < log_end for offset, _ in OFFSET_AND_SIZE.iter_unpack(entries))
            del entries[kept * QUEUE_ENTRY_SIZE :]
        self.runs = [run for run in self.runs if run[1]]
        return bool(self.runs)
