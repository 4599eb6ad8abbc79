"""A disk that fails on request. A store opened with it behaves as on a full, slow or broken one."""

import errno
import os
import threading
from pathlib import Path
from typing import NoReturn

import attrs

from rmqlab.store.disk import Disk


@attrs.define(eq=False)
class FaultyDisk(Disk):
    """Rules may change at any time; with none set it is the real disk.

    As on a real one, what has been allocated before can be written: memory takes it, whatever the disk does.
    """

    quota: int | None = None  # bytes of blocks still to be had; None: what the real disk gives
    read_only: bool = False
    sync_fails: bool = False
    sync_delay: float = 0.0  # real seconds: a sync runs in a worker thread, outside any rated clock
    shown_percent: int | None = None  # what `used_percent` says instead of the truth
    _is_exhausted: bool = attrs.field(default=False, init=False)
    _healed: threading.Event = attrs.field(factory=threading.Event, init=False)

    def slow_down(self, sync_delay: float) -> None:
        """Let each sync take so many real seconds longer; one that is under way is let go by 0."""
        self.sync_delay = sync_delay
        if sync_delay:
            self._healed.clear()
        else:
            self._healed.set()

    def limit(self, quota: int | None) -> None:
        """Give so many bytes from now on; None: as many as the real disk has."""
        self.quota, self._is_exhausted = quota, quota == 0

    def write_file(self, path: Path, content: bytes) -> None:
        self.check_write(len(content))
        Disk.write_file(self, path, content)

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        self.check_write(length)
        if self.quota is not None:
            self.quota -= length
        Disk.allocate(self, descriptor, offset, length)

    def check_write(self, length: int) -> None:
        """OSError where so many bytes more cannot be written."""
        if self.read_only:
            _fail(errno.EROFS)
        if self.quota is not None and length > self.quota:
            self._is_exhausted = True
            _fail(errno.ENOSPC)

    def sync(self, descriptor: int) -> None:
        if self.sync_delay:
            self._healed.wait(self.sync_delay)
        if self.sync_fails:
            _fail(errno.EIO)
        if self.read_only:
            _fail(errno.EROFS)
        Disk.sync(self, descriptor)

    def used_percent(self, path: Path) -> int:
        if self.shown_percent is not None:
            return self.shown_percent
        return 100 if self._is_exhausted and self.quota is not None else Disk.used_percent(self, path)


def _fail(number: int) -> NoReturn:
    raise OSError(number, os.strerror(number))
