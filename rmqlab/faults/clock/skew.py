"""A wall clock that is too fast or too slow."""

from typing import ClassVar

import attrs

from rmqlab.faults.clock.fault import ClockFault
from rmqlab.faults.specification import option


@attrs.frozen(kw_only=True)
class ClockSkew(ClockFault):
    """The wall clock gains time: 500 ppm are 0.5 ms a second."""

    kind = "skew"
    example: ClassVar = {"target": "broker-a", "ppm": 500}

    ppm: float = option(
        "Microseconds gained each second; negative: lost.", unit="ppm", least=-1_000_000, most=1_000_000
    )

    @property
    def by_ppm(self) -> float:
        return self.ppm
