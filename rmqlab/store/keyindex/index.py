"""Find messages by key, in a sequence of index files (section 3.3).

A file fills up and is followed by the next; it is named by the local time of its creation.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs

from rmqlab.runtime.text.localtime import local_time
from rmqlab.store.files.claim import CompletenessClaim
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.diskcalls import DiskCalls
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.keyindex.indexfile import IndexFile
from rmqlab.store.keyindex.indexkeys import IndexEntry

logger = logging.getLogger(__name__)


@attrs.define(eq=False)
class Index:
    """All index files."""

    directory: Path
    slots: int
    max_index: int
    disk: Disk
    now_millis: Callable[[], int]
    files: list[IndexFile] = attrs.field(factory=list, init=False)
    full: list[IndexFile] = attrs.field(factory=list, init=False)  # waiting for their flush
    is_any_lost: bool = attrs.field(default=False, init=False)
    """True if a file could not be used. It may have had the newest entries, whatever its name."""

    def load(self, claim: CompletenessClaim, *, crashed: bool) -> int:
        """Map the files in the log's order; the clock of their names may have jumped.

        After an unclean stop, files with entries younger than the checkpoint are deleted (store-ha#27). Returns the
        commit log offset of the last indexed record, also if its file was deleted. OSError.
        """
        reached, lost = 0, list[tuple[Path, IndexFile | None]]()
        for path in self.disk.list_directory(self.directory):
            if not path.name.isdecimal():
                continue
            file = self._load_file(path)
            if file is None or not file.is_sane:
                lost.append((path, file))
                continue
            reached = max(reached, file.end_physical)
            if crashed and file.end_timestamp > claim.read.index_msg_timestamp:
                file.file.discard()
            else:
                self.files.append(file)
        self.files.sort(key=lambda file: (file.end_physical, file.begin_physical))
        if lost:
            self.is_any_lost = True
            claim.withdraw(indexed_until=self.files[-1].end_timestamp if self.files else 0)
        for path, file in lost:
            self._drop(path, file)
        return reached

    def _load_file(self, path: Path) -> IndexFile | None:
        """Map one file. None for an empty file."""
        if not self.disk.file_size(path):
            return None
        return IndexFile.open(path, self.slots, self.max_index, self.disk, create=False)

    def _drop(self, path: Path, file: IndexFile | None) -> None:
        """Delete an empty or damaged file: the store works without an index (issue 12.11)."""
        logger.warning("%s is %s: it is deleted", path, "empty" if file is None else "no index file")
        if file is not None:
            file.file.discard()
        else:
            with contextlib.suppress(OSError):  # an empty file does no harm
                self.disk.unlink(path)

    def put(self, entries: Sequence[IndexEntry]) -> None:
        """Index keys in the order of the log.

        Records before that of the last entry are indexed already.
        """
        file = self.files[-1] if self.files else self._next_file()
        if entries[0][1] < file.end_physical:
            entries = [entry for entry in entries if entry[1] >= file.end_physical]
        while (room := file.max_index - file.index_count) < len(entries):
            if room > 0:
                file.put(entries[:room])
                entries = entries[room:]
            file = self._next_file()
        file.put(entries)

    def _next_file(self) -> IndexFile:
        """A new file begins with the end values of the full one before it."""
        self.disk.make_directory(self.directory)
        moment = self.now_millis()
        while self.disk.exists(path := self.directory / _name(moment)):
            moment += 1
        file = IndexFile.open(path, self.slots, self.max_index, self.disk, create=True)
        if self.files:
            last = self.files[-1]
            self.full.append(last)
            file.begin_timestamp = file.end_timestamp = last.end_timestamp
            file.begin_physical = file.end_physical = last.end_physical
        self.files.append(file)
        return file

    def search(self, hashed: int, found: list[int], limit: int, begin: int, end: int) -> Iterator[None]:
        """Add log offsets of records with this hash to `found`, newest first.

        Yields now and then. Files that are dropped meanwhile are left out.
        """
        for file in reversed(self.files[:]):
            is_right = file in self.files and file.overlaps(begin, end)
            for _ in file.search(hashed, found, limit, begin, end) if is_right else ():
                yield
                if file not in self.files:
                    return
            if file.begin_timestamp < begin or len(found) >= limit:
                return

    def cut(self, log_end: int) -> None:
        """Remove records from `log_end` on. Never raises OSError."""
        emptied = [file for file in self.files if file.cut(log_end) and file.index_count == 1]
        self.files = [file for file in self.files if file not in emptied]
        for file in emptied:
            file.file.discard()
        self.full = [file for file in self.full if file in self.files[:-1]]

    def cut_to_log(self, log_end: int, index_from: int) -> int:
        """Remove records from `log_end` on at a start; return where indexing continues.

        That is `index_from`, or the end of the files that are kept, if one was lost.
        """
        self.cut(log_end)
        return min(index_from, self.end_physical) if self.is_any_lost else index_from

    @property
    def end_physical(self) -> int:
        """Commit log offset of the last record in a file that is kept; 0 without one."""
        return self.files[-1].end_physical if self.files else 0

    def detach_all(self) -> list[LogFile]:
        """Forget all files, and return them. The caller discards them."""
        detached = [file.file for file in self.files]
        self.files, self.full = [], []
        return detached

    def deletion_of_expired(self, log_min: int) -> DiskCalls[int]:
        """Drop files that point only below the log's minimum, never the last.

        Return how many. OSError leaves the rest.
        """
        dropped = 0
        while len(self.files) > 1 and self.files[0].end_physical < log_min:
            file = self.files[0]
            yield file.file.unlink
            if file in self.files:
                self.files.remove(file)
            yield file.file.close
            dropped += 1
        return dropped

    def close(self) -> None:
        for file in self.files:
            file.file.close()


def _name(moment: int) -> str:
    """17 digits of local time (store-ha#2)."""
    local = local_time(moment)
    return f"{local.year:04d}{local:%m%d%H%M%S}{moment % 1000:03d}"
