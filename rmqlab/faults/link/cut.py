"""A link whose connections end within a frame."""

from typing import ClassVar, Final

import attrs

from rmqlab.faults.link.fault import LinkFault
from rmqlab.faults.link.netem import Impairment
from rmqlab.faults.specification import option

DEFAULT_BYTES: Final = 6
"""Less than the shortest message of any protocol here, an HA report of 8 bytes."""


@attrs.frozen(kw_only=True)
class Cut(LinkFault):
    """Connections end in the middle of a frame."""

    kind = "cut"
    example: ClassVar = {"src": "broker-a", "dst": "broker-a-s", "after_bytes": 100}

    after_bytes: int | None = option(
        "Each connection ends when DST has received this many more bytes.",
        unit="bytes",
        least=1,
        default=None,
        unless_given=DEFAULT_BYTES,
    )

    def impair(self, before: Impairment) -> Impairment:
        after = self.after_bytes or DEFAULT_BYTES
        return attrs.evolve(before, cut_after=min(before.cut_after or after, after))
