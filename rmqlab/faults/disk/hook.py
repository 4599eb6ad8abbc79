"""The disk faults in force at one disk."""

from collections.abc import Callable, Sequence

import attrs

from rmqlab.faults.disk.fault import DiskEffect, DiskFault
from rmqlab.faults.rules import NodeRules


@attrs.define(eq=False)
class DiskFaults:
    """Makes the effects of disk faults, and ends them.

    An effect lives as long as its fault: a quota is not refilled.
    """

    set_effects: Callable[[Sequence[DiskEffect]], None]
    """Called with all effects in force whenever they change."""
    _effects: dict[str, DiskEffect] = attrs.field(factory=dict, init=False)  # by the fault's id

    def follow(self, rules: NodeRules) -> None:
        """Put these rules in force instead of those before."""
        faults = rules.own_faults(DiskFault)  # type: ignore[type-abstract]  # a family, never called
        if faults.keys() == self._effects.keys():
            return
        ended = [effect for fault_id, effect in self._effects.items() if fault_id not in faults]
        self._effects = {fault_id: self._effects.get(fault_id) or fault.effect() for fault_id, fault in faults.items()}
        self.set_effects([*self._effects.values()])
        for effect in ended:
            effect.end()
