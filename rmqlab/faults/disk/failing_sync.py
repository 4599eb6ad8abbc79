"""A disk that cannot sync."""

import errno
from typing import ClassVar

import attrs

from rmqlab.faults.disk.fault import DiskEffect, DiskFault, fail


@attrs.frozen(kw_only=True)
class FailingSync(DiskFault):
    """Each sync ends with an I/O error."""

    kind = "failing-sync"
    example: ClassVar = {"target": "broker-a"}

    def effect(self) -> "SyncError":
        return SyncError()


class SyncError(DiskEffect):
    """Lets each sync fail with EIO."""

    def before_sync(self) -> None:
        fail(errno.EIO)
