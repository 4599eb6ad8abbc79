"""Durability in two steps: a job that only syncs, fit for a worker thread, and its result taken in the loop.

How far the log is surely on disk must outlive `kill -9`, so that a power loss can be played: kill the process,
then erase what was never synced. It is kept in `config/rmqlab.flushed`, a name that RocketMQ does not look at:
two int64, the commit log offset up to which records, and up to which their queue entries, were synced.
"""

import contextlib
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from store.checkpoint import Checkpoint
from store.commitlog import CommitLog
from store.consumequeue import ConsumeQueue
from store.index import Index
from store.queues import Queues

_MARKS: Final = struct.Struct(">qq")
MARKS_FILE: Final = "config/rmqlab.flushed"
"""Below the store's root."""


@attrs.define(eq=False)
class FlushedMarks:
    """The two flushed positions. Written to the page cache only: a lost one costs a repeated power loss."""

    path: Path
    log: int = 0
    queues: int = 0
    _descriptor: int = attrs.field(default=-1, init=False)

    @classmethod
    def open(cls, path: Path) -> "FlushedMarks":
        path.parent.mkdir(parents=True, exist_ok=True)
        marks = cls(path)
        marks._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        raw = os.pread(marks._descriptor, _MARKS.size, 0)
        if len(raw) == _MARKS.size:
            marks.log, marks.queues = _MARKS.unpack(raw)
        return marks

    def write(self) -> None:
        with contextlib.suppress(OSError):  # a full disk: a power loss then takes more than it need
            os.pwrite(self._descriptor, _MARKS.pack(self.log, self.queues), 0)

    def close(self) -> None:
        os.close(self._descriptor)


@attrs.define(eq=False)
class FlushJob:
    """`run` may take long, in any thread; OSError when a sync fails. After it ran, give it to the store.

    One that failed is dropped: the next covers what it would have.
    """

    target: int  # commit log offset that is synced, or below which all queue entries are, once it ran
    syncs: Sequence[Callable[[], None]]
    log_stored_at: int | None = None  # of a job for the log: store time of the last message before `target`
    checkpoint: Checkpoint | None = None  # of some jobs for the queues: what it writes when all else is synced
    positions: Sequence[tuple[ConsumeQueue, int]] = ()  # how far each queue will be synced
    full_indexes: int = 0  # how many index files that became full are among them

    def run(self) -> None:
        for sync in self.syncs:
            sync()
        if self.checkpoint is not None:
            self.checkpoint.write()


@attrs.define(eq=False)
class Flusher:
    """Knows what is not yet durable."""

    log: CommitLog
    queues: Queues
    index: Index | None
    checkpoint: Checkpoint
    marks: FlushedMarks
    saved: Checkpoint | None = None  # what the file of the checkpoint says, as far as it is known

    def log_job(self, stored_at: int) -> FlushJob | None:
        """`stored_at` is the store time of the log's last message."""
        target = self.log.max_offset
        if target <= self.marks.log:
            return None
        grown = [file.sync for file in self.log.files.files if file.end_offset > self.marks.log]
        return FlushJob(target, grown, log_stored_at=stored_at)

    def queues_job(
        self, dispatched: int, stored_at: int, *, least_pages: int = 0, at_stop: bool = False
    ) -> FlushJob | None:
        """With `least_pages` only queues that grew by so many, or whose file is full; else all, and the checkpoint.

        Index files are synced when they are full, and at a stop (section 3.3): then, too, the checkpoint is written.
        """
        dirty = [queue for queue in self.queues if queue.is_dirty_by(least_pages)]
        syncs = [file.sync for queue in dirty for file in queue.dirty_files()]
        positions = [(queue, queue.files.max_offset) for queue in dirty]
        checkpoint, full = attrs.evolve(self.checkpoint), 0
        if self.index is not None:
            full = len(self.index.full)
            syncs += [file.file.sync for file in (self.index.files if at_stop else self.index.full)]
            if full:
                checkpoint.index_msg_timestamp = self.index.full[-1].end_timestamp
        covers_all = least_pages == 0
        if covers_all:
            checkpoint.logics_msg_timestamp = stored_at or checkpoint.logics_msg_timestamp
        is_moved = checkpoint != self.saved and (covers_all or full > 0)
        if not (syncs or is_moved or (covers_all and dispatched > self.marks.queues)):
            return None
        return FlushJob(
            dispatched if covers_all else self.marks.queues,
            syncs,
            checkpoint=checkpoint if is_moved else None,
            positions=positions,
            full_indexes=full,
        )

    def done(self, job: FlushJob) -> None:
        if job.log_stored_at is not None:
            self.marks.log = max(self.marks.log, job.target)
            stored_at = max(self.checkpoint.physic_msg_timestamp, job.log_stored_at)
            self.checkpoint.physic_msg_timestamp = stored_at
        else:
            self.marks.queues = max(self.marks.queues, job.target)
            if job.checkpoint is not None:
                self.saved = job.checkpoint
                self.checkpoint.logics_msg_timestamp = job.checkpoint.logics_msg_timestamp
                self.checkpoint.index_msg_timestamp = job.checkpoint.index_msg_timestamp
            for queue, position in job.positions:
                queue.flushed = max(queue.flushed, position)
            if self.index is not None:
                del self.index.full[: job.full_indexes]
        self.marks.write()

    def cut(self, log_end: int) -> None:
        """The log was truncated."""
        self.marks.log = min(self.marks.log, log_end)
        self.marks.queues = min(self.marks.queues, log_end)
        self.marks.write()
        for queue in self.queues:
            queue.flushed = min(queue.flushed, queue.files.max_offset)
