"""A disk that fails on request. A store opened with it behaves as on a full, slow or broken one."""

import errno
import os
import time
from pathlib import Path

import attrs

from store.disk import Disk


@attrs.define(eq=False)
class FaultyDisk(Disk):
    """Rules may change at any time; with none set it is the real disk."""

    quota: int | None = None  # bytes of blocks still to be had; None: what the real disk gives
    read_only: bool = False
    sync_fails: bool = False
    sync_delay: float = 0.0  # real seconds: a sync runs in a worker thread, outside any rated clock
    shown_percent: int | None = None  # what `used_percent` says instead of the truth

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        if self.read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        if self.quota is not None:
            if length > self.quota:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.quota -= length
        Disk.allocate(self, descriptor, offset, length)

    def sync(self, descriptor: int) -> None:
        if self.sync_delay:
            time.sleep(self.sync_delay)
        if self.sync_fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        Disk.sync(self, descriptor)

    def used_percent(self, path: Path) -> int:
        return Disk.used_percent(self, path) if self.shown_percent is None else self.shown_percent
