"""A link whose receiver reads slowly."""

from typing import ClassVar, Final

import attrs

from rmqlab.faults.link.fault import LinkFault
from rmqlab.faults.link.netem import Impairment
from rmqlab.faults.specification import option

WINDOW_BYTES: Final = 64 * 1024
_MOST_WINDOW: Final = 2**30
"""The kernel doubles it, and keeps it in 32 bits."""


@attrs.frozen(kw_only=True)
class SlowReader(LinkFault):
    """DST reads slowly what SRC sends, so the buffers of SRC fill.

    The receive buffer of each connection is small while the fault is in force. Then the send buffer of SRC's system
    fills, up to some MB, and SRC keeps the rest itself.
    """

    kind = "slow-reader"
    example: ClassVar = {"src": "broker-a", "dst": "outside", "only": "remoting", "read_bytes": 1000}

    read_bytes: float = option("How fast DST reads each connection.", unit="bytes/s", above=0)
    window_bytes: int | None = option(
        "The receive buffer of each connection.",
        unit="bytes",
        least=1,
        most=_MOST_WINDOW,
        default=None,
        unless_given=WINDOW_BYTES,
    )

    def impair(self, before: Impairment) -> Impairment:
        window = self.window_bytes or WINDOW_BYTES
        return attrs.evolve(
            before,
            bytes_per_second=min(before.bytes_per_second, self.read_bytes),
            window=min(before.window or window, window),
        )
