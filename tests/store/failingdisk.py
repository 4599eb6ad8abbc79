"""A disk whose n-th call fails (issue 12: a sweep as SQLite does it)."""

import errno
import mmap
import os
from pathlib import Path
from typing import Final

import attrs

from rmqlab.store.files.disk import Disk

ERRNOS: Final = (errno.ENOSPC, errno.EIO, errno.EMFILE)


@attrs.define(eq=False)
class FailingDisk(Disk):
    """Fails at call `fails_at`, counted from 0.

    If `is_lasting`, all later calls fail too. A write has a second point, where half of it is done.
    """

    fails_at: int = -1
    number: int = errno.EIO
    is_lasting: bool = False
    names: list[str] = attrs.field(factory=list)
    """Of all calls, in order."""

    def _point(self, name: str) -> None:
        at = len(self.names)
        self.names.append(name)
        if self.fails_at >= 0 and (at == self.fails_at or (self.is_lasting and at > self.fails_at)):
            raise OSError(self.number, os.strerror(self.number), name)

    def open(self, path: Path, flags: int = os.O_RDWR) -> int:
        self._point("open")
        return super().open(path, flags)

    def truncate(self, descriptor: int, size: int) -> None:
        self._point("truncate")
        super().truncate(descriptor, size)

    def map(self, descriptor: int, size: int) -> mmap.mmap:
        self._point("map")
        return super().map(descriptor, size)

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        self._point("allocate")
        super().allocate(descriptor, offset, length)

    def read(self, descriptor: int, size: int, offset: int = 0) -> bytes:
        self._point("read")
        return super().read(descriptor, size, offset)

    def read_into(self, descriptor: int, buffer: memoryview, offset: int) -> int:
        self._point("read_into")
        return super().read_into(descriptor, buffer, offset)

    def write(self, descriptor: int, data: bytes | memoryview, offset: int) -> int:
        self._point("write")
        half = len(data) // 2
        done = super().write(descriptor, data[:half], offset)
        self._point("write, second half")
        return done + super().write(descriptor, data[half:], offset + half)

    def sync(self, _descriptor: int) -> None:
        self._point("sync")  # no more: nothing here survives a loss of power

    def lock(self, descriptor: int) -> None:
        self._point("lock")
        super().lock(descriptor)

    def exists(self, path: Path) -> bool:
        self._point("exists")
        return super().exists(path)

    def file_size(self, path: Path) -> int:
        self._point("file_size")
        return super().file_size(path)

    def read_file(self, path: Path, most: int) -> bytes:
        self._point("read_file")
        return super().read_file(path, most)

    def read_start(self, path: Path, size: int) -> bytes:
        self._point("read_start")
        return super().read_start(path, size)

    def write_file(self, path: Path, content: bytes) -> None:
        self._point("write_file")
        super().write_file(path, content[: len(content) // 2])
        self._point("write_file, second half")
        super().write_file(path, content)

    def unlink(self, path: Path) -> None:
        self._point("unlink")
        super().unlink(path)

    def rename(self, source: Path, target: Path) -> None:
        self._point("rename")
        super().rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        self._point("link")
        super().link(source, target)

    def list_directory(self, path: Path) -> list[Path]:
        self._point("list_directory")
        return super().list_directory(path)

    def names_in(self, path: Path) -> list[str]:
        self._point("names_in")
        return super().names_in(path)

    def file_sizes(self, path: Path) -> dict[str, int]:
        self._point("file_sizes")
        return super().file_sizes(path)

    def make_directory(self, path: Path) -> None:
        self._point("make_directory")
        super().make_directory(path)

    def remove_directory(self, path: Path) -> None:
        self._point("remove_directory")
        super().remove_directory(path)

    def sync_directory(self, _path: Path) -> None:
        self._point("sync_directory")
