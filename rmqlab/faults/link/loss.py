"""A link that loses packets."""

from typing import ClassVar

import attrs

from rmqlab.faults.link.fault import LinkFault
from rmqlab.faults.link.netem import Impairment
from rmqlab.faults.specification import option


@attrs.frozen(kw_only=True)
class Loss(LinkFault):
    """Packets of 1460 bytes are lost, and sent again by TCP.

    No byte is missing and none overtakes another: a lost packet and all bytes behind it arrive 0.2 s later, at the
    next retransmission. If that is lost as well, the wait doubles. A lost SYN is sent again after 1, 3, 7, ... s.
    """

    kind = "loss"
    example: ClassVar = {"src": "broker-a", "dst": "broker-a-s", "percent": 5}

    percent: float = option("Share of packets that are lost.", unit="%", above=0, most=99)

    def impair(self, before: Impairment) -> Impairment:
        passing = (1 - before.loss) * (1 - self.percent / 100)
        return attrs.evolve(before, loss=1 - passing)
