"""A disk that fails on request.

A store opened with it behaves as on a full, slow or broken one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import attrs

from rmqlab.store.files.disk import Disk


class DiskEffect(Protocol):
    """The effects of a disk fault on the calls of a store.

    `rmqlab.faults.disk` has one class for each kind.
    """

    def before_write(self, length: int) -> None:
        """Raise OSError if so many bytes more cannot be allocated or written."""

    def allocated(self, length: int) -> None:
        """Count bytes that were allocated."""

    def before_sync(self) -> None:
        """Wait, or raise OSError, before a sync. Runs in a worker thread."""

    def used_percent(self) -> int | None:
        """Return how full the disk claims to be, or None for the true value."""


@attrs.define(eq=False)
class FaultyDisk(Disk):
    """The real disk as long as no effects are set. They may change at any time.

    As on a real disk, allocated blocks can be written despite the effects, because writes go to memory.
    """

    effects: Sequence[DiskEffect] = ()

    def set_effects(self, effects: Sequence[DiskEffect]) -> None:
        """Apply these effects from now on, instead of those before."""
        self.effects = tuple(effects)

    def write_file(self, path: Path, content: bytes) -> None:
        self._before_write(len(content))
        Disk.write_file(self, path, content)

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        self._before_write(length)
        for effect in self.effects:
            effect.allocated(length)
        Disk.allocate(self, descriptor, offset, length)

    def sync(self, descriptor: int) -> None:
        for effect in self.effects:
            effect.before_sync()
        Disk.sync(self, descriptor)

    def used_percent(self, path: Path) -> int:
        """As `Disk.used_percent`; of several claims the highest counts."""
        claims = [claim for effect in self.effects if (claim := effect.used_percent()) is not None]
        return max(claims) if claims else Disk.used_percent(self, path)

    def _before_write(self, length: int) -> None:
        for effect in self.effects:
            effect.before_write(length)
