"""Read messages of a queue for one pull: selection, limits and status.

Sections 6.1 to 6.3.
"""

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from rmqlab.remoting.message import decode_properties
from rmqlab.store.config import QUEUE_ENTRY_SIZE, StoreConfig
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.queue.consumequeue import ENTRY, ConsumeQueue
from rmqlab.store.results import GetResult, GetStatus

TagsMatch = Callable[[int], bool]
PropertyFilter = Callable[[Mapping[str, str]], bool]

_LEAST_EXAMINED: Final = 16_000  # minimum bytes of queue entries examined, for any number of requested messages
MOST_EXAMINED: Final = 16_000
"""Maximum number of queue entries examined. Without it, a pull for 2**31 messages examines a whole file of entries."""


@attrs.define(slots=True)
class _Limits:
    """Limits of one reply, for messages in memory and on disk."""

    near_bytes: int
    memory_size: int
    memory_count: int
    disk_size: int
    disk_count: int

    @classmethod
    def of(cls, config: StoreConfig) -> "_Limits":
        return cls(
            config.near_bytes,
            config.max_transfer_bytes_on_message_in_memory,
            config.max_transfer_count_on_message_in_memory,
            config.max_transfer_bytes_on_message_in_disk,
            config.max_transfer_count_on_message_in_disk,
        )


@attrs.define(eq=False)
class Puller:
    """Reads messages of queues, within the limits of the settings."""

    log: CommitLog
    keeps_offset: bool  # a slave does not correct a reader's offset (store-ha#65)
    _limits: _Limits

    @classmethod
    def of(cls, log: CommitLog, config: StoreConfig, *, is_slave: bool) -> "Puller":
        return cls(log, is_slave and not config.offset_check_in_slave, _Limits.of(config))

    def get(
        self,
        queue: ConsumeQueue | None,
        queue_offset: int,
        max_nums: int,
        matches: TagsMatch | None,
        property_filter: PropertyFilter | None,
        max_examined: int,
    ) -> GetResult:
        """Return messages of a queue, which is None if it never had any (section 6.1)."""
        lowest, highest = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
        if queue is None or highest == 0:
            return self._not_found(GetStatus.NO_MESSAGE_IN_QUEUE, queue_offset, 0, lowest, highest)
        if queue_offset < lowest:
            return self._not_found(GetStatus.OFFSET_TOO_SMALL, queue_offset, lowest, lowest, highest)
        if queue_offset == highest:
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, queue_offset, lowest, highest)
        if queue_offset > highest:
            return self._not_found(GetStatus.OFFSET_OVERFLOW_BADLY, queue_offset, highest, lowest, highest)
        entries = queue.entries(queue_offset, _bytes_to_examine(max_nums, max_examined))
        if not entries:
            following = queue.next_file_offset(queue_offset)
            return self._not_found(GetStatus.OFFSET_FOUND_NULL, queue_offset, following, lowest, highest)
        result = GetResult(GetStatus.NO_MATCHED_MESSAGE, queue_offset, lowest, highest)
        self._gather(result, entries, max_nums, matches, property_filter)
        return result

    def _not_found(self, status: GetStatus, asked: int, corrected: int, lowest: int, highest: int) -> GetResult:
        return GetResult(status, asked if self.keeps_offset else corrected, lowest, highest)

    def _gather(
        self,
        result: GetResult,
        entries: memoryview,
        max_nums: int,
        matches: TagsMatch | None,
        property_filter: PropertyFilter | None,
    ) -> None:
        """Gather records; neighbours in one file become one buffer.

        The first record ignores all limits.
        """
        limits, log = self._limits, self.log
        log_end = log.max_offset
        far_below = log_end - limits.near_bytes  # a record before this counts as being on disk
        max_size, max_count = limits.memory_size, min(max_nums, limits.memory_count)
        far_size, far_count = limits.disk_size, min(max_nums, limits.disk_count)
        count = size = examined = physical = 0
        run_start = run_end = file_start = file_end = 0  # the buffer being gathered, and its file's readable part
        resume_at = -1  # after a hole in the log: entries below are skipped
        removed = False  # the last entry that gave no message lacks its record
        view = memoryview(b"")
        for physical, record_size, tags_code in ENTRY.iter_unpack(entries):
            if physical < resume_at:
                examined += 1
                continue
            if count:
                if physical < far_below:
                    if count >= far_count or size + record_size > far_size:
                        break
                elif count >= max_count or size + record_size > max_size:
                    break
            examined += 1
            if matches is not None and not matches(tags_code):
                removed = False
                continue
            if physical != run_end or physical + record_size > file_end:
                if run_end > run_start:
                    result.buffers.append(view[run_start - file_start : run_end - file_start])
                run_start = run_end = 0
                if not file_start <= physical or physical + record_size > file_end:
                    file = log.file_at(physical)
                    if file is None or physical + record_size > file.end_offset:
                        removed = True
                        resume_at = (physical // log.files.file_size + 1) * log.files.file_size
                        file_start = file_end = 0
                        continue
                    file_start, file_end, view = file.first_offset, file.end_offset, file.view
                run_start = physical
            resume_at = -1
            if property_filter is not None and not self._passes(view, physical - file_start, property_filter):
                removed = False
                if run_start < physical:
                    result.buffers.append(view[run_start - file_start : physical - file_start])
                run_start = run_end = 0
                continue
            run_end = physical + record_size
            count += 1
            size += record_size
        if run_end > run_start:
            result.buffers.append(view[run_start - file_start : run_end - file_start])
        result.count, result.size = count, size
        if count:
            result.status = GetStatus.FOUND
        elif removed:
            result.status = GetStatus.MESSAGE_WAS_REMOVING
        result.next_begin_offset += examined
        result.suggest_slave = log_end - physical > limits.near_bytes  # store-ha#67

    @staticmethod
    def _passes(view: memoryview, at: int, property_filter: PropertyFilter) -> bool:
        return property_filter(decode_properties(view, at))


def _bytes_to_examine(max_nums: int, max_examined: int) -> int:
    """Return the maximum bytes of queue entries that a pull for so many examines."""
    return min(max(_LEAST_EXAMINED, QUEUE_ENTRY_SIZE * max_nums), QUEUE_ENTRY_SIZE * max_examined)
