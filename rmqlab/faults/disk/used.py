"""A disk that claims to be nearly full."""

from typing import ClassVar

import attrs

from rmqlab.faults.disk.fault import DiskEffect, DiskFault
from rmqlab.faults.specification import option


@attrs.frozen(kw_only=True)
class DiskUsed(DiskFault):
    """The disk reports this usage: cleaning and refusals follow."""

    kind = "used"
    example: ClassVar = {"target": "broker-a", "percent": 92}

    percent: int = option("Usage that the disk reports.", unit="%", least=0, most=100)

    def effect(self) -> "ClaimedUsage":
        return ClaimedUsage(self.percent)


class ClaimedUsage(DiskEffect):
    """Claims a usage in percent."""

    def __init__(self, percent: int) -> None:
        self._percent = percent

    def used_percent(self) -> int | None:
        return self._percent
