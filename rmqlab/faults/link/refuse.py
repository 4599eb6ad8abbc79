"""A link over which no new connection can be made."""

from typing import ClassVar

import attrs

from rmqlab.faults.link.fault import LinkFault


@attrs.frozen(kw_only=True)
class Refuse(LinkFault):
    """New connections from SRC to DST are refused; live ones continue."""

    kind = "refuse"
    example: ClassVar = {"src": "*", "dst": "namesrv-1"}
    refuses_connections = True
