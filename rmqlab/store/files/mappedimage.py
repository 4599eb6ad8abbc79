"""Pages of a file itself, where a copy costs too much.

For readers that may end with SIGBUS: a file that another program truncates at the moment at which its bytes are decoded
ends the process, as does a page that the kernel reclaims at that moment and cannot read again. What cannot be read in
advance does not: such a file is copied with system calls, as are bytes behind the data of a file.
"""

import contextlib
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import attrs

from rmqlab.runtime.regularfile import check_regular
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.fileimage import FileImage, empty_memory
from rmqlab.store.files.sparse import data_ranges

_POPULATE_READ: Final = 22
"""MADV_POPULATE_READ of Linux 5.14: reads pages, and returns the errors that a page fault reports as SIGBUS."""


@attrs.define(eq=False)
class MappedImage(FileImage):
    """A window of a file, which is mapped until a page of it cannot be read.

    From then on it is copied. A new window may be in other memory: `map` and `view` are valid up to the next `load`.
    """

    _is_mapped: bool

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path, disk: Disk | None = None) -> Iterator[Self]:
        """Open a file with an empty window. OSError, also for anything but a regular file."""
        disk = disk or Disk()
        with disk.opened(path, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            check_regular(descriptor, path)
            yield cls._of(path, descriptor, disk)

    @classmethod
    def _of(cls, path: Path, descriptor: int, disk: Disk) -> Self:
        size = os.fstat(descriptor).st_size
        ranges = list(data_ranges(descriptor, 0, size))
        written = ranges[-1][1] if ranges else 0
        # A hole of a tmpfs gets memory when it is read through a mapping.
        mapped = _mapping(descriptor, size) if ranges == [(0, written)] else None
        memory = mapped or empty_memory(size)
        return cls(path, size, memory, memoryview(memory)[:size], written, descriptor, disk, mapped is not None)

    def load(self, begin: int, end: int) -> None:
        """Do as `FileImage.load`."""
        if self._is_mapped:
            if min(end, self.size) <= self.written:
                with contextlib.suppress(OSError):
                    super().load(begin, end)
                    return
            self._copy()
        super().load(begin, end)

    def _copy(self) -> None:
        """Continue with copies, and an empty window."""
        self.map = empty_memory(self.size)
        self.view = memoryview(self.map)[: self.size]
        self.low = self.high = 0
        self._is_mapped = False

    def _read(self, at: int, stop: int) -> None:
        if not self._is_mapped:
            super()._read(at, stop)
        elif at < stop:
            begin = at - at % mmap.PAGESIZE
            self.map.madvise(_POPULATE_READ, begin, stop - begin)


def _mapping(descriptor: int, size: int) -> mmap.mmap | None:
    """Return a file as memory.

    None if that is impossible, or if its errors would be signals only.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError):  # ValueError: it was truncated meanwhile
            return mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
    return None
