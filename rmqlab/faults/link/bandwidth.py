"""A narrow link."""

from typing import ClassVar

import attrs

from rmqlab.faults.link.fault import LinkFault
from rmqlab.faults.link.netem import Impairment
from rmqlab.faults.specification import option


@attrs.frozen(kw_only=True)
class Bandwidth(LinkFault):
    """Limits the rate of each connection."""

    kind = "bandwidth"
    example: ClassVar = {"src": "broker-a", "dst": "broker-a-s", "bytes_per_second": 20_000}

    bytes_per_second: float = option("The rate of each connection.", unit="bytes/s", above=0)

    def impair(self, before: Impairment) -> Impairment:
        return attrs.evolve(before, bytes_per_second=min(before.bytes_per_second, self.bytes_per_second))
