"""Checks consume queue entries of earlier runs when a pull reads them.

Damaged ones are repaired from the log. RocketMQ returns whatever bytes an entry points to. If it points beyond the log, RocketMQ also skips the entries behind
it (rollNextFile). A start checks only the ends of queues, because checking all entries would read the whole log.
"""

import logging
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from rmqlab.remoting.message import MESSAGE_MAGIC, RecordError, decode_message
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.queue.consumequeue import ENTRY, PRE_BLANK_SIZE, ConsumeQueue
from rmqlab.store.tagscodes import deliver_at, expected_code

logger = logging.getLogger(__name__)

Entry = tuple[int, int, int]
"""Commit log offset, size and tags code of a record."""

HEAD: Final = struct.Struct(">ii4xi4xq")
"""Size, magic, queue id and queue offset of a record."""
_NEIGHBOURS: Final = 32
"""Entries before and after one, of which the nearest valid ones say where in the log its record is."""
_MOST_WALKED: Final = 50_000
"""Maximum number of records that are read to repair one entry: some 30 ms."""
_MOST_GIVEN_UP: Final = 10_000
_MOST_DROPPED: Final = 10_000
"""Entries at the end of a damaged queue among which the last valid one is searched."""


@attrs.define(eq=False)
class EntryCheck:
    """Checks the entries that a start found in the files of one store."""

    log: CommitLog
    delay_millis: tuple[int, ...]
    _given_up: set[tuple[ConsumeQueue, int]] = attrs.field(factory=set, init=False)
    """Queue offsets of entries that cannot be repaired: the log is not searched for them again."""
    _counts: Counter[tuple[ConsumeQueue, str]] = attrs.field(factory=Counter, init=False)

    def corrected(self, queue: ConsumeQueue, queue_offset: int, entry: Entry) -> Entry | None:
        """Return the entry, or the repaired one; None if it must be skipped.

        It is repaired if the log has the record of this queue offset between the records of the nearest valid entries.
        Otherwise the entry is used as it is if its record has expired, or is a whole record of this queue.
        """
        if self._fits(queue, queue_offset, entry):
            return entry
        place = queue, queue_offset
        if place in self._given_up:
            return entry if self._is_usable(queue, entry) else None
        found = self._search(queue, queue_offset)
        if found is not None:
            self._log(queue, queue_offset, entry, "repaired")
            _overwrite(queue, queue_offset, found)
            return found
        if len(self._given_up) >= _MOST_GIVEN_UP:
            self._given_up.clear()
        self._given_up.add(place)
        if self._is_usable(queue, entry):
            return entry
        self._log(queue, queue_offset, entry, "skipped")
        return None

    def _log(self, queue: ConsumeQueue, queue_offset: int, entry: Entry, done: str) -> None:
        """Log the 1st, 10th, 100th, ... of a queue, whose files may be full of them."""
        self._counts[queue, done] += 1
        count = self._counts[queue, done]
        if count == 10 ** (len(str(count)) - 1):
            logger.warning(
                "%s-%d: entry %d points to %d bytes at %d, where no such record is: it is %s (%d of this queue so far)",
                queue.topic, queue.queue_id, queue_offset, entry[1], entry[0], done, count,
            )  # fmt: skip

    def is_valid(self, queue: ConsumeQueue, queue_offset: int) -> bool:
        """Return True if an entry points to its record, or to one that has expired."""
        entry = queue.entry(queue_offset)
        return entry is not None and (self._fits(queue, queue_offset, entry) or self._is_gone(entry))

    def is_usable_at(self, queue: ConsumeQueue, queue_offset: int) -> bool:
        """Return True if an entry points to a record of its queue, or an expired one."""
        entry = queue.entry(queue_offset)
        return entry is not None and self._is_usable(queue, entry)

    def _is_usable(self, queue: ConsumeQueue, entry: Entry) -> bool:
        """True if the record has expired, or is one of this queue.

        RocketMQ may number them otherwise.
        """
        return self._is_gone(entry) or self._record_of(queue, entry[0], entry[1]) is not None

    def _fits(self, queue: ConsumeQueue, queue_offset: int, entry: Entry) -> bool:
        physical, size, _ = entry
        file = self.log.file_at(physical) if physical >= 0 else None
        if file is None or size < HEAD.size or physical + size > file.end_offset:
            return False
        found = HEAD.unpack_from(file.view, physical - file.first_offset)
        return found == (size, MESSAGE_MAGIC, queue.queue_id, queue_offset)

    def _is_gone(self, entry: Entry) -> bool:
        """True for blank entries, and if the log has no file there any more."""
        physical, size, _ = entry
        return size == PRE_BLANK_SIZE or (0 <= physical < self.log.max_offset and self.log.file_at(physical) is None)

    def _record_of(self, queue: ConsumeQueue, physical: int, size: int) -> Entry | None:
        """Return the entry of the whole record at an offset.

        None if it is not of this topic and queue.
        """
        record = self.log.slice(physical, size) if physical >= 0 else None
        try:
            message = None if record is None else decode_message(record)
        except RecordError:
            return None
        if message is None or (message.topic, message.queue_id) != (queue.topic, queue.queue_id):
            return None
        code = expected_code(message)
        if code is None:
            code = deliver_at(message.properties.get("DELAY", ""), message.store_timestamp, self.delay_millis)
        return physical, size, code or 0

    def _search(self, queue: ConsumeQueue, queue_offset: int) -> Entry | None:
        """Return the entry of the record that the log has for a queue offset."""
        start = self._start(queue, queue_offset)
        if start is None:
            return None
        for physical, size in self._records(start, self._end(queue, queue_offset)):
            if self._fits(queue, queue_offset, (physical, size, 0)):
                found = self._record_of(queue, physical, size)
                if found is not None:
                    return found
        return None

    def _start(self, queue: ConsumeQueue, queue_offset: int) -> int | None:
        """Return the end of a record before it; None if no near entry is valid."""
        first = queue_offset - _NEIGHBOURS
        for before in range(queue_offset - 1, max(queue.min_offset, first) - 1, -1):
            entry = queue.entry(before)
            if entry is not None and self._fits(queue, before, entry):
                return entry[0] + entry[1]
        return self.log.min_offset if first < queue.min_offset else None

    def _end(self, queue: ConsumeQueue, queue_offset: int) -> int:
        """Return the begin of a record after it.

        This is the end of the log if no near entry is valid.
        """
        for after in range(queue_offset + 1, min(queue.max_offset, queue_offset + _NEIGHBOURS)):
            entry = queue.entry(after)
            if entry is not None and self._fits(queue, after, entry):
                return entry[0]
        return self.log.max_offset

    def _records(self, at: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield offset and size of consecutive records from `at` on.

        Ends at `end`, or at bytes that are no record.
        """
        for _ in range(_MOST_WALKED):
            file = self.log.file_at(at)
            if file is None or at >= end:
                return
            position = at - file.first_offset
            lead = self.log.entry_header_size(file)
            if position + lead + HEAD.size > file.wrote or self.log.is_blank(file, position):
                at = file.first_offset + file.size
                continue
            size, magic, _, _ = HEAD.unpack_from(file.view, position + lead)
            if magic != MESSAGE_MAGIC or size < HEAD.size:
                return
            yield at + lead, size
            at += lead + size


def drop_damaged_ends(log: CommitLog, queues: Iterable[ConsumeQueue]) -> None:
    """Drop the last entries of damaged queues that point to no record.

    Such a queue is made again from the log, from the end of its last record on: that must be the begin of a record, and
    the record that of the last entry's queue offset. An end without a valid entry in reach stays as it is if it is one
    of RocketMQ's that are numbered otherwise.
    """
    check = EntryCheck(log, ())
    for queue in queues:
        end = queue.max_offset
        if not queue.is_damaged or not end:
            continue
        first = max(queue.min_offset, end - _MOST_DROPPED)
        valid = next((at for at in range(end - 1, first - 1, -1) if check.is_valid(queue, at)), None)
        if valid is not None:
            end = valid + 1
        elif first == queue.min_offset and not check.is_usable_at(queue, end - 1):
            end = first
        if end < queue.max_offset:
            queue.cut(end * ENTRY.size)


def _overwrite(queue: ConsumeQueue, queue_offset: int, entry: Entry) -> None:
    position = queue_offset * ENTRY.size
    file = queue.files.file_at(position)
    if file is not None:
        ENTRY.pack_into(file.map, position - file.first_offset, *entry)
