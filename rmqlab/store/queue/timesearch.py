"""Search for the message of a queue stored at, or nearest to, a time.

Section 3.2, end.
"""

from rmqlab.store.config import QUEUE_ENTRY_SIZE
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.queue.consumequeue import ConsumeQueue


def offset_by_time(queue: ConsumeQueue, log: CommitLog, timestamp: int) -> int:
    """Return the queue offset of the message stored at or nearest to `timestamp`.

    0 if the queue is empty. If all messages of the file that is searched have expired, the offset before the file.
    Source: ConsumeQueue.getOffsetInQueueByTime.
    """
    file = _file_by_time(queue, log, timestamp)
    if file is None:
        return 0
    first = file.first_offset // QUEUE_ENTRY_SIZE
    low, high = max(queue.min_offset, first), file.end_offset // QUEUE_ENTRY_SIZE - 1
    before = after = -1  # the neighbours found so far
    before_at = after_at = -1
    while low <= high:
        middle = (low + high) // 2
        entry = queue.entry(middle)
        if entry is None or entry[0] < log.min_offset:  # its record has expired: search later entries
            low, before = middle + 1, middle
            continue
        stored_at = log.stored_at(entry[0])
        if stored_at < 0:
            return 0
        if stored_at == timestamp:
            return middle
        if stored_at > timestamp:
            high, after, after_at = middle - 1, middle, stored_at
        else:
            low, before, before_at = middle + 1, middle, stored_at
    if before_at < 0:
        # Without a message left, 4.9.8 subtracts one byte from the start of the file, and rounds.
        return after if after_at >= 0 else max(first - 1, 0)
    if after_at < 0:
        return before
    return after if abs(timestamp - before_at) > abs(timestamp - after_at) else before


def _file_by_time(queue: ConsumeQueue, log: CommitLog, timestamp: int) -> LogFile | None:
    """Return the first file last written at or after the time.

    Otherwise the last one with entries: a process that dies while it creates a file leaves one without any.
    RocketMQ uses the file's modification time. Our clock may be rated, so the store time of the last record is used.
    """
    files = [file for file in queue.files.files if file.wrote]
    for file in files:
        last = queue.entry(file.end_offset // QUEUE_ENTRY_SIZE - 1)
        if last is not None and log.stored_at(last[0]) >= timestamp:
            return file
    return files[-1] if files else None
