"""A read-only disk."""

import errno
from typing import ClassVar

import attrs

from rmqlab.faults.disk.fault import DiskEffect, DiskFault, fail


@attrs.frozen(kw_only=True)
class ReadOnlyDisk(DiskFault):
    """Allocation, sync and save fail.

    After the heal sends are refused until the broker checks its disk, every 10 s.
    """

    kind = "read-only"
    example: ClassVar = {"target": "broker-a"}

    def effect(self) -> "ReadOnly":
        return ReadOnly()


class ReadOnly(DiskEffect):
    """Lets each write and sync fail with EROFS."""

    def before_write(self, length: int) -> None:  # noqa: ARG002 -- whatever its length
        fail(errno.EROFS)

    def before_sync(self) -> None:
        fail(errno.EROFS)
