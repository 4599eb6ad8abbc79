"""Flushing: a worker thread syncs, and the loop applies the result.

The synced offsets must survive `kill -9`, so that a power loss can be simulated: kill the process, then erase the bytes
that were never synced. They are kept in `config/rmqlab.flushed`, a name that RocketMQ ignores: two int64, the commit
log offsets up to which records, and up to which their queue entries, were synced.

The kernel reports a failed fsync once and may then mark the pages as clean: the next fsync succeeds and writes nothing.
So a range whose fsync failed counts as synced only after it was rewritten and its records checked. RocketMQ 4.9 counts
it with the next success (issue 12.14).
"""

import contextlib
import errno
import os
import struct
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from rmqlab.runtime.regularfile import check_regular
from rmqlab.store.files.checkpoint import Checkpoint
from rmqlab.store.files.disk import Disk
from rmqlab.store.keyindex.index import Index
from rmqlab.store.keyindex.indexfile import IndexFile
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.log.recovery import Walk
from rmqlab.store.queue.consumequeue import ConsumeQueue
from rmqlab.store.queue.heldentries import FAILURES
from rmqlab.store.queue.queues import Queues

_MARKS: Final = struct.Struct(">qq")
MARKS_FILE: Final = "config/rmqlab.flushed"
"""Below the store's root."""
_REWRITTEN_AT_ONCE: Final = 32 * 2**20
"""Bytes of the log that are written once more for one sync: some 20 ms in the event loop."""


@attrs.define(eq=False)
class FlushedMarks:
    """The two flushed positions.

    Written to the page cache only: a lost one costs a repeated power loss.
    """

    path: Path
    disk: Disk
    log: int = 0
    queues: int = 0
    is_known: bool = False
    """False for a store of RocketMQ, or a store that was never flushed."""
    _descriptor: int = attrs.field(default=-1, init=False)

    @classmethod
    def open(cls, path: Path, disk: Disk | None = None) -> "FlushedMarks":
        """Read the marks, and keep the file open. OSError when that fails."""
        marks = cls(path, disk or Disk())
        marks.disk.make_directory(path.parent)
        marks._descriptor = marks.disk.open(path, os.O_RDWR | os.O_CREAT)
        try:
            check_regular(marks._descriptor, path)
            raw = marks.disk.read(marks._descriptor, _MARKS.size)
        except OSError:
            marks.close()
            raise
        if len(raw) == _MARKS.size:
            marks.log, marks.queues = (max(0, mark) for mark in _MARKS.unpack(raw))
            marks.is_known = True
        return marks

    def write(self) -> None:
        with contextlib.suppress(OSError):  # a full disk: a simulated power loss then erases more than necessary
            self.disk.write(self._descriptor, _MARKS.pack(self.log, self.queues), 0)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@attrs.define(eq=False)
class FlushJob:
    """Syncs a range of the log or of the queues.

    Call `run` in any thread: it blocks, and raises OSError if a sync fails. Or call each of `steps` in order, and pass
    their errors to `failed`. Then pass the job to `MessageStore.flushed`. Drop a failed job: the next one covers the
    same range and rewrites it first.
    """

    target: int  # commit log offset that is synced, or below which all queue entries are, once it ran
    syncs: Sequence[Callable[[], None]]
    epoch: int = 0  # how often the log had been truncated when the job was made
    log_stored_at: int | None = None  # of a job for the log: store time of the last message before `target`
    checkpoint: Checkpoint | None = None  # written after all else is synced, by some jobs for the queues
    positions: Sequence[tuple[ConsumeQueue, int]] = ()  # how far each queue will be synced
    full_indexes: int = 0  # how many index files that became full are among them
    has_index: bool = False  # whether any index file is among them
    error: str = attrs.field(default="", init=False)  # why it failed; the exception itself would keep mappings alive

    @property
    def steps(self) -> list[Callable[[], None]]:
        """The functions to call, in this order."""
        return [*self.syncs, *([self.checkpoint.write] if self.checkpoint is not None else [])]

    def run(self) -> None:
        try:
            for step in self.steps:
                step()
        except OSError as exc:
            self.failed(exc)
            raise

    def failed(self, exc: OSError) -> None:
        """Record the error of a step."""
        self.error = exc.strerror or str(exc)


@attrs.define(eq=False)
class Flusher:
    """Makes flush jobs for all bytes that are not durable yet."""

    log: CommitLog
    queues: Queues
    index: Index | None
    checkpoint: Checkpoint
    marks: FlushedMarks
    saved: Checkpoint | None = None  # content of the checkpoint's file, if known
    is_index_unsafe: bool = attrs.field(default=False, init=False)
    """Set when an index file could not be synced: until a restart no index file counts as durable."""
    _suspect_to: int = attrs.field(default=0, init=False)
    """End of the log bytes that a failed sync may have marked clean without writing. They start at the flushed mark."""
    _suspect_queues: dict[ConsumeQueue, int] = attrs.field(factory=dict, init=False)
    """The same for queues: end positions by queue. The bytes start at the queue's flushed position."""
    _log_job: FlushJob | None = attrs.field(default=None, init=False)
    _queues_job: FlushJob | None = attrs.field(default=None, init=False)
    _epoch: int = attrs.field(default=0, init=False)

    @property
    def error(self) -> str:
        """Why the last flush of the log failed; empty if it did not."""
        return self._log_job.error if self._log_job is not None else ""

    def begin(self, log_end: int, dispatched: int, *, crashed: bool) -> None:
        """Set what is on disk after a start.

        All after a clean stop, otherwise what the marks say.
        """
        marks = self.marks
        if not crashed:
            marks.log, marks.queues = log_end, dispatched
        marks.queues = min(marks.queues, dispatched)
        self.cut(log_end)
        if crashed and marks.is_known:
            self.suspect(log_end)
        self.log.note_synced(marks.log)

    def suspect(self, log_end: int) -> None:
        """Rewrite the log up to `log_end` before it counts as synced.

        Another process may have failed to sync it.
        """
        self._suspect_to = max(self._suspect_to, log_end)

    def log_job(self, stored_at: int) -> FlushJob | None:
        """Return a job that syncs the log; None if all of it is synced.

        `stored_at` is the store time of the log's last message, in ms.
        """
        flushed, target = self.marks.log, self.log.written_end
        if target <= flushed:
            return None
        if self._log_job is not None and self._log_job.error:
            self.suspect(min(self._log_job.target, target))
        if self._suspect_to > flushed:
            try:
                rewritten = self._rewrite_log()
            except FAILURES:  # a file of a queue, which is needed to find a record's begin
                rewritten = flushed
            if rewritten < self._suspect_to:
                target, stored_at = rewritten, self.checkpoint.physic_msg_timestamp
        grown = [file.sync_again for file in self.log.files_grown_beyond(flushed)]
        if target <= flushed:
            grown = [partial(_refuse, f"the disk lost the log at {flushed}: nothing beyond counts as synced")]
        self._log_job = FlushJob(target, grown, self._epoch, log_stored_at=stored_at)
        return self._log_job

    def _rewrite_log(self) -> int:
        """Rewrite the next part of the suspect bytes.

        Return the offset up to which they are whole records and were rewritten.
        """
        flushed = self.marks.log
        whole = self._whole_to(min(self._suspect_to, flushed + _REWRITTEN_AT_ONCE))
        for file in self.log.all_files:
            start, end = (min(max(0, at - file.first_offset), file.wrote) for at in (flushed, whole))
            file.rewrite(start, end)
        return whole

    def _whole_to(self, limit: int) -> int:
        """Return the end of the whole records from the flushed mark on, up to `limit`.

        The last one may end after `limit`.
        """
        at, why = self._record_start(self.marks.log), Walk.BLANK
        while at < limit and why is Walk.BLANK and (file := self.log.file_at(at)) is not None:
            first, view = file.first_offset, file.view[: file.wrote]
            end, why = self.log.walk(view, at - first, limit - first)
            view.release()
            at = first + end
            if why is Walk.BLANK or end == file.size:
                at, why = first + file.size, Walk.BLANK
        return min(at, self.log.written_end)

    def _record_start(self, offset: int) -> int:
        """Return the start of the record at or after an offset.

        A slave may have flushed a part of a record.
        """
        if self.log.begins_record(offset):
            return offset
        before = self.queues.record_before(offset)
        return max(self.log.min_offset, sum(before) if before is not None else 0)

    def queues_job(
        self, dispatched: int, stored_at: int, *, least_pages: int = 0, at_stop: bool = False
    ) -> FlushJob | None:
        """Return a job for queues that grew by `least_pages` or whose file is full.

        With `least_pages` 0, the job covers all queues and writes the checkpoint. It also syncs index files that are
        full, and at a stop all index files (section 3.3); then it writes the checkpoint, too.
        """
        self._note_failed_queues()
        dirty = [queue for queue in self.queues if queue.is_dirty_by(least_pages)]
        rewritten = [self._rewrite_queue(queue) for queue in dirty]
        syncs: list[Callable[[], None]] = [partial(_refuse, why) for why in rewritten if why is not None]
        syncs += [file.sync for queue in dirty for file in queue.dirty_files()]
        positions = [(queue, queue.files.max_offset) for queue in dirty]
        checkpoint, full, index_files = attrs.evolve(self.checkpoint), 0, list[IndexFile]()
        if self.index is not None:
            full = len(self.index.full)
            index_files = self.index.files if at_stop else self.index.full
            syncs += [file.file.sync for file in index_files]
            if full and not self.is_index_unsafe:
                checkpoint.index_msg_timestamp = self.index.full[-1].end_timestamp
        covers_all = least_pages == 0
        if covers_all:
            checkpoint.logics_msg_timestamp = stored_at or checkpoint.logics_msg_timestamp
        is_moved = checkpoint != self.saved and (covers_all or full > 0)
        if not (syncs or is_moved or (covers_all and dispatched > self.marks.queues)):
            return None
        self._queues_job = FlushJob(
            dispatched if covers_all else self.marks.queues,
            syncs,
            self._epoch,
            checkpoint=checkpoint if is_moved else None,
            positions=positions,
            full_indexes=full,
            has_index=bool(index_files),
        )
        return self._queues_job

    def _note_failed_queues(self) -> None:
        job = self._queues_job
        if job is None or not job.error:
            return
        self._queues_job = None
        for queue, position in job.positions:
            self._suspect_queues[queue] = max(self._suspect_queues.get(queue, 0), position)
        self.is_index_unsafe = self.is_index_unsafe or job.has_index

    def _rewrite_queue(self, queue: ConsumeQueue) -> Exception | None:
        """Rewrite the range of a failed sync of a queue.

        Return the error if its file cannot be opened.
        """
        to = self._suspect_queues.get(queue, 0)
        try:
            for file in queue.dirty_files() if to > queue.flushed else ():
                start, end = (min(max(0, at - file.first_offset), file.wrote) for at in (queue.flushed, to))
                file.rewrite(start, end)
        except FAILURES as exc:
            return exc
        self._suspect_queues.pop(queue, None)
        return None

    def done(self, job: FlushJob) -> None:
        """Apply a job that succeeded. A job made before the log was truncated is ignored."""
        if job.epoch != self._epoch:
            if job.checkpoint is not None:  # it is of the log before the truncation
                self.save_checkpoint()
            return
        if job.log_stored_at is not None:
            self.marks.log = max(self.marks.log, job.target)
            stored_at = max(self.checkpoint.physic_msg_timestamp, job.log_stored_at)
            self.checkpoint.physic_msg_timestamp = stored_at
            self.log.note_synced(self.marks.log)
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

    def save_checkpoint(self) -> None:
        """Write the checkpoint as it is now.

        If the disk refuses, the next flush of all queues does it.
        """
        self.saved = None
        with contextlib.suppress(OSError):
            self.checkpoint.write()

    def cut(self, log_end: int) -> None:
        """Lower the marks to the end of a truncated log."""
        self._epoch += 1
        self._suspect_to = min(self._suspect_to, log_end)
        self.marks.log = min(self.marks.log, log_end)
        self.marks.queues = min(self.marks.queues, log_end)
        self.marks.write()
        for queue in self.queues:
            queue.flushed = min(queue.flushed, queue.files.max_offset)


def _refuse(why: object) -> None:
    """Raise EIO with this text: a step that fails a job as a failed sync does."""
    raise OSError(errno.EIO, str(why))
