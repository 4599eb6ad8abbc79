"""One process per store: the files `lock` and `abort` (sections 1.1 and 1.3)."""

import contextlib
import os
from pathlib import Path

import attrs

from rmqlab.store.files.disk import Disk, StoreLocked

# POSIX locks belong to the process, so they do not keep apart two stores opened in one.
_held_here: set[Path] = set()


@attrs.define(eq=False)
class StoreLock:
    """Holds byte 0 of the lock file until released or the process ends (store-ha#4)."""

    path: Path
    _descriptor: int

    @classmethod
    def acquire(cls, path: Path, disk: Disk | None = None) -> "StoreLock":
        """Lock the file.

        StoreLocked if another store holds it. OSError if the file cannot be opened or locked.
        """
        # Path.resolve raises RuntimeError for a loop of symbolic links, which then has no named reason.
        path, disk = Path(os.path.realpath(path)), disk or Disk()
        refusal = StoreLocked(f"{path} is locked: another broker uses this store")
        if path in _held_here:  # checked before opening: closing any descriptor of the file would free the lock
            raise refusal
        descriptor = disk.open(path, os.O_RDWR | os.O_CREAT)
        try:
            disk.lock(descriptor)
        except OSError as problem:
            os.close(descriptor)
            if isinstance(problem, BlockingIOError | PermissionError):
                raise refusal from problem
            raise
        with contextlib.suppress(OSError):  # a full disk: the content is informative only, the lock works without it
            if disk.read(descriptor, 5) != b"lock":
                disk.write(descriptor, b"lock", 0)
        _held_here.add(path)
        return cls(path, descriptor)

    def release(self) -> None:
        """Unlock the file."""
        _held_here.discard(self.path)
        os.close(self._descriptor)


def forget_locks(directory: Path) -> None:
    """Release the locks of all stores below a directory.

    For simulated nodes: when one is killed, its locks must end although the real process continues.
    """
    top = Path(os.path.realpath(directory))
    _held_here.difference_update([path for path in _held_here if path.is_relative_to(top)])


@attrs.define
class AbortFile:
    """The file exists while the store is open, and after an unclean stop (store-ha#5)."""

    path: Path
    disk: Disk = attrs.field(factory=Disk)

    @property
    def exists(self) -> bool:
        return self.disk.exists(self.path)

    def create(self) -> None:
        with self.disk.opened(self.path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK):  # a pipe would wait
            pass

    def remove(self) -> None:
        self.disk.unlink(self.path)
