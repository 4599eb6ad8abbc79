"""The last entry of a consume queue that lost entries: it may be torn, or that of another queue."""

from typing import Final

from rmqlab.remoting.message import RecordError, decode_message
from rmqlab.store.config import QUEUE_ENTRY_SIZE
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.queue.consumequeue import PRE_BLANK_SIZE, ConsumeQueue

_NAMES_OF_LIGHT_QUEUES: Final = "INNER_MULTI_DISPATCH"


def is_end_torn(queue: ConsumeQueue, log: CommitLog) -> bool:
    """Return True if the last entry has another size than the record that begins at its commit log offset."""
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
    record = log.record(last[0]) if last is not None and log.dispatch_start(last[0]) is not None else None
    if record is None:
        return False
    try:
        message = decode_message(record)
    except (RecordError, UnicodeDecodeError):
        return False
    return (message.topic, message.queue_id) != (queue.topic, queue.queue_id) and (
        _NAMES_OF_LIGHT_QUEUES not in message.properties
    )


def drop_torn_end(queue: ConsumeQueue, log: CommitLog) -> int:
    """Drop the last entry of a damaged queue; return the commit log offset from which dispatch makes it again.

    Its offset is right if a record begins there; its size and tags code may be torn. Entries at the end that point at
    no record are dropped as well. One whose record has expired stays, and the end of that record is returned.
    """
    for at in range(queue.max_offset - 1, -1, -1):
        entry = queue.entry(at)
        if entry is None or entry[1] == PRE_BLANK_SIZE or entry[0] < log.min_offset:
            queue.cut((at + 1) * QUEUE_ENTRY_SIZE)
            break
        start = log.dispatch_start(entry[0])
        if start is not None:
            queue.cut(at * QUEUE_ENTRY_SIZE)
            queue.max_physical = entry[0]
            return start
    return queue.max_physical
