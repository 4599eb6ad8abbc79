"""A disk that loses unsynced bytes at a power loss, and fails as planned."""

import errno
import os
import random
from pathlib import Path
from typing import Final

import attrs

from rmqlab.store.files.disk import Disk

SECTOR: Final = 512
"""Bytes that a disk writes as a whole, or not at all."""


@attrs.define(eq=False)
class VolatileDisk(Disk):
    """The files of one member.

    Names and lengths of data files are durable at once. A file that replaces another is durable once it was synced
    before the renaming, and its directory behind it.
    """

    chance: random.Random
    failures: float = 0.0
    """Share of calls that fail."""
    keeps_unsynced: bool = True
    """False: a power loss loses all unsynced sectors. True: it may keep some."""
    _paths: dict[int, Path] = attrs.field(factory=dict)
    """Last path of each descriptor."""
    _synced: dict[Path, bytes] = attrs.field(factory=dict)
    _replaced: dict[Path, bytes | None] = attrs.field(factory=dict)
    """By path: the durable content of a file that was replaced since; None: no file."""

    def open(self, path: Path, flags: int = os.O_RDWR) -> int:
        descriptor = Disk.open(self, path, flags)
        self._paths[descriptor] = path
        return descriptor

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        self._may_fail()
        Disk.allocate(self, descriptor, offset, length)

    def write(self, descriptor: int, data: bytes | memoryview, offset: int) -> int:
        self._may_fail()
        return Disk.write(self, descriptor, data, offset)

    def sync(self, descriptor: int) -> None:
        self._may_fail()
        self._synced[self._paths[descriptor]] = os.pread(descriptor, os.fstat(descriptor).st_size, 0)

    def rename(self, source: Path, target: Path) -> None:
        self._may_fail()
        self._replaced.setdefault(target, target.read_bytes() if target.exists() else None)
        content = source.read_bytes()
        self._synced[target] = content if self._synced.pop(source, None) == content else b""
        Disk.rename(self, source, target)

    def sync_directory(self, path: Path) -> None:
        self._may_fail()
        for target in [target for target in self._replaced if target.parent == path]:
            if self._synced[target] == target.read_bytes():
                del self._replaced[target]

    def unlink(self, path: Path) -> None:
        Disk.unlink(self, path)
        self._synced.pop(path, None)

    def _may_fail(self) -> None:
        if self.chance.random() < self.failures:
            raise OSError(errno.EIO, "a planned failure")

    def lose_power(self, root: Path) -> None:
        """Keep some of the unsynced sectors: none, all before a place, or any.

        Replacements of files that may be lost are.
        """
        for target, content in self._replaced.items():
            if content is None:
                target.unlink()
            else:
                target.write_bytes(content)
        self._replaced.clear()
        for path in sorted(path for path in root.rglob("*") if path.name.isdecimal()):
            written = path.read_bytes()
            synced = self._synced.get(path, bytes(len(written)))
            kept = b"".join(
                (written if is_kept else synced)[at : at + SECTOR]
                for at, is_kept in zip(range(0, len(written), SECTOR), self._kept_sectors(len(written)), strict=True)
            )
            path.write_bytes(kept)
            self._synced[path] = kept

    def _kept_sectors(self, size: int) -> list[bool]:
        count = -(-size // SECTOR)
        match self.chance.randrange(3) if self.keeps_unsynced else 0:
            case 0:
                return [False] * count
            case 1:
                end = self.chance.randint(0, count)
                return [number < end for number in range(count)]
            case _:
                return [self.chance.random() < 0.5 for _ in range(count)]
