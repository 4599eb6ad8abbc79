"""A wall clock that jumps."""

from typing import ClassVar, Final

import attrs

from rmqlab.faults.clock.fault import ClockFault
from rmqlab.faults.specification import option

_CENTURY_MILLIS: Final = 36_525 * 86_400_000
"""Timestamps of messages have 64 bits, and several faults add up."""


@attrs.frozen(kw_only=True)
class ClockStep(ClockFault):
    """The wall clock jumps: store timestamps, ages, delays."""

    kind = "step"
    example: ClassVar = {"target": "broker-a", "millis": -60_000}

    millis: float = option(
        "How far the clock jumps ahead; negative: back.", unit="ms", least=-_CENTURY_MILLIS, most=_CENTURY_MILLIS
    )

    @property
    def by_seconds(self) -> float:
        return self.millis / 1000
