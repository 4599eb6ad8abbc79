"""A slow link."""

from typing import ClassVar

import attrs

from rmqlab.faults.link.fault import LinkFault
from rmqlab.faults.link.netem import Impairment
from rmqlab.faults.specification import option


@attrs.frozen(kw_only=True)
class Latency(LinkFault):
    """Bytes arrive later, in order. Several latencies add up."""

    kind = "latency"
    example: ClassVar = {"src": "broker-a-s", "dst": "broker-a", "millis": 200, "jitter_millis": 50, "only": "ha"}

    millis: float = option("Delay added to all bytes.", unit="ms", least=0)
    jitter_millis: float | None = option(
        "Random delay added on top, at most this.", unit="ms", least=0, default=None, flag="--jitter"
    )

    def impair(self, before: Impairment) -> Impairment:
        return attrs.evolve(
            before,
            latency=before.latency + self.millis / 1000,
            jitter=before.jitter + (self.jitter_millis or 0) / 1000,
        )
