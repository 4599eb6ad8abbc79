"""One direction of a connection through a bad network: when each byte comes out. Pure: the time is passed in.

What goes in comes out in order, later. A blackhole keeps it, as TCP would: the sender sends what was lost again
0.2 s later, then at doubled distances up to 120 s, so after a heal it comes out at the next of those moments.
Connecting is alike: a SYN that was lost is sent again after 1, 3, 7, 15, 31 and 63 s (Linux's defaults).
"""

import collections
import math
import random
from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from rmqlab.runtime.fault_rules import LinkRule

FIRST_RETRANSMISSION: Final = 0.2
LONGEST_RETRANSMISSION: Final = 120.0
SYN_MOMENTS: Final = (0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0)
"""Seconds after the begin of a connect at which it is tried."""
SYN_TIMEOUT: Final = 127.0
"""Seconds after which the system gives up."""

ROOM: Final = 4 * 2**20
"""Bytes under way: what a TCP connection's buffers take."""
NARROW_ROOM: Final = 64 * 1024
"""Bytes under way where the bandwidth is small: the sender shall feel it."""
_TICK: Final = 0.01
"""Seconds' worth of bandwidth that come out at once."""


@attrs.frozen(kw_only=True)
class Impairment:
    """What is done to one direction: several rules put together. Seconds and bytes."""

    is_blocked: bool = False
    is_reset: bool = False
    latency: float = 0.0
    jitter: float = 0.0
    bytes_per_second: float = math.inf
    segment: int = 0
    """Most bytes that come out at once; 0 is no limit."""
    gap: float = 0.0
    """Time between segments."""
    cut_after: int | None = None

    @classmethod
    def of(cls, rules: Iterable[LinkRule]) -> "Impairment":
        """Put rules together: latencies add up, of all else the worst counts."""
        shape = cls()
        for rule in rules:
            shape = attrs.evolve(shape, **_CHANGES[rule.kind](shape, rule))
        return shape


_CHANGES: Final[dict[str, Callable[[Impairment, LinkRule], dict[str, Any]]]] = {
    "blackhole": lambda _shape, _rule: {"is_blocked": True},
    "refuse": lambda _shape, _rule: {},
    "reset": lambda _shape, _rule: {"is_reset": True},
    "latency": lambda shape, rule: {
        "latency": shape.latency + rule.millis / 1000,
        "jitter": shape.jitter + rule.jitter_millis / 1000,
    },
    "bandwidth": lambda shape, rule: {"bytes_per_second": min(shape.bytes_per_second, rule.bytes_per_second)},
    "cut": lambda shape, rule: {"cut_after": min(shape.cut_after or rule.count, rule.count)},
    "slice": lambda shape, rule: {
        "segment": min(shape.segment or rule.count, rule.count),
        "gap": max(shape.gap, rule.millis / 1000),
    },
}

UNIMPAIRED: Final = Impairment()
"""Nothing is done."""


def next_retransmission(lost_at: float, now: float) -> float:
    """The first moment, not before now, at which TCP sends again what was first sent, and lost, at `lost_at`."""
    moment, wait = lost_at, FIRST_RETRANSMISSION
    while moment + wait < now:
        moment += wait
        wait = min(2 * wait, LONGEST_RETRANSMISSION)
    return moment + wait


@attrs.define(eq=False)
class LinkDirection:
    """Bytes on their way, and the end of the stream behind them."""

    shape: Impairment = UNIMPAIRED
    chance: random.Random = attrs.field(factory=random.Random)
    size: int = attrs.field(default=0, init=False)
    """Bytes under way."""
    is_cut: bool = attrs.field(default=False, init=False)
    """The rule that cuts has done so: nothing comes out any more."""
    _parts: collections.deque[tuple[float, memoryview]] = attrs.field(factory=collections.deque, init=False)
    _end: tuple[float, OSError | None] | None = attrs.field(default=None, init=False)
    _latest: float = attrs.field(default=0.0, init=False)  # when the last of it comes out: none overtakes another
    _free_at: float = attrs.field(default=0.0, init=False)  # when bandwidth or gap let the next one out
    _lost_at: float | None = attrs.field(default=None, init=False)
    _uncut: int | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._uncut = self.shape.cut_after

    @property
    def room(self) -> int:
        """Bytes that it still takes."""
        return max((NARROW_ROOM if self.shape.bytes_per_second < math.inf else ROOM) - self.size, 0)

    def is_straight(self, now: float) -> bool:
        """True if nothing is done to what comes, and nothing is under way."""
        return self.straight_at() <= now

    def straight_at(self) -> float:
        """From when on it is straight, if nothing goes in; infinity where that cannot be told."""
        if self.shape != UNIMPAIRED or self._parts or self._end is not None or self.is_cut:
            return math.inf
        return self._free_at

    @property
    def has_end(self) -> bool:
        """True if nothing more goes in."""
        return self._end is not None

    @property
    def is_anything_lost(self) -> bool:
        """True if something has been lost to the blackhole that it is."""
        return self._lost_at is not None

    def set_impairments(self, shape: Impairment, now: float) -> None:
        """Do something else from now on, to what is under way as well."""
        was_blocked, self.shape = self.shape.is_blocked, shape
        if shape.is_blocked and (self._parts or self._end):
            self.lose(now)
        if was_blocked and not shape.is_blocked and self._lost_at is not None:
            self._free_at = max(self._free_at, next_retransmission(self._lost_at, now))
            self._lost_at = None
        if shape.cut_after is None:
            self._uncut = None
        elif self._uncut is None:
            self._uncut = shape.cut_after

    def lose(self, now: float) -> None:
        """Something was sent into the blackhole."""
        if self._lost_at is None:
            self._lost_at = now

    def push(self, data: bytes | memoryview, now: float) -> None:
        """Take bytes, which nobody changes any more."""
        if self.shape.is_blocked:
            self.lose(now)
        self.size += len(data)
        self._parts.append((self._due(now), memoryview(data)))

    def push_end(self, error: OSError | None, now: float) -> None:
        """Take the end of the stream, or that it was reset."""
        if self.shape.is_blocked:
            self.lose(now)
        if self._end is None:
            self._end = self._due(now), error

    def take(self, limit: int, now: float) -> memoryview | None:
        """Give the bytes that come out now, at most so many. None where there are none."""
        if self.is_cut or not self._parts or self.next_at() > now:
            return None
        due, part = self._parts.popleft()
        size = min(limit, self._most(), len(part))
        if size < len(part):
            self._parts.appendleft((due, part[size:]))
        self.size -= size
        if self._uncut is not None:
            self._uncut -= size
            self.is_cut = self._uncut == 0
        if self.shape.gap or self.shape.bytes_per_second < math.inf:
            self._free_at = max(self._free_at, due) + self.shape.gap + size / self.shape.bytes_per_second
        return part[:size]

    def untake(self, data: memoryview, now: float) -> None:
        """Put back what came out and could not be used."""
        self.size += len(data)
        self._parts.appendleft((now, data))
        if self._uncut is not None:
            self._uncut += len(data)
            self.is_cut = False

    def drop(self) -> None:
        """Forget what is under way: nobody is there to take it."""
        self.size = 0
        self._parts.clear()

    def is_ended(self, now: float) -> bool:
        """True if the end has come out, or it was cut."""
        return self.is_cut or (self._end is not None and not self._parts and self.next_at() <= now)

    @property
    def error(self) -> OSError | None:
        """What the stream ended with, if it was no orderly end."""
        return None if self._end is None else self._end[1]

    def next_at(self) -> float:
        """When something comes out; infinity where nothing does by itself."""
        if self.shape.is_blocked:
            return math.inf
        if self._parts:
            return max(self._parts[0][0], self._free_at)
        return math.inf if self._end is None else max(self._end[0], self._free_at)

    def _due(self, now: float) -> float:
        shape = self.shape
        late = shape.latency + (self.chance.uniform(0, shape.jitter) if shape.jitter else 0.0)
        self._latest = max(self._latest, now + late)
        return self._latest

    def _most(self) -> int:
        """Most bytes that may come out at once."""
        shape, most = self.shape, ROOM
        if shape.segment:
            most = shape.segment
        if shape.bytes_per_second < math.inf:
            most = min(most, max(int(shape.bytes_per_second * _TICK), 1))
        return most if self._uncut is None else min(most, self._uncut)
