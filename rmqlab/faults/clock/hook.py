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

    def follow(self, rules: NodeRules) -> None:
        """Put these rules in force. A skew counts from the latest change of clock faults."""
        faults = rules.own_faults(ClockFault)
        if faults != self._faults:
            self._faults = faults
            self.clock.set_wrong(
                by_seconds=sum(fault.by_seconds for fault in faults.values()),
                ppm=sum(fault.by_ppm for fault in faults.values()),
            )
