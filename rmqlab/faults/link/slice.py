"""A link on which data arrive in pieces."""

from typing import ClassVar

import attrs

from rmqlab.faults.link.fault import LinkFault
from rmqlab.faults.link.netem import Impairment
from rmqlab.faults.specification import option


@attrs.frozen(kw_only=True)
class Slice(LinkFault):
    """Data arrive in tiny pieces."""

    kind = "slice"
    example: ClassVar = {"src": "outside", "dst": "broker-a", "segment_bytes": 1, "gap_millis": 5}

    segment_bytes: int | None = option(
        "Most bytes that arrive at once.", unit="bytes", least=1, default=None, unless_given=1
    )
    gap_millis: float | None = option(
        "Time between two pieces.", unit="ms", least=0, default=None, unless_given=0, flag="--gap"
    )

    def impair(self, before: Impairment) -> Impairment:
        segment = self.segment_bytes or 1
        return attrs.evolve(
            before,
            segment=min(before.segment or segment, segment),
            gap=max(before.gap, (self.gap_millis or 0) / 1000),
        )
