"""A wall clock that jumps."""

from typing import ClassVar

import attrs

from rmqlab.faults.clock.fault import ClockFault
from rmqlab.faults.specification import option


@attrs.frozen(kw_only=True)
class ClockStep(ClockFault):
    """The wall clock jumps: store timestamps, ages, delays."""

    kind = "step"
    example: ClassVar = {"target": "broker-a", "millis": -60_000}

    millis: float = option("How far the clock jumps ahead; negative: back.", unit="ms")

    @property
    def by_seconds(self) -> float:
        return self.millis / 1000
