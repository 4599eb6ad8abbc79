"""One mapped file of fixed length, named by the offset of its first byte.

Writing through a mapping into a hole of a sparse file kills the process with SIGBUS when the disk is full.
So blocks are allocated in steps ahead of the write position, and a full disk is an OSError at a known place.

Callers get views into the mapping, and must drop them before the pass of the event loop ends: a file that is deleted
meanwhile stays mapped until its last view is gone.
"""

import contextlib
import logging
import mmap
import os
import sys
import threading
from pathlib import Path

import attrs

from rmqlab.store.files.disk import Disk, StoreCorrupt
from rmqlab.store.files.fileimage import FileImage

logger = logging.getLogger(__name__)

# Faulting pages in one by one, as they are first written, costs five times as much as asking for many at once.
_POPULATE_STEP = 128 * 1024
_MADV_POPULATE_WRITE = 23  # Linux 5.14 and later
HEAD_SIZE = 40  # bytes: an index file's header, the start of a record, two entries of a queue
_WARM_STEP = 2**20  # bytes per call: some systems load no more at once
_WARM_DISTANCE = 4 * 2**20  # nearer pages would be loaded too late


def populate(mapped: mmap.mmap, start: int, end: int) -> None:
    """Bring pages in for writing, where the system can do that ahead."""
    start -= start % mmap.PAGESIZE
    with contextlib.suppress(OSError, ValueError):
        mapped.madvise(_MADV_POPULATE_WRITE, start, end - start)


def offset_name(offset: int) -> str:
    """20 digits (store-ha#1)."""
    return f"{offset:020d}"


def map_file(
    path: Path, size: int, disk: Disk, *, create: bool, is_scattered: bool, is_exact: bool = True
) -> mmap.mmap:
    """Map a file, or a new one in its place, sparse and at full length.

    See `LogFile.open`. StoreCorrupt, OSError.
    """
    mapped = _new_map(path, size, disk) if create else _existing_map(path, size, disk, is_exact=is_exact)
    if is_scattered:
        mapped.madvise(mmap.MADV_RANDOM)
    return mapped


def wrong_length(path: Path, found: int, size: int) -> StoreCorrupt:
    """Build the error for a file whose length is not the configured one."""
    return StoreCorrupt(f"{path} has {found} bytes, expected {size}: was the file size setting changed?")


@attrs.define(eq=False)
class _Descriptor:
    """Closed with the last reference to it: not while a thread syncs it."""

    number: int

    def close(self) -> None:
        if self.number >= 0:
            os.close(self.number)
            self.number = -1

    __del__ = close


@attrs.define(eq=False)
class LogFile:
    """A file of a sequence: written at its end, read through its mapping."""

    path: Path
    first_offset: int
    size: int
    first_step: int
    last_step: int
    disk: Disk
    map: mmap.mmap
    view: memoryview
    wrote: int = 0  # bytes written; position of the next one
    room: int = 0  # bytes that may be written: they have blocks on the disk, and pages in memory
    _blocks: int = attrs.field(default=0, init=False)  # bytes that have blocks on the disk
    _descriptor: int = attrs.field(default=-1, init=False)  # while `append` is used
    _synced: "_Descriptor | None" = attrs.field(default=None, init=False)  # while `sync_again` is used
    _warmed: int = attrs.field(default=0, init=False)  # position that `warm` has reached
    _has_name: bool = attrs.field(default=True, init=False)  # False: another file may have it
    _naming: threading.Lock = attrs.field(factory=threading.Lock, init=False)  # of `_has_name`, held by `unlink`

    @classmethod
    def open(
        cls,
        path: Path,
        size: int,
        disk: Disk,
        *,
        create: bool,
        first_step: int = 256 * 1024,
        last_step: int = 8 * 2**20,
        is_scattered: bool = False,
        is_exact: bool = True,
    ) -> "LogFile":
        """Map the file; create it sparse, at full length.

        StoreCorrupt if it has another length. If not `is_exact`, a shorter file is extended by zeros instead, and of a
        longer one the first bytes are used.

        A new file replaces one of its name, which is a leftover: the disk had refused to delete it. On OSError there is
        no file.

        A scattered file is one of many, or is accessed at random: a page fault should load one page only. Otherwise the
        system reads neighbouring pages, and the first byte of a new file costs 1 ms and 2 MB.
        """
        mapped = map_file(path, size, disk, create=create, is_scattered=is_scattered, is_exact=is_exact)
        first_offset = int(path.name)
        return cls(path, first_offset, size, first_step, last_step, disk, mapped, memoryview(mapped))

    @property
    def end_offset(self) -> int:
        """The end of the written bytes."""
        return self.first_offset + self.wrote

    @property
    def is_full(self) -> bool:
        return self.wrote >= self.size

    def read_head(self, size: int = HEAD_SIZE) -> bytes:
        """Return the first bytes. OSError.

        Through the mapping, a hole of a full tmpfs would end the process with SIGBUS.
        """
        return self.disk.read_start(self.path, size).ljust(size, b"\0")

    def image(self) -> contextlib.AbstractContextManager[FileImage]:
        """Return the bytes on the disk, for recovery. OSError."""
        return FileImage.open(self.path, self.disk)

    def ensure_room(self, end: int) -> None:
        """Make [0, end) safe to write.

        Raises OSError, without any change, if the disk has no room.
        """
        if end <= self.room:
            return
        self.ensure_blocks(end)
        start = max(self.room, self.wrote)
        target = min(self._blocks, max(end, start + _POPULATE_STEP))
        populate(self.map, start, target)
        self.room = target

    def append(self, data: bytes | memoryview) -> None:
        """Write bytes with a system call.

        This costs less than the page faults of a mapping, for bytes that are not written one by one. Raises OSError if
        the disk has no more room; nothing is changed then.
        """
        end = self.wrote + len(data)
        self.ensure_blocks(end)
        if self._descriptor < 0:
            self._descriptor = self.disk.open(self.path)
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self.disk.write(self._descriptor, rest, end - len(rest)) :]
        except OSError:
            # A part may contain whole records, which a start after a kill would accept as stored.
            self.map[self.wrote : end] = bytes(len(data))
            raise
        self.wrote = end
        if self.is_full:
            self.end_appends()

    def warm(self, ahead: int) -> None:
        """Prefault the pages to be written next, up to `ahead` bytes after the end.

        For a thread; it changes no byte.

        New pages can be expensive: a virtual machine that gets them from its host may spend most of its time on them.
        Unlike `populate`, this lets other threads run meanwhile, and unlike reading, it faults many pages at once.
        """
        if sys.platform != "linux":
            return
        with contextlib.suppress(OSError), self.disk.opened(self.path, os.O_RDONLY) as descriptor:
            while (start := max(self._warmed, self.wrote + _WARM_DISTANCE)) < min(self.wrote + ahead, self.size):
                os.posix_fadvise(descriptor, start, _WARM_STEP, os.POSIX_FADV_WILLNEED)
                self._warmed = start + _WARM_STEP

    def ensure_blocks(self, end: int) -> None:
        """Make [0, end) safe for `append`. OSError as `ensure_room`."""
        if end > self._blocks:
            self._allocate(end)

    def _allocate(self, end: int) -> None:
        start = max(self._blocks, self.wrote)
        step = min(max(self.first_step, start), self.last_step)
        target = min(self.size, max(end, start + step))
        try:
            self.allocate(start, target)
        except OSError:
            if target == end:
                raise
            self.allocate(start, end)  # the last bytes of the disk are room, too
            target = end
        self._blocks = target

    def allocate(self, start: int, end: int) -> None:
        """Allocate blocks for a range.

        For random writes, as in an index; see `ensure_room` for appends.
        """
        with self.disk.opened(self.path) as descriptor:
            self.disk.allocate(descriptor, start, end - start)

    def sync(self) -> None:
        """Sync written bytes. No effect on a deleted file."""
        with contextlib.suppress(FileNotFoundError), self.disk.opened(self.path) as descriptor:
            self.disk.sync(descriptor)

    def sync_again(self) -> None:
        """As `sync`, for a file that is synced often.

        It stays open until it is full, or a sync fails.
        """
        descriptor, self._synced = self._synced, None
        if descriptor is None:
            try:
                descriptor = _Descriptor(self.disk.open(self.path))
            except FileNotFoundError:
                return
        try:
            self.disk.sync(descriptor.number)
        except OSError:
            descriptor.close()
            raise
        if not self.is_full:
            self._synced = descriptor

    def rewrite(self, start: int, end: int) -> None:
        """Rewrite one byte in each page of a range, so that the next sync writes it.

        The bytes do not change. They must have been written before, so that their pages have blocks. Must not run in a
        thread: another thread may write there.
        """
        mapped = self.map
        for at in range(start, end, mmap.PAGESIZE):
            mapped[at] = mapped[at]
        if end > start:
            mapped[end - 1] = mapped[end - 1]

    def close(self) -> None:
        """Unmap. While a view is alive, the mapping stays, and ends with it."""
        self.end_appends()
        try:
            self.view.release()
            self.map.close()
        except BufferError:
            pass

    def end_appends(self) -> None:
        """Close the descriptors of `append` and `sync_again`.

        The next call opens one again.
        """
        self._synced = None
        descriptor, self._descriptor = self._descriptor, -1  # two threads may close the file
        if descriptor >= 0:
            os.close(descriptor)

    def unlink(self) -> None:
        """Delete the file, which stays mapped. OSError.

        Only once: an expiry in a thread may come late, when the sequence began anew with a file of this name.
        """
        with self._naming:
            if self._has_name:
                self.disk.unlink(self.path)
                self._has_name = False

    def forget_name(self) -> None:
        """Let another file have the name: `unlink` has no effect from now on.

        Waits for one that is under way.
        """
        with self._naming:
            self._has_name = False

    def delete(self) -> None:
        """Delete and unmap. OSError leaves the file as it was, and mapped."""
        self.unlink()
        self.close()

    def discard(self) -> None:
        """Delete a file and unmap it. Never raises OSError.

        If the disk refuses, its first bytes are zeroed: a start treats that as the log's end, and deletes the file.
        """
        try:
            self.unlink()
        except OSError as exc:
            self.forget_name()
            logger.warning("%s is not deleted: %s; it counts as empty", self.path, exc.strerror or exc)
            with contextlib.suppress(OSError, StoreCorrupt):  # a queue's file may have to be opened for it
                if self._has_head():  # else its first page may be a hole, which a full disk has no block for
                    self.map[:HEAD_SIZE] = bytes(HEAD_SIZE)
        self.close()

    def _has_head(self) -> bool:
        """Return False if the first bytes are zeros."""
        try:
            return any(self.read_head())
        except OSError:  # such as EMFILE
            return True


def _existing_map(path: Path, size: int, disk: Disk, *, is_exact: bool) -> mmap.mmap:
    with disk.opened(path) as descriptor:
        found = os.fstat(descriptor).st_size
        if found != size and is_exact:
            raise wrong_length(path, found, size)
        if found < size:
            disk.truncate(descriptor, size)
        if found != size:
            logger.warning("%s has %d bytes, expected %d: it is used with this length", path, found, size)
        return disk.map(descriptor, size)


def _new_map(path: Path, size: int, disk: Disk) -> mmap.mmap:
    with disk.opened(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC) as descriptor:
        try:
            disk.truncate(descriptor, size)
            return disk.map(descriptor, size)
        except OSError:
            with contextlib.suppress(OSError):
                disk.unlink(path)
            raise
