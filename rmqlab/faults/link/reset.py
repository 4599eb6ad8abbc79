"""A link whose connections are reset."""

from typing import ClassVar

import attrs

from rmqlab.faults.link.fault import LinkFault
from rmqlab.faults.link.netem import Impairment


@attrs.frozen(kw_only=True)
class Reset(LinkFault):
    """Live connections are reset at both ends, new ones at SRC's first byte."""

    kind = "reset"
    example: ClassVar = {"src": "broker-a", "dst": "broker-a-s"}

    def impair(self, before: Impairment) -> Impairment:
        return attrs.evolve(before, is_reset=True)
