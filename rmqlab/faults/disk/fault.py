"""Base class of all disk faults."""

import abc
import os
from typing import NoReturn

import attrs

from rmqlab.faults.specification import TargetedFault


class DiskEffect:
    """The effect of one disk fault while it is in force.

    This base has no effect; kinds override the methods that they affect.

    The store calls these methods around its own calls (`rmqlab.store.files.faulty_disk.DiskEffect`).
    """

    def before_write(self, length: int) -> None:
        """Raise OSError if so many bytes more cannot be allocated or written."""

    def allocated(self, length: int) -> None:
        """Count bytes that were allocated."""

    def before_sync(self) -> None:
        """Wait, or raise OSError, before a sync. Runs in a worker thread."""

    def used_percent(self) -> int | None:
        """Return how full the disk claims to be, or None for the true value."""
        return None

    def end(self) -> None:
        """The fault is healed: release a sync that waits."""


@attrs.frozen(kw_only=True)
class DiskFault(TargetedFault):
    """Break the disk of a broker.

    Space allocated before can still be written, as on a real disk.
    """

    family = "disk"
    is_brokers_only = True

    @abc.abstractmethod
    def effect(self) -> DiskEffect:
        """Make the effect, which begins now. Called in the trio thread."""


def fail(number: int) -> NoReturn:
    """Raise the OSError of this errno."""
    raise OSError(number, os.strerror(number))
