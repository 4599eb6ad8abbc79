"""All consume queues of a store, by topic and queue id."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from store.consumequeue import ConsumeQueue
from store.disk import Disk
from store.filequeue import FileQueue

# A store has few logs but maybe thousands of queues: they claim disk blocks in small steps.
_FIRST_STEP: Final = 16 * 1024
_LAST_STEP: Final = 1 << 20
_QUEUE_ID: Final = re.compile(r"-?[0-9]+")  # negative where a client chose it (REAL_QID); RocketMQ loads those as well


def can_have_queues(topic: str) -> bool:
    """Whether a directory of the queues can be called like this, and lie nowhere else: a topic may be what anybody sent."""
    return topic not in ("", ".", "..") and "/" not in topic and "\0" not in topic


@attrs.define(eq=False)
class Queues:
    directory: Path
    file_size: int
    disk: Disk
    table: dict[tuple[str, int], ConsumeQueue] = attrs.field(factory=dict, init=False)

    def load(self) -> None:
        for topic in self.disk.list_directory(self.directory):
            for queue_dir in self.disk.list_directory(topic):
                if _QUEUE_ID.fullmatch(queue_dir.name):
                    self.open(topic.name, int(queue_dir.name)).files.load()

    def open(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made in memory if it is new: files come with its first entry."""
        queue = self.table.get((topic, queue_id))
        if queue is None:
            files = FileQueue(
                self.directory / topic / str(queue_id),
                self.file_size,
                self.disk,
                _FIRST_STEP,
                _LAST_STEP,
                is_scattered=True,
            )
            queue = self.table[topic, queue_id] = ConsumeQueue(topic, queue_id, files)
        return queue

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(self.table.values())

    @property
    def max_physical(self) -> int:
        """End of the last record known to any queue; 0 if there is none."""
        return max((queue.max_physical for queue in self), default=0)

    def record_before(self, log_offset: int) -> tuple[int, int] | None:
        """Commit log offset and size of the last record in any queue that ends at or before an offset of the log."""
        found = [entry for queue in self if (entry := queue.entry_before(log_offset)) is not None]
        return max(found, default=None)

    def recover(self) -> None:
        for queue in self:
            queue.recover()

    def offsets_between(self, low: int, high: int) -> list[int]:
        """Commit log offsets in [low, high) that are in any queue, in rising order."""
        return sorted(offset for queue in self for offset in queue.offsets_between(low, high))

    def trim_to_log(self, log_end: int) -> None:
        for queue in self:
            queue.trim_to_log(log_end)

    def correct_min_offsets(self, log_min: int) -> None:
        for queue in self:
            queue.correct_min_offset(log_min)

    def recover_counters(self) -> None:
        """The next message of a queue gets the number after its last entry (section 2.6)."""
        for queue in self:
            queue.next_offset = queue.max_offset

    def delete(self, topic: str) -> None:
        for key in [key for key in self.table if key[0] == topic]:
            self.table.pop(key).files.destroy()
        with contextlib.suppress(OSError):  # not empty, missing, or refused: it does no harm
            self.disk.remove_directory(self.directory / topic)

    def delete_expired(self, log_min: int) -> int:
        return sum(queue.delete_expired(log_min) for queue in self)

    def close(self) -> None:
        for queue in self:
            queue.files.close()
