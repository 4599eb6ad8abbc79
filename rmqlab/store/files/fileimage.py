"""Bytes of a file in memory, read with system calls.

A page fault in a mapped file ends the process with SIGBUS if the file was truncated meanwhile, if its disk cannot read
the page, or if it is a hole of a full tmpfs. A system call returns an error, and zeros for a hole. So a file is read
through a mapping only where its store has just written it, or where speed counts more (`mappedimage`); recovery and
judges use an image.
"""

import contextlib
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import attrs

from rmqlab.runtime.regularfile import check_regular
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.sparse import data_end_of

_STEP: Final = 2**20
"""Bytes that one call reads, if the file has so many."""
_DROPS: Final = getattr(mmap, "MADV_DONTNEED", None)
_HUGE_PAGES: Final = getattr(mmap, "MADV_HUGEPAGE", None)
"""Reading costs 0.4 times the processor time: a fault for each page of 4 KiB costs more than the copy."""


@attrs.define(eq=False)
class FileImage:
    """A window of a file, at its positions in the file.

    `map` and `view` have the length of the file. Outside of the window they are zeros, or bytes of an earlier window.
    """

    path: Path
    size: int
    map: mmap.mmap
    view: memoryview
    written: int
    """End of the last part of the file that is no hole."""
    _descriptor: int
    _disk: Disk
    low: int = attrs.field(default=0, init=False)
    """Begin of the window."""
    high: int = attrs.field(default=0, init=False)
    """End of the window."""

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path, disk: Disk | None = None) -> Iterator[Self]:
        """Open a file with an empty window. OSError, also for anything but a regular file."""
        disk = disk or Disk()
        with disk.opened(path, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            check_regular(descriptor, path)
            size = os.fstat(descriptor).st_size
            memory = empty_memory(size)
            yield cls(path, size, memory, memoryview(memory)[:size], data_end_of(descriptor), descriptor, disk)

    def load(self, begin: int, end: int) -> None:
        """Extend the window to [begin, end), or move it there. OSError.

        Bytes before `begin` may leave it.
        """
        if not self.low <= begin <= self.high:
            self._drop(self.high)
            self.low = self.high = begin - begin % mmap.PAGESIZE
        elif begin - self.low >= _STEP:
            self._drop(begin - begin % mmap.PAGESIZE)
        if end > self.high:
            stop = min(max(end, self.high + _STEP), self.written)
            self._read(self.high, stop)
            self.high = self.size if stop == self.written else stop

    def forget(self) -> None:
        """Empty the window: another process may have written the file meanwhile.

        OSError.
        """
        self._drop(self.high)
        self.low = self.high = 0
        self.written = data_end_of(self._descriptor)

    def _drop(self, end: int) -> None:
        """Free the memory of the window's begin."""
        if _DROPS is not None and (end := min(end, self.written)) > self.low:
            self.map.madvise(_DROPS, self.low, end - self.low)
        self.low = max(self.low, end)

    def _read(self, at: int, stop: int) -> None:
        try:
            while at < stop and (count := self._disk.read_into(self._descriptor, self.view[at:stop], at)):
                at += count
        except OSError as exc:
            raise OSError(exc.errno, exc.strerror, os.fspath(self.path)) from None


def empty_memory(size: int) -> mmap.mmap:
    """Return zeros of this size that take no memory before they are written.

    They are freed with their last view: a traceback may have one.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, max(size, 1), flags=flags)
    if _HUGE_PAGES is not None:
        with contextlib.suppress(OSError):  # a kernel without them
            memory.madvise(_HUGE_PAGES)
    return memory
