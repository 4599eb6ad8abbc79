"""The end of a consume queue that lost entries: torn, or that of another queue."""

from collections.abc import Iterable
from typing import Final

from rmqlab.remoting.message import RecordError, StoredMessage, decode_message
from rmqlab.store.config import QUEUE_ENTRY_SIZE
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.queue.consumequeue import PRE_BLANK_SIZE, ConsumeQueue
from rmqlab.store.queue.queueend import may_lack_page

_NAMES_OF_LIGHT_QUEUES: Final = "INNER_MULTI_DISPATCH"
_MOST_EXAMINED: Final = 2**16
"""Entries of one queue. Each reads its record, so a start takes a second more at most."""


def is_end_torn(queue: ConsumeQueue, log: CommitLog) -> bool:
    """True if the last entry has another size than the record at its offset."""
    last = queue.entry(queue.max_offset - 1)
    if last is None or last[1] == PRE_BLANK_SIZE or log.dispatch_start(last[0]) is None:
        return False
    record = log.record(last[0])
    return record is not None and len(record) != last[1]


def is_of_another(queue: ConsumeQueue, log: CommitLog) -> bool:
    """Return True if the last entry points at a record of another topic or queue id.

    Entries of RocketMQ's light queues point at records of other topics, which name these queues.
    """
    last = queue.entry(queue.max_offset - 1)
    message = _message_of(last, log) if last is not None else None
    return message is not None and not _is_in(queue, message) and _NAMES_OF_LIGHT_QUEUES not in message.properties


def mark_wrong_ends(queues: Iterable[ConsumeQueue], log: CommitLog) -> None:
    """Mark queues as damaged whose last entry is torn, or of another queue."""
    for queue in queues:
        if queue.max_offset and (is_end_torn(queue, log) or is_of_another(queue, log)):
            queue.is_damaged = True


def drop_unsure_ends(queues: Iterable[ConsumeQueue], log: CommitLog, complete_to: int) -> None:
    """Drop the last entry of each queue whose tags code a crash may have lost.

    Not of light queues: dispatch would not make it again.
    """
    for queue in queues:
        last = queue.files.last
        if last is None or not may_lack_page(last, complete_to):
            continue
        entry = queue.entry(queue.max_offset - 1)
        message = _message_of(entry, log) if entry is not None else None
        if message is None or _is_in(queue, message):
            queue.cut((queue.max_offset - 1) * QUEUE_ENTRY_SIZE)


def drop_torn_end(queue: ConsumeQueue, log: CommitLog) -> int | None:
    """Drop the end of a damaged queue; return the log offset to dispatch from.

    The last entry whose record states its place in the queue is dropped as well: its offset is right, its size and tags
    code may be torn. Without such an entry among the last ones, those from the last one on that points at a record are
    dropped: the queue may have a gap. If the log is complete and no entry of the queue has its place, all are dropped.
    An entry whose record has expired stays; then the end of that record is returned. -1 if no entry points at a record.

    None for a light queue, which stays as it is: dispatch makes none of its entries.
    """
    last = None
    begin = max(0, queue.max_offset - _MOST_EXAMINED)
    for at in range(queue.max_offset - 1, begin - 1, -1):
        entry = queue.entry(at)
        if entry is None or entry[1] == PRE_BLANK_SIZE or _is_expired(entry, log):
            if last is None:
                queue.cut((at + 1) * QUEUE_ENTRY_SIZE)
                return queue.max_physical
            break
        message = _message_of(entry, log)
        if message is not None and not _is_in(queue, message) and _NAMES_OF_LIGHT_QUEUES in message.properties:
            return None
        is_placed = message is not None and _is_in(queue, message) and message.queue_offset == at
        if is_placed or (last is None and message is not None):
            last = at, entry[0]
        if is_placed:
            break
    else:
        if begin == 0 and log.min_offset == 0:  # the first entry of a queue always has its place
            queue.files.destroy()
            queue.max_physical = -1
            return log.min_offset
    if last is None:
        return -1
    at, offset = last
    queue.cut(at * QUEUE_ENTRY_SIZE)
    queue.max_physical = offset
    start = log.dispatch_start(offset)
    assert start is not None
    return start


def _is_expired(entry: tuple[int, int, int], log: CommitLog) -> bool:
    """Return True if the log had the record of an entry.

    A damaged entry may also point at no place of any log.
    """
    offset, size, _ = entry
    return offset >= 0 and size > 0 and offset + size <= log.min_offset


def _is_in(queue: ConsumeQueue, message: StoredMessage) -> bool:
    return (message.topic, message.queue_id) == (queue.topic, queue.queue_id)


def _message_of(entry: tuple[int, int, int], log: CommitLog) -> StoredMessage | None:
    """Return the record that begins at the commit log offset of an entry."""
    record = log.record(entry[0]) if log.dispatch_start(entry[0]) is not None else None
    if record is None:
        return None
    try:
        return decode_message(record)
    except (RecordError, UnicodeDecodeError):
        return None
