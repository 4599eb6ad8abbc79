"""Reads every entry of a store's consume queues from their files.

Sections 3.1 and 3.2.
"""

from collections.abc import Iterator
from pathlib import Path

import attrs

from rmqlab.store.config import QUEUE_ENTRY_SIZE
from rmqlab.store.offline.queuefile import queue_files, written_part
from rmqlab.store.queue.consumequeue import ENTRY, PRE_BLANK_SIZE


@attrs.frozen
class QueueEntry:
    """One entry of a consume queue."""

    topic: str
    queue_id: int
    offset: int
    """Queue offset."""
    log_offset: int
    """Commit log offset of the record."""
    size: int
    """Size of the record in bytes."""
    tags_code: int
    """See `rmqlab.store.tagscodes`."""


def read_entries(root: Path) -> Iterator[QueueEntry]:
    """Yield the entries of all consume queues below a store's root.

    Entries that a queue never had are left out; an entry of zeros counts if others follow it. Raises OSError.
    """
    for path in queue_files(root):
        topic, queue_id, first = path.parts[-3], path.parts[-2], int(path.name) // QUEUE_ENTRY_SIZE
        if not queue_id.isdecimal():
            continue
        for number, (log_offset, size, tags_code) in enumerate(ENTRY.iter_unpack(_entries_of(path))):
            if size != PRE_BLANK_SIZE:
                yield QueueEntry(topic, int(queue_id), first + number, log_offset, size, tags_code)


def _entries_of(path: Path) -> bytes:
    whole = written_part(path)
    count = -(-len(whole.rstrip(b"\0")) // QUEUE_ENTRY_SIZE)
    return whole[: min(count, len(whole) // QUEUE_ENTRY_SIZE) * QUEUE_ENTRY_SIZE]
