"""The end of a consume queue that lost entries: torn, or that of another queue."""

from typing import Final

from rmqlab.remoting.message import RecordError, StoredMessage, decode_message
from rmqlab.store.config import QUEUE_ENTRY_SIZE
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.queue.consumequeue import PRE_BLANK_SIZE, ConsumeQueue

_NAMES_OF_LIGHT_QUEUES: Final = "INNER_MULTI_DISPATCH"


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


def drop_torn_end(queue: ConsumeQueue, log: CommitLog) -> int:
    """Drop the end of a damaged queue; return where dispatch makes it again.

    This is an offset of the commit log.

    The last entry whose record states its place in the queue is dropped as well: its offset is right, its size and tags
    code may be torn. Without such an entry all are dropped, or, if older records have expired, those from the last one on
    that points at a record: the queue may have a gap. An entry whose record has expired stays; then the end of that
    record is returned. A light queue stays as it is: dispatch makes none of its entries.
    """
    last = None
    for at in range(queue.max_offset - 1, -1, -1):
        entry = queue.entry(at)
        if entry is None or entry[1] == PRE_BLANK_SIZE or entry[0] < log.min_offset:
            if last is None:
                queue.cut((at + 1) * QUEUE_ENTRY_SIZE)
            break
        message = _message_of(entry, log)
        if message is not None and not _is_in(queue, message) and _NAMES_OF_LIGHT_QUEUES in message.properties:
            return queue.max_physical
        is_placed = message is not None and _is_in(queue, message) and message.queue_offset == at
        if is_placed or (last is None and message is not None):
            last = at, entry[0]
        if is_placed:
            break
    else:  # the first entry of a queue always has its place
        queue.files.destroy()
        queue.max_physical = -1
        return log.min_offset
    if last is None:
        return queue.max_physical
    at, offset = last
    queue.cut(at * QUEUE_ENTRY_SIZE)
    queue.max_physical = offset
    start = log.dispatch_start(offset)
    assert start is not None
    return start


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
