"""Disk calls of a store, except reads and writes through a mapping.

A fault (full disk, slow or failing fsync, the n-th call fails) is a subclass of Disk. No module beside this one calls
the operating system for a file that the store writes: `tests/store/test_failure_sweep.py` relies on that.
"""

import contextlib
import errno
import fcntl
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import attrs

from rmqlab.runtime.regularfile import check_regular, odd_kind
from rmqlab.store.files.machine import DiskSpace, this_machine


class StoreError(Exception):
    """The store cannot open or continue. The text names the file."""


class StoreCorrupt(StoreError):
    """A file has an unexpected length or content."""


class StoreLocked(StoreError):
    """Another process holds this root."""


@attrs.define(eq=False)
class Disk:
    """The real disk. Every method raises OSError, unless its docstring excludes it."""

    # ---- a file by its descriptor ----

    def open(self, path: Path, flags: int = os.O_RDWR) -> int:
        """Return a descriptor that no child process inherits."""
        try:
            return os.open(path, flags | os.O_CLOEXEC, 0o644)
        except OSError as exc:
            if exc.errno == errno.ENXIO:  # of a pipe without a reader, or a socket
                raise OSError(errno.ENXIO, "not a regular file", os.fspath(path)) from None
            raise

    @contextlib.contextmanager
    def opened(self, path: Path, flags: int = os.O_RDWR) -> Iterator[int]:
        """As `open`; close the descriptor at the end."""
        descriptor = self.open(path, flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """Set the length of a file. An added range is a hole."""
        os.ftruncate(descriptor, size)

    def map(self, descriptor: int, size: int) -> mmap.mmap:
        """Map the first `size` bytes.

        ENOMEM when the process has too many mappings, EMFILE: too many files.
        """
        return mmap.mmap(descriptor, size)

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        """Allocate blocks for a range.

        OSError(ENOSPC) here, instead of SIGBUS at a later write.
        """
        os.posix_fallocate(descriptor, offset, length)

    def read(self, descriptor: int, size: int, offset: int = 0) -> bytes:
        """Read at most `size` bytes."""
        return os.pread(descriptor, size, offset)

    def read_into(self, descriptor: int, buffer: memoryview, offset: int) -> int:
        """Read into a buffer; return how many bytes were read, 0 at the end of the file."""
        return os.preadv(descriptor, [buffer], offset)

    def write(self, descriptor: int, data: bytes | memoryview, offset: int) -> int:
        """Write where the file has blocks already, or grows by a few bytes.

        Return how many bytes were written.
        """
        return os.pwrite(descriptor, data, offset)

    def sync(self, descriptor: int) -> None:
        """Block until written; release the GIL. Runs in a worker thread."""
        os.fdatasync(descriptor)

    def lock(self, descriptor: int) -> None:
        """Lock byte 0 of a file for this process, without waiting.

        Raises BlockingIOError or PermissionError if another process has the lock.
        """
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)

    # ---- a file by its name ----

    def exists(self, path: Path) -> bool:
        """True if a file or directory of this name exists, or a link, even to nothing.

        OSError if the disk cannot tell: a missing `abort` means a clean stop.
        """
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def file_size(self, path: Path) -> int:
        """Return the length of a file in bytes. OSError(EINVAL) as in `read_file`."""
        return _regular_size(path)

    def read_file(self, path: Path, most: int) -> bytes:
        """Return the content of a file of at most `most` bytes.

        OSError: EINVAL for a pipe or a device, which reading might never end; EFBIG for a larger file, unread.
        """
        with self.opened(path, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            check_regular(descriptor, path)  # for a directory, `fdopen` would name the descriptor
            if os.fstat(descriptor).st_size > most:
                raise OSError(errno.EFBIG, f"more than {most} bytes", os.fspath(path))
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(most)

    def read_start(self, path: Path, size: int) -> bytes:
        """Return the first bytes of a file. OSError(EINVAL) as in `read_file`."""
        with self.opened(path, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            check_regular(descriptor, path)
            return self.read(descriptor, size)

    def write_file(self, path: Path, content: bytes) -> None:
        """Write a small file as a whole. After an error it may hold a part of the content.

        OSError for a pipe in its place: opening one may wait forever.
        """
        with self.opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK) as descriptor:
            check_regular(descriptor, path)
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(content)

    def unlink(self, path: Path) -> None:
        """Delete a file; a missing one is no error."""
        path.unlink(missing_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file; a file with the new name is replaced."""
        source.replace(target)

    def link(self, source: Path, target: Path) -> None:
        """Create a hard link. PermissionError on a file system without hard links."""
        target.hardlink_to(source)

    # ---- directories ----

    def list_directory(self, path: Path) -> list[Path]:
        """Return the names in a directory, sorted; empty if the directory is missing.

        OSError for something else in its place, such as a file or a link to nothing.
        """
        return [path / name for name in self.names_in(path)]

    def names_in(self, path: Path) -> list[str]:
        """Return the names in a directory, sorted; empty if the directory is missing.

        OSError as `list_directory`. For many directories.
        """
        return sorted(entry.name for entry in _entries_of(path))

    def file_sizes(self, path: Path) -> dict[str, int]:
        """Return names and lengths in bytes of a directory's files with numbers as names.

        Empty if the directory is missing. OSError as `list_directory`, and for a name that is no regular file: a pipe
        has no length, and would pass for an empty file.
        """
        return {
            entry.name: entry.stat().st_size if entry.is_file() else _regular_size(path / entry.name)
            for entry in _entries_of(path)
            if entry.name.isdecimal()
        }

    def make_directory(self, path: Path) -> None:
        """Make a directory and its parents; an existing directory is no error."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path)) from None

    def remove_directory(self, path: Path) -> None:
        """Delete an empty directory."""
        path.rmdir()

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        with self.opened(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
            os.fsync(descriptor)

    def used_percent(self, path: Path) -> int:
        """Return the used space in percent, as RocketMQ counts it; -1 if unknown.

        Counts the space that ordinary users see, rounded up.
        """
        return this_machine().used_percent(path)

    def space(self, path: Path) -> DiskSpace:
        """Return the space of a path's file system. OSError if there is no such path."""
        return this_machine().disk_space(path)


def _regular_size(path: Path) -> int:
    kind = odd_kind(path)
    if kind is not None:
        raise OSError(errno.EINVAL, f"it is {kind}: expected a file", os.fspath(path))
    return path.stat().st_size


def _entries_of(path: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a directory; none if it is missing."""
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except FileNotFoundError:
        if path.is_symlink():
            raise
        return []
