"""A sequence of bytes in files of equal length: a commit log, a consume queue."""

import contextlib
import logging
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from rmqlab.store.files.disk import Disk
from rmqlab.store.files.diskcalls import DiskCalls, run_calls
from rmqlab.store.files.logfile import LogFile, offset_name, wrong_length
from rmqlab.store.files.openfiles import OpenFiles, QueueFile

logger = logging.getLogger(__name__)

_LAST_OFFSET: Final = 2**63 - 1


@attrs.define(eq=False)
class FileQueue:
    """The files of one sequence, oldest first. Offsets count its bytes."""

    directory: Path
    file_size: int
    disk: Disk
    first_step: int = 256 * 1024
    last_step: int = 8 * 2**20
    pool: OpenFiles | None = None
    """If set, files are mapped on demand; see `rmqlab.store.files.openfiles`. If None, they stay mapped until deleted."""
    files: list[LogFile] = attrs.field(factory=list, init=False)

    def load(self) -> None:
        """Load the existing files, in order.

        Files count as full until recovery truncates them (section 3.5).

        An empty last file was being created when its process died: it is deleted. A gap between files is logged, as in
        MappedFileQueue.checkSelf. StoreCorrupt for a file of another length.
        """
        sizes = self.disk.file_sizes(self.directory)
        names = sorted(name for name in sizes if self._is_used(name, sizes[name]))
        if names and not sizes[names[-1]]:
            logger.warning("%s is empty: it is deleted", self.directory / names[-1])
            with contextlib.suppress(OSError):  # the next file of this name replaces it
                self.disk.unlink(self.directory / names[-1])
            names.pop()
        for name in names:
            path = self.directory / name
            if sizes[name] != self.file_size:
                raise wrong_length(path, sizes[name], self.file_size)
            file = self._open(path, create=False)
            last = self.last
            if last is not None and file.first_offset != last.first_offset + last.size:
                if not any(file.read_head()):  # `LogFile.discard` could not delete it
                    logger.warning("%s does not follow %s and begins with zeros: it is deleted", path, last.path.name)
                    file.discard()
                    continue
                logger.error("%s does not follow %s: files between them are missing", path, last.path.name)
            file.wrote = file.size
            self.files.append(file)

    def _is_used(self, name: str, size: int) -> bool:
        """Return False for a file to ignore, and log it.

        It has the right length, and another name than a place has. RocketMQ accepts all numbers. A queue file between
        two places would have entries that begin within others.
        """
        if not (name.isascii() and name.isdecimal()):
            return False
        is_place = len(name) == len(offset_name(0)) and not int(name) % self.file_size and int(name) <= _LAST_OFFSET
        if is_place or size != self.file_size:  # of another length: the setting has changed, and the start must fail
            return True
        logger.warning("%s is ignored: its name is no offset of a file of %d bytes", self.directory / name, size)
        return False

    def _open(self, path: Path, *, create: bool) -> LogFile:
        size, disk, steps = self.file_size, self.disk, (self.first_step, self.last_step)
        if self.pool is None:
            return LogFile.open(path, size, disk, create=create, first_step=steps[0], last_step=steps[1])
        if create:
            return QueueFile.create(path, size, disk, self.pool, *steps)
        return QueueFile.existing(path, size, disk, self.pool, *steps)

    @property
    def last(self) -> LogFile | None:
        return self.files[-1] if self.files else None

    @property
    def min_offset(self) -> int:
        return self.files[0].first_offset if self.files else 0

    @property
    def max_offset(self) -> int:
        files = self.files
        return files[-1].first_offset + files[-1].wrote if files else 0  # `end_offset`, in fewer calls: a hot path

    def file_at(self, offset: int) -> LogFile | None:
        """The file that holds this offset, written or not."""
        at = bisect_right(self.files, offset, key=lambda file: file.first_offset) - 1
        if at < 0:
            return None
        file = self.files[at]
        return file if offset < file.first_offset + file.size else None

    def file_to_write(self, first_offset: int = 0) -> LogFile:
        """Return the last file if it has space, else a new one.

        The very first file contains `first_offset`.
        """
        if not self.files:
            return self.add(first_offset - first_offset % self.file_size)
        last = self.files[-1]
        return self.add(last.first_offset + last.size) if last.is_full else last

    def add(self, first_offset: int) -> LogFile:
        if not self.files:
            self.disk.make_directory(self.directory)
        file = self._open(self.directory / offset_name(first_offset), create=True)
        self.files.append(file)
        return file

    def trim(self, end: int) -> None:
        """Truncate at `end`.

        Bytes are not cleared; later files are deleted. Never raises OSError.
        """
        for file in self.detach_behind(end):
            file.discard()

    def drop_empty_last(self) -> None:
        """Delete the last file if it is empty and others are left. Never raises OSError."""
        if len(self.files) > 1 and not self.files[-1].wrote:
            self.files.pop().discard()

    def detach_behind(self, end: int) -> list[LogFile]:
        """Truncate at `end`, and return the later files, newest first.

        The caller deletes them, in a thread if it likes, before a file of their names is made.
        """
        detached: list[LogFile] = []
        while self.files and end < self.files[-1].first_offset:
            detached.append(self.files.pop())
        for file in self.files:
            file.wrote = min(file.wrote, end - file.first_offset)
        return detached

    def detach_all(self) -> list[LogFile]:
        """Forget all files, and return them, newest first. The caller deletes them."""
        detached, self.files = self.files[::-1], []
        return detached

    def drop_first(self) -> None:
        """Delete the oldest file. After an OSError no file has changed."""
        run_calls(self.deletion_of_first())

    def deletion_of_first(self, on_dropped: Callable[[], object] = lambda: None) -> DiskCalls[None]:
        """Yield the calls that delete the oldest file.

        After an OSError no file has changed. `on_dropped` is called when the file is no part of the queue any more.
        """
        file = self.files[0]
        yield file.unlink
        if self.files and self.files[0] is file:
            del self.files[0]
            on_dropped()
        if self.pool is None:
            yield file.close
        else:  # small, and the pool is of the calling thread
            file.close()

    def close(self) -> None:
        for file in self.files:
            file.close()

    def destroy(self) -> None:
        """Delete all files, and the directory if it is empty then.

        Never raises OSError: a file that stays counts as empty.
        """
        for file in self.detach_all():
            file.discard()
        with contextlib.suppress(OSError):  # not empty, missing, or refused: it does no harm
            self.disk.remove_directory(self.directory)
