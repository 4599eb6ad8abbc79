"""Base class of all link faults."""

import enum
import functools
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import attrs

from rmqlab.faults.link.netem import UNIMPAIRED, Impairment
from rmqlab.faults.specification import Fault, option

PLANES: Final = ("remoting", "vip", "ha")
OUTSIDE: Final = "outside"
"""All peers that are not part of the cluster: clients at 127.0.0.1 or anywhere else."""
ANYONE: Final = "*"
"""All other peers, those outside and later ones included."""


class Connects(enum.Enum):
    """Effect on new connections from src to dst."""

    MADE = enum.auto()
    REFUSED = enum.auto()
    """They fail at once."""
    LOST = enum.auto()
    """Connects hang in both directions, because the SYN or its reply is lost."""
    HANGING = enum.auto()
    """They hang: dst ignores the SYN."""
    WAITING = enum.auto()
    """They succeed, but dst does not accept them."""


Transform: TypeAlias = Callable[[bytes], bytes]
"""Changes the bytes of a receive or send."""

_END = "A node, all of a role (broker-a:slave) or group (broker-a:*), outside, or * for all others."


@attrs.frozen(kw_only=True)
class LinkFault(Fault):
    """Disturb what SRC sends to DST; what DST sends to SRC stays intact.

    Times are ms of the cluster's clock.
    """

    family = "link"
    src: str = option(f"The sender. {_END}", is_argument=True)
    dst: str = option("The receiver.", is_argument=True)
    only: str | None = option(
        "Only connections to this kind of port; ha is that of replication, also of a DLedger group.",
        default=None,
        choices=PLANES,
    )
    both_ways: bool = option("Also from DST to SRC.", default=False)

    @property
    def targets(self) -> tuple[str, ...]:
        return self.src, self.dst

    @property
    def connects(self) -> Connects:
        """Effect of the fault on new connections."""
        return Connects.MADE

    def impair(self, before: Impairment) -> Impairment:
        """Add the effect on bytes that go one way to that of the faults before this one."""
        return before

    def open_transform(self, salt: str) -> Transform | None:  # noqa: ARG002 -- for random choices
        """Return a transform with a state, or None.

        It changes all bytes of one direction at one node. It is kept as long as the fault is in force. `salt` names the
        node and the direction, for a fault with a seed.
        """
        return None


def impairment_of(faults: Iterable[LinkFault]) -> Impairment:
    """Put the effects of several faults on one direction together."""
    return functools.reduce(lambda before, fault: fault.impair(before), faults, UNIMPAIRED)
