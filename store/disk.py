"""The three things a store asks of the disk besides memory: room, durability, how full it is.

A fault (full disk, slow or failing fsync) is a subclass of Disk; without one the cost is a method call per
several hundred KiB written.
"""

import os
from pathlib import Path

import attrs


class StoreError(Exception):
    """The store cannot open or go on. The text names the file."""


class StoreCorrupt(StoreError):
    """A file is not what its name says."""


class StoreLocked(StoreError):
    """Another process holds this root."""


@attrs.define(eq=False)
class Disk:
    """The real disk."""

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        """Give the range real blocks. OSError(ENOSPC) here, instead of SIGBUS at a later write."""
        os.posix_fallocate(descriptor, offset, length)

    def sync(self, descriptor: int) -> None:
        """Blocks until written; releases the GIL. Runs in a worker thread."""
        os.fdatasync(descriptor)

    def used_percent(self, path: Path) -> int:
        """Used space as RocketMQ counts it: of what ordinary users see, rounded up. -1 where there is no such path."""
        try:
            stat = os.statvfs(path)
        except OSError:
            return -1
        used = stat.f_blocks - stat.f_bfree
        seen = used + stat.f_bavail
        return -(-100 * used // seen) if seen else 0
