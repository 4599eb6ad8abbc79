"""A node that is cut off from all others."""

from typing import ClassVar

import attrs

from rmqlab.faults.link.blackhole import Blackhole
from rmqlab.faults.link.fault import ANYONE
from rmqlab.faults.specification import TargetedFault


@attrs.frozen(kw_only=True)
class Isolation(TargetedFault):
    """Blackholes both ways between a node and all others.

    They include peers outside, and peers that start later. Several targets still reach each other.
    """

    family = "isolate"
    example: ClassVar = {"target": "broker-a:master"}
    has_own_command = True

    def as_link(self) -> Blackhole:
        """The link fault that has the same effect."""
        return Blackhole(src=self.target, dst=ANYONE, both_ways=True)
