"""A wall clock that jumps."""

from typing import ClassVar, Final

import attrs

from rmqlab.faults.clock.fault import ClockFault
from rmqlab.faults.specification import option

_CENTURY_MILLIS: Final = 100 * 365 * 24 * 3600 * 1000
"""Far enough for a machine whose clock begins at 1970, and for the end of 32-bit times in 2106."""


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
