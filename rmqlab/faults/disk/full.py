"""A full disk."""

import errno
from typing import ClassVar

import attrs

from rmqlab.faults.disk.fault import DiskEffect, DiskFault, fail
from rmqlab.faults.specification import option


@attrs.frozen(kw_only=True)
class DiskFull(DiskFault):
    """No space is left for new blocks and for tables.

    The disk shows 100 % used once nothing is left. Space already allocated to files accepts some more sends, until it
    is used up or the broker checks its disk, every 10 s as in 4.9. After the heal sends are refused until the next check.
    """

    kind = "full"
    example: ClassVar = {"target": "broker-a", "bytes_left": 1_000_000}

    bytes_left: int | None = option(
        "Space that can still be allocated.", unit="bytes", least=0, default=None, unless_given=0
    )

    def effect(self) -> "Quota":
        return Quota(self.bytes_left or 0)


class Quota(DiskEffect):
    """Allows a number of bytes, then fails with ENOSPC."""

    def __init__(self, bytes_left: int) -> None:
        self.bytes_left = bytes_left
        self._is_exhausted = bytes_left == 0

    def before_write(self, length: int) -> None:
        if length > self.bytes_left:
            self._is_exhausted = True
            fail(errno.ENOSPC)

    def allocated(self, length: int) -> None:
        self.bytes_left -= length

    def used_percent(self) -> int | None:
        return 100 if self._is_exhausted else None
