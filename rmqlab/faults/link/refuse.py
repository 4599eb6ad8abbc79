"""A link over which no new connection can be made."""

from typing import ClassVar

import attrs

from rmqlab.faults.link.fault import Connects, LinkFault


@attrs.frozen(kw_only=True)
class Refuse(LinkFault):
    """New connections from SRC to DST are refused; live ones continue."""

    kind = "refuse"
    example: ClassVar = {"src": "*", "dst": "namesrv-1"}

    @property
    def connects(self) -> Connects:
        return Connects.REFUSED
