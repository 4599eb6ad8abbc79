"""All consume queues of a store, by topic and queue id."""

import contextlib
import heapq
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from rmqlab.remoting.names import topic_fault
from rmqlab.store.files.claim import CompletenessClaim
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.diskcalls import DiskCalls
from rmqlab.store.files.filequeue import FileQueue
from rmqlab.store.files.openfiles import OpenFiles
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.queue.consumequeue import ConsumeQueue
from rmqlab.store.queue.deletedqueues import DELETED_QUEUES, DeletedQueues
from rmqlab.store.queue.tornend import drop_torn_end, is_end_torn

logger = logging.getLogger(__name__)

# A store has few logs but maybe thousands of queues: they claim disk blocks in small steps.
_FIRST_STEP: Final = 16 * 1024
_LAST_STEP: Final = 1 << 20
_QUEUE_ID: Final = re.compile(r"-?[0-9]+")  # negative where a client chose it (REAL_QID); RocketMQ loads those as well
_LONGEST_NAME: Final = 255
"""Bytes; a limit of all common file systems."""


def can_have_queues(topic: str) -> bool:
    """True if a topic is a valid name of one directory.

    Clients may send any topic, such as `../x`.
    """
    is_name = topic not in ("", ".", "..") and "/" not in topic and "\0" not in topic
    return is_name and len(topic.encode(errors="replace")) <= _LONGEST_NAME


@attrs.define(eq=False)
class Queues:
    """The consume queues of one store."""

    directory: Path
    file_size: int
    disk: Disk
    open_files: OpenFiles = attrs.field(factory=OpenFiles)
    deleted: DeletedQueues = attrs.Factory(
        lambda self: DeletedQueues(self.directory.with_name(DELETED_QUEUES), self.disk), takes_self=True
    )
    table: dict[tuple[str, int], ConsumeQueue] = attrs.field(factory=dict, init=False)
    is_recovering: bool = attrs.field(default=True, init=False)
    """True until the log has been dispatched at a start."""
    stuck: dict[ConsumeQueue, None] = attrs.field(factory=dict, init=False)
    """Queues with entries that could not be written yet; see `write_held`."""

    def load(self, on_loaded: Callable[[], object] = lambda: None) -> None:
        """Find the queues and their files.

        `on_loaded` is called after each queue. OSError.
        """
        for topic in self.disk.names_in(self.directory):
            for queue_id in self._ids_of(topic):
                if _QUEUE_ID.fullmatch(queue_id):
                    self.open(topic, int(queue_id)).files.load()
                    on_loaded()

    def _ids_of(self, topic: str) -> list[str]:
        try:
            return self.disk.names_in(self.directory / topic)
        except NotADirectoryError:
            if topic_fault(topic) is not None:  # no topic's queues are lost: notes.txt, a file manager's .DS_Store
                return []
            raise

    def open(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return the queue, created in memory if it is new: its first entry creates files."""
        queue = self.table.get((topic, queue_id))
        if queue is None:
            files = FileQueue(
                self.directory / topic / str(queue_id),
                self.file_size,
                self.disk,
                _FIRST_STEP,
                _LAST_STEP,
                self.open_files,
            )
            queue = self.table[topic, queue_id] = ConsumeQueue(topic, queue_id, files, self.stuck)
            queue.is_rebuilt = self.is_recovering
        return queue

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(self.table.values())

    @property
    def max_physical(self) -> int:
        """The end of the last record in any queue; 0 without one."""
        return max((queue.max_physical for queue in self), default=0)

    def dispatch_from(self, log: CommitLog, log_end: int, claim: CompletenessClaim) -> int:
        """Return the offset from which a log is dispatched after a clean stop.

        This is the end of the last record in any queue, or the last record in a damaged queue, which may have lost all
        entries. One whose next record may have expired gets no entries of the log as it is: they would get wrong
        offsets. StoreError if the claim cannot be withdrawn.
        """
        last, whole, starts = self.max_physical, 0, []
        for queue in self:
            if not queue.is_damaged and (queue.max_physical != last or not is_end_torn(queue, log)):
                whole = max(whole, queue.max_physical)
                continue
            claim.withdraw()
            known = drop_torn_end(queue, log) if queue.max_offset else log.min_offset
            if known is None:
                continue
            is_rebuilt = known >= log.min_offset
            logger.warning(
                "%s: entries from %d on are damaged or missing: they are %s",
                queue.files.directory, queue.max_offset, "made again from the log" if is_rebuilt else "dropped",
            )  # fmt: skip
            queue.is_rebuilt = is_rebuilt
            if is_rebuilt:
                starts.append(known)
            else:
                queue.max_physical = log_end  # it skips records before
        start = min(starts, default=whole)
        # All queues may lack entries, or the one with the last entry: no damage shows it.
        if 0 <= log.stored_at(max(start, log.min_offset)) <= claim.read.logics_msg_timestamp:
            claim.withdraw()
        return start

    def record_before(self, log_offset: int) -> tuple[int, int] | None:
        """Return log offset and size of the last queued record that ends by `log_offset`.

        Queues that end before a record found in another queue are not opened.
        """
        found: tuple[int, int] | None = None
        for queue in sorted(self, key=lambda queue: min(queue.max_physical, log_offset), reverse=True):
            if found is not None and queue.max_physical <= sum(found):
                break
            entry = queue.entry_before(log_offset)
            if entry is not None and (found is None or entry > found):
                found = entry
        return found

    def recover(
        self, claim: CompletenessClaim, *, complete_to: int | None, on_recovered: Callable[[], object] = lambda: None
    ) -> None:
        """Find the end of each queue; see `ConsumeQueue.recover`. OSError.

        `on_recovered` is called after each.
        """
        for queue in self:
            queue.recover(claim.withdraw, complete_to=complete_to)
            queue.is_rebuilt = queue.max_offset == 0 or complete_to is not None
            on_recovered()

    def trim_to_log(self, log_end: int) -> None:
        for queue in self:
            queue.trim_to_log(log_end)

    def correct_min_offsets(self, log_min: int) -> None:
        for queue in self:
            queue.correct_min_offset(log_min)

    def recover_counters(self) -> None:
        """Set each queue's next offset to that after its last entry (section 2.6)."""
        for queue in self:
            queue.next_offset = queue.end_offset

    def end_rebuild(self, log: CommitLog) -> None:
        """Record that the start has dispatched the log.

        Not yet if entries of a DLedger group wait for their commit.
        """
        if log.max_offset < log.files.max_offset:
            return
        self.is_recovering = False
        for queue in self:
            queue.is_rebuilt = False

    def write_held(self) -> int | None:
        """Try again to write the entries that queues hold; see `ConsumeQueue.write_held`.

        Returns the commit log offset of the first record that still has no entry; None if all have.
        """
        for queue in list(self.stuck):
            queue.write_held()
        return min((queue.held.first_physical for queue in self.stuck if queue.held is not None), default=None)

    def delete(self, topic: str) -> None:
        """Drop a topic's queues.

        Their files are deleted later, if the disk can move them; see `DeletedQueues`.
        """
        self._delete(topic, [queue for queue in self if queue.topic == topic])

    def delete_all(self) -> None:
        """As `delete`, for all topics."""
        by_topic: dict[str, list[ConsumeQueue]] = {}
        for queue in self:
            by_topic.setdefault(queue.topic, []).append(queue)
        for topic, queues in by_topic.items():
            self._delete(topic, queues)

    def _delete(self, topic: str, queues: Sequence[ConsumeQueue]) -> None:
        """Drop the queues of a topic, which are all that it has."""
        directory = self.directory / topic
        is_moved = False
        with contextlib.suppress(OSError):  # no queue has files yet, or the disk refuses
            if queues:
                self.deleted.take(directory, queues)
                is_moved = True
        for queue in queues:
            self.stuck.pop(self.table.pop((topic, queue.queue_id)), None)
            if not is_moved:
                queue.files.destroy()
        with contextlib.suppress(OSError):  # not empty, missing, or refused: it does no harm
            self.disk.remove_directory(directory)

    def deletion_of_expired(self, log_min: int) -> DiskCalls[None]:
        """Yield the calls of all queues' `deletion_of_expired`. OSError leaves the rest."""
        for queue in list(self):
            yield from queue.deletion_of_expired(log_min)

    def close(self) -> None:
        self.deleted.close()
        for queue in self:
            queue.files.close()


class EnteredOffsets:
    """Commit log offsets that have a queue entry, for consecutive parts of the log.

    A queue is opened only for the parts that it has entries of, however many parts and queues there are.
    """

    def __init__(self, queues: Queues, start: int) -> None:
        """For parts from `start` on."""
        self._upcoming = [(start, at, queue) for at, queue in enumerate(queues) if queue.max_physical > start]
        """Heap of queues by a commit log offset: they have no entry before it that is still to be returned."""

    def between(self, low: int, high: int) -> list[int]:
        """Return those in [low, high), in rising order. `low` is the last call's `high`."""
        upcoming, found = self._upcoming, list[int]()
        while upcoming and upcoming[0][0] < high:
            _, at, queue = upcoming[0]
            found += queue.offsets_between(low, high)
            following = queue.offset_from(high)
            if following is None:
                heapq.heappop(upcoming)
            else:
                heapq.heapreplace(upcoming, (following, at, queue))
        return sorted(found)
