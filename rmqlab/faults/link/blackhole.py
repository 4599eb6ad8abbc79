"""A link on which packets vanish."""

from typing import ClassVar

import attrs

from rmqlab.faults.link.fault import Connects, LinkFault
from rmqlab.faults.link.netem import Impairment


@attrs.frozen(kw_only=True)
class Blackhole(LinkFault):
    """Packets vanish, connects hang.

    No peer sees a close, not even that of a process that is killed. What was written arrives after the heal.
    """

    kind = "blackhole"
    example: ClassVar = {"src": "broker-a", "dst": "broker-a-s"}

    @property
    def connects(self) -> Connects:
        return Connects.LOST

    def impair(self, before: Impairment) -> Impairment:
        return attrs.evolve(before, is_blocked=True)
