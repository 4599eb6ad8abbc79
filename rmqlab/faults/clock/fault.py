"""Base class of all clock faults."""

import attrs

from rmqlab.faults.specification import TargetedFault


@attrs.frozen(kw_only=True)
class ClockFault(TargetedFault):
    """Set a node's wall clock wrong: store timestamps, message ages, delayed delivery.

    Timeouts are not affected. After the heal the clock jumps to the cluster's time.
    """

    family = "clock"

    @property
    def by_seconds(self) -> float:
        """How far the clock is ahead; negative: behind."""
        return 0.0

    @property
    def by_ppm(self) -> float:
        """Microseconds that the clock gains each second; negative: loses."""
        return 0.0
