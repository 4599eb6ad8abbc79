"""One process per store: the files `lock` and `abort` (sections 1.1 and 1.3)."""

import contextlib
import fcntl
import os
from pathlib import Path

import attrs

from store.disk import StoreLocked

# POSIX locks belong to the process, so they do not keep apart two stores opened in one.
_held_here: set[Path] = set()


@attrs.define(eq=False)
class StoreLock:
    """Holds byte 0 of the lock file until released or the process ends (store-ha#4)."""

    path: Path
    _descriptor: int

    @classmethod
    def acquire(cls, path: Path) -> "StoreLock":
        path = path.resolve()
        refusal = StoreLocked(f"{path} is locked: another broker uses this store")
        if path in _held_here:  # asked before opening: closing any descriptor of the file would free the lock
            raise refusal
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as problem:
            os.close(descriptor)
            raise refusal from problem
        if os.pread(descriptor, 5, 0) != b"lock":
            with contextlib.suppress(OSError):  # a full disk: its content is for people, the lock holds without
                os.pwrite(descriptor, b"lock", 0)
        _held_here.add(path)
        return cls(path, descriptor)

    def release(self) -> None:
        _held_here.discard(self.path)
        os.close(self._descriptor)


@attrs.define
class AbortFile:
    """There while the store is open, and after it was not closed cleanly (store-ha#5)."""

    path: Path

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def create(self) -> None:
        self.path.touch()

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
