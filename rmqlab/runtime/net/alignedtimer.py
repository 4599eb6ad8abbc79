"""Common instants for the periodic work of a process.

An idle process spends its time on wake-ups. Loops that sleep by the same timer share a wake-up wherever one period is
a multiple of another.
"""

import math

import attrs
import trio

_ROUNDING = 1e-6
"""Periods by which a wake-up can seem too early, because times are floats."""


@attrs.frozen
class AlignedTimer:
    """Whole multiples of each period since a start, in seconds of trio's clock."""

    began: float = attrs.field(factory=trio.current_time)

    def next(self, period: float) -> float:
        """Return the next time at which this period ends."""
        ended = math.floor((trio.current_time() - self.began) / period + _ROUNDING)
        return self.began + (ended + 1) * period

    async def sleep(self, period: float) -> None:
        """Sleep until this period ends. Periods that passed meanwhile are not made up for."""
        await trio.sleep_until(self.next(period))
