"""The clock faults in force in one process."""

from collections.abc import Mapping

import attrs

from rmqlab.faults.clock.fault import ClockFault
from rmqlab.faults.rules import NodeRules
from rmqlab.runtime.clock import RatedClock


@attrs.define(eq=False)
class ClockFaults:
    """Sets the process's wall clock wrong; several faults add up."""

    clock: RatedClock
    _faults: Mapping[str, ClockFault] = attrs.field(factory=dict, init=False)
    _began_at: Mapping[str, float] = attrs.field(factory=dict, init=False)
    """By fault: when this process began to play it, in seconds of the cluster's clock."""

    def follow(self, rules: NodeRules) -> None:
        """Put these rules in force.

        What a skew has gained is kept as long as that fault is in force.
        """
        faults = rules.own_faults(ClockFault)
        if faults != self._faults:
            now = self.clock.current_time()
            self._faults, self._began_at = faults, {key: self._began_at.get(key, now) for key in faults}
            gained = sum(fault.by_ppm / 1e6 * (now - self._began_at[key]) for key, fault in faults.items())
            self.clock.set_wrong(
                by_seconds=gained + sum(fault.by_seconds for fault in faults.values()),
                ppm=sum(fault.by_ppm for fault in faults.values()),
            )
