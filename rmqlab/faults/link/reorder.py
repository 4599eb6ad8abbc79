"""A link on which packets overtake each other."""

from typing import ClassVar, Final

import attrs

from rmqlab.faults.link.fault import LinkFault
from rmqlab.faults.link.netem import Impairment
from rmqlab.faults.specification import option

MILLIS: Final = 5.0


@attrs.frozen(kw_only=True)
class Reorder(LinkFault):
    """Packets of 1460 bytes are overtaken by those behind them.

    TCP puts them in order again, so what shows is a short delay: the bytes behind an overtaken packet wait until it
    has arrived.
    """

    kind = "reorder"
    example: ClassVar = {"src": "broker-a", "dst": "broker-a-s", "percent": 20}

    percent: float = option("Share of packets that are overtaken.", unit="%", above=0, most=100)
    late_millis: float | None = option(
        "Delay of an overtaken packet.",
        unit="ms",
        above=0,
        default=None,
        unless_given=f"{MILLIS:g}",
        flag="--late",
    )

    def impair(self, before: Impairment) -> Impairment:
        late = MILLIS if self.late_millis is None else self.late_millis
        return attrs.evolve(
            before,
            reordering=1 - (1 - before.reordering) * (1 - self.percent / 100),
            reorder_delay=max(before.reorder_delay, late / 1000),
        )
