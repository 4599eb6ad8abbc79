"""The log of one member: entries in data files, their places in index files.

Sections 1 and 7. Roles and terms are checked by the caller: the store only keeps entries in order. Methods raise
DLedgerError with the code that DLedger's own store has, and OSError where the disk fails; both leave the log as it was.
"""

import contextlib
import errno
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Self

import attrs

from rmqlab.dledger import keyvalues
from rmqlab.dledger.codes import DLedgerCode, DLedgerError
from rmqlab.dledger.entry import HEADER, MAX_ENTRY, MIN_BLANK, UNIT, Entry, EntryHeader, IndexUnit, blank
from rmqlab.dledger.logcut import LogCut
from rmqlab.dledger.recovery import BodyChecks, cut, last_ending_by, recover, unit_at, zero
from rmqlab.store.files.disk import Disk, StoreCorrupt
from rmqlab.store.files.diskcalls import DiskCalls
from rmqlab.store.files.filequeue import FileQueue
from rmqlab.store.files.logfile import LogFile

INDEX_FILE_SIZE: Final = 5 * 1024 * 1024 * UNIT.size
"""Bytes; a broker has no setting for it."""
CHECKPOINT: Final = "checkpoint"

Prepare = Callable[[int, bytes], bytes]
"""Returns the body to store, from the entry's position and the given body: the AppendHook of a broker."""


@attrs.define(eq=False)
class EntryStore:
    """Entries from `begin_index` to `end_index`; both are -1 while the log is empty."""

    directory: Path
    data: FileQueue
    index: FileQueue
    disk: Disk
    cut: LogCut
    begin_index: int = -1
    end_index: int = -1
    end_term: int = -1
    committed_index: int = -1
    """The last committed entry that is known here. `cut_at` leaves it (dledger#46): see `lower_commit`."""
    committed_end: int = -1
    """Position behind that entry: readers see bytes before it."""
    begin_position: int = 0
    """Position of the first entry: the start of the first file, except after a truncate beyond the log."""
    _is_commit_unsaved: bool = False
    """True while the checkpoint's file may have a committed index that was lowered."""
    cut_to: int | None = None
    """Least position at which the log was cut; None once the owner's queues have no entry behind it."""
    synced_end: int = 0
    """Position in the data files before which all is on disk. `flush` raises it, or an owner that syncs itself."""
    is_full: bool = False
    """True while the owner finds the disk too full: appends are refused, truncates are not (dledger#59)."""

    @classmethod
    def open(
        cls,
        directory: Path,
        data_file_size: int,
        index_file_size: int = INDEX_FILE_SIZE,
        disk: Disk | None = None,
        checks: BodyChecks | None = None,
    ) -> Self:
        """Open and recover the log below `dledger-<selfId>` (dledger#1).

        `checks` as in `recover`. StoreCorrupt for a file of another length or a gap between files, OSError.
        """
        disk = disk or Disk()
        data = FileQueue(directory / "data", data_file_size, disk)
        index = FileQueue(directory / "index", index_file_size, disk)
        data.load()
        index.load()
        store = cls(directory, data, index, disk, LogCut(data))
        end = recover(data, index, checks or BodyChecks())
        store.end_index, store.end_term = end.index, end.term
        store.begin_position = data.min_offset
        if end.index >= 0:
            store._find_begin()
        store._load_checkpoint()
        return store

    def start_at(self, position: int) -> None:
        """Let the first entry of an empty log begin at a file's begin. OSError."""
        self.data.add(position)
        self.begin_position = position

    def close(self) -> None:
        """Sync the files, write the checkpoint, unmap."""
        self.flush()
        self.save_checkpoint()
        self.unmap()

    def unmap(self) -> None:
        """Close the files as they are."""
        self.data.close()
        self.index.close()

    # ---- reads ----

    def get(self, number: int) -> Entry:
        """Return an entry, committed or not. DLedgerError outside of the log (dledger#45)."""
        if number < 0 or number > self.end_index:
            raise DLedgerError(DLedgerCode.INDEX_OUT_OF_RANGE, f"{number} is not in {self._range}")
        if number < self.begin_index:
            raise DLedgerError(DLedgerCode.INDEX_LESS_THAN_LOCAL_BEGIN, f"{number} is not in {self._range}")
        unit = unit_at(self.index, number)
        file = self.data.file_at(unit.pos) if unit else None
        if unit is None or file is None or unit.number != number or unit.size < HEADER.size:
            raise DLedgerError(DLedgerCode.DISK_ERROR, f"entry {number} has no place in the files")
        at = unit.pos - file.first_offset
        entry = Entry.decode(file.view[at : at + unit.size])
        if entry.unit != unit:
            raise DLedgerError(DLedgerCode.DISK_ERROR, f"entry {number} at {unit.pos} is entry {entry.index}")
        return entry

    @property
    def _range(self) -> str:
        return f"{self.begin_index} to {self.end_index}"

    # ---- appends ----

    def append(self, term: int, body: bytes, prepare: Prepare | None = None) -> Entry:
        """Append a body as the next entry of a leader's term (dledger#45).

        Return the entry. `prepare` may change the body, not its length.
        """
        self._check_room()
        with self._undone_after_error():
            position = self._begin_entry(HEADER.size + len(body))
            stored = prepare(position, body) if prepare else body
            entry = Entry(index=self.end_index + 1, term=term, pos=position, body=stored)
            self._write(entry)
        return entry

    def append_entry(self, entry: Entry) -> None:
        """Append a leader's entry as it is (dledger#45).

        DLedgerError: DISK_FULL, INCONSISTENT_INDEX if it is not the next one, INCONSISTENT_TERM if its term is less
        than that of the one before, DISK_ERROR if it is for another position. A leader whose disk failed once may begin
        a file although the entry fits into the one before. Members of DLedger reject that entry forever.
        """
        self._check_room()
        if entry.index != self.end_index + 1:
            raise DLedgerError(DLedgerCode.INCONSISTENT_INDEX, f"entry {entry.index} after {self.end_index}")
        if entry.term < self.end_term:
            raise DLedgerError(DLedgerCode.INCONSISTENT_TERM, f"an entry of term {entry.term} after {self.end_term}")
        with self._undone_after_error():
            self._write_next(entry)

    # ---- truncation ----

    def cut_at(self, entry: Entry) -> bool:
        """Cut the log for a leader's entry (section 7.2). True if the log had it.

        An equal own entry stays, and is the last one. Otherwise the log is emptied: `place` lets it begin with the
        entry. A leader sends another entry than an own one only if it is its first, and what the log has before it may
        differ from what the leader had. DLedger keeps it.

        Appends are refused until the calls of `completion_of_cut` have been made.

        DLedgerError(DISK_ERROR) for an entry that does not fit into its file at its position.
        """
        if entry.pos % self.data.file_size + entry.size + MIN_BLANK > self.data.file_size:
            raise DLedgerError(DLedgerCode.DISK_ERROR, f"{entry.size} bytes do not fit into a file at {entry.pos}")
        is_own = self._has(entry)
        if is_own:
            self._cut_behind(entry)
        else:
            self._empty(entry.pos)
        return is_own

    def _cut_behind(self, entry: Entry) -> None:
        """Make an own entry the last one."""
        written = self.data.max_offset
        self._note_cut(entry.end)
        detached = [*self.data.detach_behind(entry.end), *self.index.detach_behind((entry.index + 1) * UNIT.size)]
        self.end_index, self.end_term = entry.index, entry.term
        if entry.end < written:
            self.cut.begin(written, detached)

    def _empty(self, begin: int) -> None:
        """Forget all entries: the log is to begin at another position."""
        self._note_cut(begin)
        self.cut.begin(0, [*self.data.detach_all(), *self.index.detach_all()])
        self.begin_index = self.end_index = self.end_term = -1
        self.begin_position = begin

    def _note_cut(self, end: int) -> None:
        self.synced_end = min(self.synced_end, end)
        self.cut_to = end if self.cut_to is None else min(self.cut_to, end)

    def completion_of_cut(self) -> DiskCalls[None]:
        """Yield the calls that make a lowered commit and a cut durable.

        OSError: call it again later. Until it has ended, nothing else may call `save_checkpoint`.
        """
        if self._is_commit_unsaved:
            yield functools.partial(self.save_checkpoint, is_synced=True)
        yield from self.cut.completion()

    def place(self, entry: Entry) -> None:
        """Let an empty log begin with a leader's entry. OSError leaves it empty."""
        self._check_durable()
        with self._undone_after_error():
            cut(self.data, entry.pos)
            cut(self.index, entry.index * UNIT.size)
            self._write(entry)

    def _check_room(self) -> None:
        if self.is_full:
            raise DLedgerError(DLedgerCode.DISK_FULL, f"the disk of {self.directory} is too full")
        self._check_durable()

    def _check_durable(self) -> None:
        if self.cut.is_pending:
            raise DLedgerError(DLedgerCode.DISK_ERROR, f"the disk of {self.directory} has not synced the log's cut")

    def _zero_until(self, written: int) -> None:
        """Zero the last file's bytes that were written before a cut."""
        if (file := self.data.last) is not None:
            zero(file, file.wrote, min(max(file.wrote, written - file.first_offset), file.size))

    def _has(self, entry: Entry) -> bool:
        try:
            return self.get(entry.index) == entry
        except DLedgerError:
            return False

    def _begin_entry(self, size: int, wanted: int = -1) -> int:
        """Return the position of the next entry, in a new file if needed (dledger#3).

        Also in a new file if `wanted` is there. No leader leaves more free than the largest entry needs.
        """
        if size + MIN_BLANK > self.data.file_size:
            raise DLedgerError(DLedgerCode.DISK_ERROR, f"{size} bytes do not fit into a file of {self.data.file_size}")
        file = self.data.file_to_write()
        left = file.size - file.wrote
        is_wanted = wanted == file.first_offset + file.size and left < MAX_ENTRY + MIN_BLANK
        if size + MIN_BLANK > left or is_wanted:
            self.data.file_to_write().append(blank(left))
            file = self.data.file_to_write()
        return file.end_offset

    @contextlib.contextmanager
    def _undone_after_error(self) -> Iterator[None]:
        """Cut what was written since, a blank included, if the block raises.

        Behind a blank, a leader's next entry would begin a file although it fits into the one before. The system may
        have written the bytes to disk already, so the zeros must be synced, as those of any cut.
        """
        end, units = self.data.max_offset, self.index.max_offset
        try:
            yield
        except (DLedgerError, OSError):
            written = self.data.max_offset
            self.data.trim(end)
            self.index.trim(units)
            self._zero_until(written)
            if written > end:
                self.cut.begin(written, [])
            raise

    def _write_next(self, entry: Entry) -> None:
        position = self._begin_entry(entry.size, entry.pos)
        if entry.pos != position:
            raise DLedgerError(DLedgerCode.DISK_ERROR, f"entry {entry.index} is for {entry.pos}, not {position}")
        self._write(entry)

    def _write(self, entry: Entry) -> None:
        self.data.file_to_write().append(entry.encode())
        self.index.file_to_write().append(entry.unit.encode())
        self.end_index, self.end_term = entry.index, entry.term
        if self.begin_index == -1:
            self.begin_index = entry.index
            self.begin_position = entry.pos

    # ---- begin ----

    def deletion_of_first_file(self) -> DiskCalls[None]:
        """Yield the calls that delete the oldest data file.

        And index files before the new begin. OSError, also if the next file does not begin with a later entry.
        """
        following = self.data.files[1]
        number = EntryHeader.decode(following.view).number
        if not self.begin_index < number <= self.end_index:
            raise OSError(errno.EIO, f"begins with entry {number}, expected a later one", str(following.path))
        yield from self.data.deletion_of_first(lambda: self._begin_later(number))
        with contextlib.suppress(OSError):  # the next deletion, or the next start, tries again
            while self._has_expired_index:
                yield from self.index.deletion_of_first()

    def _begin_later(self, number: int) -> None:
        if number <= self.end_index:  # no leader cut it meanwhile
            self.begin_index, self.begin_position = number, self.data.min_offset

    @property
    def _has_expired_index(self) -> bool:
        """True if the first index file has entries before the begin only."""
        files = self.index.files
        return len(files) > 1 and files[1].first_offset <= self.begin_index * UNIT.size

    def _find_begin(self) -> None:
        """Read which entry is the first one. StoreCorrupt if the log has no such entry."""
        file = self.data.files[0]
        number = EntryHeader.decode(file.view, self.begin_position - file.first_offset).number
        if not 0 <= number <= self.end_index:
            raise StoreCorrupt(
                f"{file.path} begins with entry {number} of a log that ends with {self.end_index}: restore it,"
                f" or delete {file.path.parent} to get all entries from the leader"
            )
        self.begin_index = number
        while self._has_expired_index:
            self.index.drop_first()

    # ---- committed index, checkpoint ----

    def commit(self, number: int) -> bool:
        """Raise the committed index, at most to the end. True if it changed (dledger#47).

        The caller ignores reports of terms before its own.
        """
        if self.end_index == -1 or number < max(self.committed_index + 1, self.begin_index):
            return False
        number = min(number, self.end_index)
        unit = unit_at(self.index, number)
        if unit is None:
            raise DLedgerError(DLedgerCode.DISK_ERROR, f"entry {number} has no place in the files")
        self.committed_index, self.committed_end = number, unit.pos + unit.size
        return True

    def lower_commit(self, number: int) -> None:
        """Lower the committed index to `number`; `completion_of_cut` writes it.

        To -1 if the log has no such entry.
        """
        if number >= self.committed_index:
            return
        unit = unit_at(self.index, number) if number >= self.begin_index else None
        self.committed_index, self.committed_end = (number, unit.pos + unit.size) if unit is not None else (-1, -1)
        self._is_commit_unsaved = True

    @property
    def synced_index(self) -> int:
        """The last entry that is on disk; the one before the begin, if none is."""
        if self.synced_end >= self.data.max_offset:
            return self.end_index
        return last_ending_by(self.index, max(0, self.begin_index), self.end_index, self.synced_end)

    def flush(self) -> None:
        """Sync all files that were written since the last call (dledger#51). OSError."""
        end = self.data.max_offset
        for file in self.grown_files(self.synced_end):
            file.sync()
        self.synced_end = end

    def grown_files(self, synced_end: int) -> list[LogFile]:
        """Return the files that have grown since the data files ended at a position."""
        grown = [file for file in self.data.files if file.end_offset > synced_end]
        for file in reversed(self.index.files if grown else []):
            grown.append(file)
            if file.wrote and IndexUnit.decode(file.view).pos < synced_end:
                break
        return grown

    def save_checkpoint(self, *, is_synced: bool = False) -> None:
        """Write end and committed index (dledger#6, #51). OSError.

        A lowered index must be synced: after a power loss, entries that follow would count as committed.
        """
        pairs = {"committedIndex": self.committed_index, "endIndex": self.end_index}
        keyvalues.save(self.disk, self.directory / CHECKPOINT, pairs, is_synced=is_synced)
        self._is_commit_unsaved = False

    def _load_checkpoint(self) -> None:
        """Read the committed index.

        One behind the end is lowered on disk, too: other entries may follow. OSError, StoreCorrupt.
        """
        path = self.directory / CHECKPOINT
        number = keyvalues.number(keyvalues.load(self.disk, path), "committedIndex", path, -1)
        self.commit(number)
        if number > self.committed_index:
            self.save_checkpoint(is_synced=True)
