"""A link whose receiver has no room for another connection."""

from typing import ClassVar

import attrs

from rmqlab.faults.link.fault import Connects, LinkFault
from rmqlab.faults.specification import option


@attrs.frozen(kw_only=True)
class FullTable(LinkFault):
    """DST accepts no more connections from SRC; live ones continue.

    New connections wait in the backlog, as those of a process that has no file descriptor left: connects succeed, and
    requests get no reply. After the heal DST accepts them, and serves what they have sent. With `--backlog-full`
    connects hang: the SYN is lost, and sent again after 1, 3, 7, ... s.
    """

    kind = "full-table"
    example: ClassVar = {"src": "*", "dst": "broker-a"}

    is_backlog_full: bool = option(
        "New connections hang: the backlog is full, too.", default=False, flag="--backlog-full"
    )

    @property
    def connects(self) -> Connects:
        return Connects.HANGING if self.is_backlog_full else Connects.WAITING
