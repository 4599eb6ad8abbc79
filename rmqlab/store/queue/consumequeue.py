"""One queue of one topic: 20-byte entries that point into the commit log.

Sections 3.1 and 3.2.
"""

import errno
import logging
import struct
from bisect import bisect_left
from collections.abc import Callable
from typing import Final

import attrs

from rmqlab.store.config import QUEUE_ENTRY_SIZE
from rmqlab.store.files.diskcalls import DiskCalls
from rmqlab.store.files.filequeue import FileQueue
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.files.sparse import zero_from
from rmqlab.store.queue.heldentries import FAILURES, HeldEntries, concerns_one_queue
from rmqlab.store.queue.queueend import OFFSET_AND_SIZE, find_end, offset_at, offset_of_each, unchecked_files

logger = logging.getLogger(__name__)

ENTRY: Final = struct.Struct(">qiq")  # commit log offset, record size, tags code
PRE_BLANK_SIZE: Final = 0x7FFFFFFF
"""Size field of a blank entry. Blank entries fill the start of a queue file and point at no record."""
_PRE_BLANK: Final = ENTRY.pack(0, PRE_BLANK_SIZE, 0)
LAST_POSITION: Final = 2**62
"""Maximum position of an entry, in bytes. Only hostile or damaged records have positions beyond it."""
NOT_PENDING: Final = -(2**64)
"""Value of `pending_offset` without pending entries."""
_PAGE_SIZE: Final = 4096


@attrs.define(eq=False)
class ConsumeQueue:
    """A queue: positions are in bytes, queue offsets count entries."""

    topic: str
    queue_id: int
    files: FileQueue
    stuck: "dict[ConsumeQueue, None]" = attrs.field(factory=dict)
    """All queues of the store that have `held` entries; shared by them."""
    held: HeldEntries | None = attrs.field(default=None, init=False)
    """Entries that could not be written while the dispatcher continued. They precede all later entries."""
    next_offset: int = attrs.field(default=0, init=False)  # queue offset that the next put gets (section 2.6)
    max_physical: int = attrs.field(default=-1, init=False)  # end of the last record entered
    min_position: int = attrs.field(default=0, init=False)  # bytes; RocketMQ's minLogicOffset
    flushed: int = attrs.field(default=0, init=False)  # bytes of the queue known durable
    is_damaged: bool = attrs.field(default=False, init=False)  # recovery dropped entries that a clean stop had left
    is_rebuilt: bool = attrs.field(default=False, init=False)  # a start dispatches dropped entries again
    _first_physical: int = attrs.field(default=-1, init=False)  # log offset of the entry at `min_position`, if known
    # Filled by a dispatch pass, written by `append_pending`.
    pending: list[bytes] = attrs.field(factory=list, init=False)
    pending_offset: int = attrs.field(default=NOT_PENDING, init=False)  # queue offset that would continue `pending`

    @property
    def min_offset(self) -> int:
        return self.min_position // QUEUE_ENTRY_SIZE

    @property
    def max_offset(self) -> int:
        files = self.files.files
        return files[-1].end_offset // QUEUE_ENTRY_SIZE if files else 0

    @property
    def end_offset(self) -> int:
        """The queue offset after the last entry, written or held."""
        return self.held.end if self.held is not None else self.max_offset

    def append(self, queue_offset: int, physical_offset: int, size: int, tags_code: int) -> bool:
        """Enter one record. False if it is present already, and was skipped (store-ha#21).

        OSError if the disk has no room. If only this queue fails, the entry is held: see `write_held`.
        """
        if physical_offset + size <= self.max_physical:
            return False
        files, position = self.files.files, queue_offset * QUEUE_ENTRY_SIZE
        file: LogFile | None = files[-1] if files else None
        try:
            if file is None or file.wrote >= file.size or file.first_offset + file.wrote != position:
                file = self._file_for(position)
                if file is None:
                    return False
            at = file.wrote
            end = at + QUEUE_ENTRY_SIZE
            if end > file.room:
                file.ensure_room(end)
        except FAILURES as problem:
            self._hold(problem, queue_offset, ENTRY.pack(physical_offset, size, tags_code))
            return True
        ENTRY.pack_into(file.map, at, physical_offset, size, tags_code)
        file.wrote = end
        self.max_physical = physical_offset + size
        return True

    def _file_for(self, position: int) -> LogFile | None:
        """Return the file for an entry that does not continue the last file.

        None if the queue already has the entry, or if its offset is out of range: RocketMQ continues from a negative
        offset, from which no consumer can pull.

        OSError also while entries are held: those are written first.
        """
        if self.held is not None:
            raise BlockingIOError(errno.EAGAIN, "entries before it are held")
        if not 0 <= position < LAST_POSITION:
            logger.error("%s-%d: entry %d is out of range", self.topic, self.queue_id, position // QUEUE_ENTRY_SIZE)
            return None
        if self.is_rebuilt and position == 0:  # its topic was deleted and created again: former entries are not of it
            self.files.destroy()
            self.min_position, self._first_physical, self.flushed = 0, -1, 0
        first = not self.files.files
        file = self.files.file_to_write(position)
        if first or (len(self.files.files) == 1 and file.wrote == 0 and file.first_offset == self.min_position == 0):
            try:
                self._pre_blank(file, position)
            except OSError:  # the next try begins in the same state: an empty first file would move the entry
                if first:
                    self.files.files.pop().delete()
                raise
        if position < file.end_offset:
            logger.warning(
                "%s-%d: entry %d is already present", self.topic, self.queue_id, position // QUEUE_ENTRY_SIZE
            )
            return None
        if position > file.end_offset:
            logger.error(
                "%s-%d: entry %d comes after %d: entered there", self.topic, self.queue_id,
                position // QUEUE_ENTRY_SIZE, file.end_offset // QUEUE_ENTRY_SIZE,
            )  # fmt: skip
        return file

    def _pre_blank(self, file: LogFile, position: int) -> None:
        """Fill the first file with blank entries before `position`.

        A queue that begins in mid-log has no messages there: the blank entries point at no record.
        """
        size = position - file.first_offset
        if not 0 < size < file.size:
            self.min_position = max(self.min_position, file.first_offset)
            return
        file.ensure_room(size)
        file.map[:size] = _PRE_BLANK * (size // QUEUE_ENTRY_SIZE)
        file.wrote = size
        self.min_position = position

    def append_pending(self) -> None:
        """Write the entries that a dispatch pass collected.

        On OSError, entries already written stay and the others are dropped; dispatch collects them again.
        """
        first = self.pending_offset - len(self.pending)
        entries = b"".join(self.pending)
        self.pending.clear()
        self.append_joined(first, entries)

    def append_joined(self, queue_offset: int, entries: bytes, *, is_retry: bool = False) -> None:
        """Enter consecutive records of this queue.

        OSError as `append`; a retry then holds them as well.
        """
        position = queue_offset * QUEUE_ENTRY_SIZE
        at = max(0, -position)  # entries before 0 are dropped
        while at < len(entries):
            files = self.files.files
            file = files[-1] if files else None
            try:
                if file is None or file.wrote >= file.size or file.end_offset != position + at or self.held is not None:
                    file = self._file_for(position + at)
                    if file is None:
                        return
                start = file.wrote
                end = min(file.size, start + len(entries) - at)
                file.ensure_room(end)
            except FAILURES as problem:
                self._hold(problem, queue_offset + at // QUEUE_ENTRY_SIZE, entries[at:], is_retry=is_retry)
                return
            file.map[start:end] = entries[at : at + end - start]
            file.wrote = end
            at += end - start
            self.max_physical = _end_of_record(entries, at - QUEUE_ENTRY_SIZE)

    def _hold(self, problem: Exception, queue_offset: int, entries: bytes, *, is_retry: bool = False) -> None:
        """Keep entries to write later. Re-raises an error that concerns the whole disk."""
        held = self.held
        if not is_retry and (not concerns_one_queue(problem) or (held is not None and held.is_full)):
            raise problem
        if held is None:
            if not self.stuck and not is_retry:  # if there are others, they fail for the same reason
                logger.error("%s-%d and maybe others: entries wait in memory: %s", self.topic, self.queue_id, problem)
            held = self.held = HeldEntries()
            self.stuck[self] = None
        held.add(queue_offset, entries)
        self.max_physical = _end_of_record(entries, len(entries) - QUEUE_ENTRY_SIZE)

    def write_held(self) -> None:
        """Retry to write held entries. Those that cannot be written stay held, in order."""
        held, self.held = self.held, None
        self.stuck.pop(self, None)
        for first, entries in held.runs if held is not None else ():
            self.append_joined(first, bytes(entries), is_retry=True)

    # ---- reading ----

    def entries(self, queue_offset: int, limit: int) -> memoryview:
        """Return entries from `queue_offset` to the end of its file or `limit` bytes.

        Empty if the file is missing.
        """
        position = queue_offset * QUEUE_ENTRY_SIZE
        file = self.files.file_at(position) if position >= self.min_position else None
        if file is None:
            return memoryview(b"")
        at = position - file.first_offset
        return file.view[at : min(file.wrote, at + limit)]

    def entry(self, queue_offset: int) -> tuple[int, int, int] | None:
        """Commit log offset, size, tags code; None if there is no such entry."""
        raw = self.entries(queue_offset, QUEUE_ENTRY_SIZE) if queue_offset >= 0 else b""
        return ENTRY.unpack(raw) if len(raw) == QUEUE_ENTRY_SIZE else None

    def next_file_offset(self, queue_offset: int) -> int:
        """First queue offset of the next file: where to continue if a file is unreadable."""
        size = self.files.file_size
        return (queue_offset * QUEUE_ENTRY_SIZE // size + 1) * size // QUEUE_ENTRY_SIZE

    def entry_before(self, log_offset: int) -> tuple[int, int] | None:
        """Return the entry of the last record that ends at or before `log_offset`.

        Commit log offset and size of the record.
        """
        for file in reversed(self.files.files):
            entries = file.view[: file.wrote]
            at = bisect_left(range(len(entries) // QUEUE_ENTRY_SIZE), log_offset, key=offset_of_each(entries))
            while at:
                at -= 1
                physical_offset, size, _ = ENTRY.unpack_from(entries, at * QUEUE_ENTRY_SIZE)
                if size == PRE_BLANK_SIZE:
                    return None
                if physical_offset + size <= log_offset:
                    return physical_offset, size
        return None

    # ---- recovery and cleaning ----

    def recover(self, before_loss: Callable[[], object], *, complete_to: int | None) -> None:
        """Set the end to the first invalid entry (section 3.5, step 2). OSError.

        After a clean stop (`complete_to` is None) a file's entries have no gap. A crash of the machine may lose any
        pages: those after the first gap are erased. `before_loss` is called before damaged entries are dropped.
        """
        checked, crashed, after = unchecked_files(self.files.files, complete_to), complete_to is not None, -1
        end = checked[0].first_offset if checked else 0
        for file in checked:
            file.wrote, is_damaged = find_end(file, after, complete_to)
            end = file.end_offset
            if not file.is_full:
                if is_damaged or (file is not checked[-1] and not crashed):
                    self.is_damaged = True
                    before_loss()
                if crashed or self.is_damaged:
                    zero_from(file.path, file.wrote, file.disk)
                break
            after = offset_at(file.view, file.wrote // QUEUE_ENTRY_SIZE - 1)
        self.files.trim(end)
        self._find_max_physical()

    def trim_to_log(self, log_end: int) -> None:
        """Drop the entries of records at or beyond the commit log's end (store-ha#26)."""
        if 0 <= self.max_physical <= log_end:
            return
        if self.held is not None and not self.held.cut(log_end):
            self.held = None
            self.stuck.pop(self, None)
        files = self.files.files
        for file in reversed(files):
            entries = file.view[: file.wrote]
            at = bisect_left(range(len(entries) // QUEUE_ENTRY_SIZE), log_end, key=offset_of_each(entries))
            entries.release()
            if at or file is files[0]:
                self.cut(file.first_offset + at * QUEUE_ENTRY_SIZE)
                break
        self._find_max_physical()

    def cut(self, end: int) -> None:
        """Truncate at `end`.

        Unlike commit log bytes, dropped entries are zeroed: otherwise they would look valid.
        """
        self._first_physical = -1
        wrote = {file.first_offset: file.wrote for file in self.files.files}
        self.files.trim(end)
        self.files.drop_empty_last()  # the last file is never deleted with its expired entries
        last = self.files.files[-1]
        stale = wrote[last.first_offset] - last.wrote
        if stale:
            last.map[last.wrote : last.wrote + stale] = bytes(stale)
        self._find_max_physical()

    def _find_max_physical(self) -> None:
        """Set `max_physical` from the last entry that is not blank.

        Blank entries precede all others.
        """
        self.max_physical = -1
        if self.held is not None:
            self.max_physical = self.held.end_physical
            return
        last = self.entry(self.max_offset - 1)
        if last is not None and last[1] != PRE_BLANK_SIZE:
            self.max_physical = last[0] + last[1]

    def offsets_between(self, low: int, high: int) -> list[int]:
        """Commit log offsets in [low, high) that entries point to, in the queue's order."""
        found: list[int] = []
        for file in reversed(self.files.files):
            entries = file.view[: file.wrote]
            places, offset_of = range(len(entries) // QUEUE_ENTRY_SIZE), offset_of_each(entries)
            start, end = bisect_left(places, low, key=offset_of), bisect_left(places, high, key=offset_of)
            wanted = entries[start * QUEUE_ENTRY_SIZE : end * QUEUE_ENTRY_SIZE]
            found[:0] = [offset for offset, size in OFFSET_AND_SIZE.iter_unpack(wanted) if size != PRE_BLANK_SIZE]
            wanted.release()
            entries.release()
            if start:
                break
        return found

    def offset_from(self, low: int) -> int | None:
        """Return the least commit log offset of an entry, from `low` on; None without one."""
        found = None
        for file in reversed(self.files.files):
            entries = file.view[: file.wrote]
            count, offset_of = len(entries) // QUEUE_ENTRY_SIZE, offset_of_each(entries)
            at = bisect_left(range(count), low, key=offset_of)
            if at < count:
                found = offset_of(at)
            if at:
                break
        return found

    def correct_min_offset(self, log_min: int) -> None:
        """Move the minimum to the first entry whose record still exists.

        Unchanged if no record exists (section 3.2). Opens a file only if its first record has expired.
        """
        file = self.files.files[0] if self.files.files else None
        if file is None or not file.wrote:
            return
        if log_min <= 0:
            self.min_position = file.first_offset
            return
        if self.max_physical <= log_min or log_min <= self._first_physical:
            return
        entries = file.view[: file.wrote]
        count, offset_of = len(entries) // QUEUE_ENTRY_SIZE, offset_of_each(entries)
        at = bisect_left(range(count), log_min, key=offset_of)
        if at < count:
            self.min_position = file.first_offset + at * QUEUE_ENTRY_SIZE
            self._first_physical = offset_of(at)

    def deletion_of_expired(self, log_min: int) -> DiskCalls[int]:
        """Delete files whose last entry is below the log's minimum, never the last file.

        Return their number.
        """
        dropped = 0
        while len(self.files.files) > 1:
            file = self.files.files[0]
            if ENTRY.unpack_from(file.map, file.size - QUEUE_ENTRY_SIZE)[0] >= log_min:
                break
            yield from self.files.deletion_of_first()
            dropped += 1
        self.correct_min_offset(log_min)
        return dropped

    def is_dirty_by(self, pages: int) -> bool:
        """True if at least `pages` pages of the last file were begun since the flush.

        Also true if a file became full. With `pages` 0, true if any byte was written.
        """
        last = self.files.last
        if last is None or last.end_offset <= self.flushed:
            return False
        if not pages or last.is_full or self.flushed < last.first_offset:
            return True
        done = self.flushed - last.first_offset
        return last.wrote // _PAGE_SIZE - done // _PAGE_SIZE >= pages

    def dirty_files(self) -> list[LogFile]:
        return [file for file in self.files.files if file.end_offset > self.flushed]


def _end_of_record(entries: bytes, at: int) -> int:
    """Return the end of the record that the entry at this position points to."""
    offset, size = OFFSET_AND_SIZE.unpack_from(entries, at)
    return int(offset + size)
