"""A link on which bytes change on their way."""

import logging
import math
import random
from typing import ClassVar, Final

import attrs

from rmqlab.faults.link.fault import LinkFault, Transform
from rmqlab.faults.specification import option

log = logging.getLogger(__name__)

EVERY_BYTES: Final = 10_000
_MOST_LINES: Final = 20
"""Changed bytes that a node logs; the others are only counted."""


@attrs.frozen(kw_only=True)
class Corrupt(LinkFault):
    """Single bytes arrive with another value.

    It is damage that TCP's checksum misses, such as that of a faulty network card or router. Changed bytes are chosen
    at random from a seed: the same seed changes the same positions of what a node receives. The node's log names the
    first 20. After `--count` of them bytes pass unchanged, until the fault is healed.
    """

    kind = "corrupt"
    example: ClassVar = {"src": "broker-a", "dst": "broker-a-s", "only": "ha", "every_bytes": 50_000, "count": 1}

    every_bytes: int | None = option(
        "Mean distance of changed bytes.", unit="bytes", least=1, default=None, unless_given=EVERY_BYTES
    )
    count: int | None = option(
        "Bytes to change at each receiving node.", least=1, default=None, unless_given="no limit"
    )
    seed: int | None = option("Random seed.", default=None, unless_given=0)

    def open_transform(self, salt: str) -> Transform:
        return ByteCorrupter(self, random.Random(f"{self.seed or 0} {salt}"))  # noqa: S311 -- to be repeated


class ByteCorrupter:
    """Changes bytes of a link at one node, in one direction, over all connections."""

    def __init__(self, fault: Corrupt, chance: random.Random) -> None:
        self._link = f"{fault.src} -> {fault.dst}"
        self._mean = fault.every_bytes or EVERY_BYTES
        self._left = math.inf if fault.count is None else fault.count
        self._chance = chance
        self._passed = 0
        self._next = self._distance()
        self._changed = 0

    def __call__(self, data: bytes) -> bytes:
        """Return the bytes with those changed that are due."""
        end = self._passed + len(data)
        if self._next >= end or not self._left:
            self._passed = end
            return data
        changed = bytearray(data)
        while self._next < end and self._left:
            self._change(changed, self._next - self._passed)
            self._left -= 1
            self._next += 1 + self._distance()
        self._passed = end
        return bytes(changed)

    def _change(self, data: bytearray, at: int) -> None:
        before = data[at]
        data[at] ^= self._chance.randrange(1, 256)
        self._changed += 1
        if self._changed <= _MOST_LINES:
            end = " (the last one logged)" if self._changed == _MOST_LINES else ""
            log.info("link %s: byte %d is now %#04x, was %#04x%s", self._link, self._next, data[at], before, end)

    def _distance(self) -> int:
        """Return how many bytes pass before the next change.

        On average one less than the mean distance.
        """
        if self._mean == 1:
            return 0
        return int(math.log(1.0 - self._chance.random()) / math.log1p(-1 / self._mean))
