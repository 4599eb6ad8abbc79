"""One direction of a connection through a bad network: when each byte arrives.

Pure: the time is passed in.

Bytes arrive in order, later than they were sent. A lost packet is sent again, and those behind it wait. A blackhole
keeps them, as TCP does: the sender retransmits lost bytes after 0.2 s, then at doubled intervals up to 120 s, so after
a heal they arrive at the next of those moments. Connects behave alike: a lost SYN is sent again after 1, 3, 7, 15, 31
and 63 s (Linux's defaults).
"""

import collections
import math
import random
from collections.abc import Callable, Iterator
from typing import Final

import attrs

FIRST_RETRANSMISSION: Final = 0.2
LONGEST_RETRANSMISSION: Final = 120.0
SYN_MOMENTS: Final = (0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0)
"""Seconds after the start of a connect at which a SYN is sent."""
SYN_TIMEOUT: Final = 127.0
"""Seconds after which the system aborts a connect."""

ROOM: Final = 4 * 2**20
"""Bytes in flight: about the size of a TCP connection's buffers."""
PACKET: Final = 1460
"""Bytes of a packet: the payload of TCP on Ethernet."""
NARROW_ROOM: Final = 64 * 1024
"""Bytes in flight under a bandwidth limit: few, so that the sender blocks."""
MOST_PARTS: Final = 8_192
"""Sends in flight, each of any size: as the system, which counts some 700 bytes for a packet of one byte."""
_TICK: Final = 0.01
"""Seconds' worth of bandwidth that arrive at once."""


@attrs.frozen(kw_only=True)
class Impairment:
    """The effect of all link faults on one direction. Seconds and bytes."""

    is_blocked: bool = False
    is_reset: bool = False
    latency: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    """Fraction of packets that are lost and sent again, 0 to 1."""
    reordering: float = 0.0
    """Fraction of packets that are overtaken, 0 to 1."""
    reorder_delay: float = 0.0
    """How much later these arrive."""
    bytes_per_second: float = math.inf
    window: int = 0
    """Size of the receive buffer; 0: the system's."""
    segment: int = 0
    """Most bytes that arrive at once; 0: no limit."""
    gap: float = 0.0
    """Time between segments."""
    cut_after: int | None = None
    """Bytes after which the connection ends."""
    transforms: tuple[Callable[[bytes], bytes], ...] = ()
    """Change the bytes of each receive or send, in order; all connections share them, and any state that they keep."""


UNIMPAIRED: Final = Impairment()
"""Bytes pass as they are."""


def next_retransmission(lost_at: float, now: float) -> float:
    """Return when TCP next retransmits a packet lost at `lost_at`, not before now."""
    moment, wait = lost_at, FIRST_RETRANSMISSION
    while moment + wait < now:
        moment += wait
        wait = min(2 * wait, LONGEST_RETRANSMISSION)
    return moment + wait


def _seeded() -> random.Random:
    """Return a generator that a process with a seed repeats."""
    return random.Random(random.getrandbits(64))  # noqa: S311 -- jitter


@attrs.define(eq=False)
class LinkDirection:
    """The bytes in flight in one direction, and the end of the stream behind them."""

    impairment: Impairment = UNIMPAIRED
    rng: random.Random = attrs.field(factory=_seeded)
    size: int = attrs.field(default=0, init=False)
    """Bytes in flight."""
    is_cut: bool = attrs.field(default=False, init=False)
    """True once a cut has ended the stream: nothing more arrives."""
    _parts: collections.deque[tuple[float, memoryview]] = attrs.field(factory=collections.deque, init=False)
    _end: tuple[float, OSError | None] | None = attrs.field(default=None, init=False)
    _latest: float = attrs.field(default=0.0, init=False)  # when the last byte arrives: none overtakes another
    _free_at: float = attrs.field(default=0.0, init=False)  # when bandwidth and gap allow the next byte
    _lost_at: float | None = attrs.field(default=None, init=False)
    _uncut: int | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._uncut = self.impairment.cut_after

    @property
    def room(self) -> int:
        """How many bytes `push` accepts."""
        if len(self._parts) >= MOST_PARTS:
            return 0
        most = NARROW_ROOM if self.impairment.bytes_per_second < math.inf else ROOM
        return max(min(most, self.impairment.window or most) - self.size, 0)

    def is_transparent(self, now: float) -> bool:
        """True when bytes pass through unchanged and nothing is in flight."""
        return self.transparent_at() <= now

    def transparent_at(self) -> float:
        """Return from when on it is transparent if nothing is pushed.

        Infinity if that is unknown.
        """
        if self.impairment != UNIMPAIRED or self._parts or self._end is not None or self.is_cut:
            return math.inf
        return self._free_at

    @property
    def has_end(self) -> bool:
        """True once the end of the stream was pushed."""
        return self._end is not None

    @property
    def is_anything_lost(self) -> bool:
        """True if a blackhole has lost something."""
        return self._lost_at is not None

    def set_impairment(self, impairment: Impairment, now: float) -> None:
        """Apply this effect from now on, to bytes in flight as well."""
        before, self.impairment = self.impairment, impairment
        if impairment.is_blocked and (self._parts or self._end):
            self.lose(now)
        if before.is_blocked and not impairment.is_blocked and self._lost_at is not None:
            self._free_at = max(self._free_at, next_retransmission(self._lost_at, now))
            self._lost_at = None
        self._change_cut(before.cut_after, impairment.cut_after)

    def _change_cut(self, before: int | None, after: int | None) -> None:
        """Count on to a cut that remains, and from now to another one.

        That one is new, or left after the heal of one that would have come sooner.
        """
        is_sooner = before is not None and after is not None and after < before
        if is_sooner and self._uncut is not None and after is not None:
            self._uncut = min(self._uncut, after)
        elif after != before:
            self._uncut = after

    def lose(self, now: float) -> None:
        """Note that something was sent into a blackhole."""
        if self._lost_at is None:
            self._lost_at = now

    def push(self, data: bytes | memoryview, now: float) -> None:
        """Send bytes, which the caller does not change afterwards."""
        if self.impairment.is_blocked:
            self.lose(now)
        for transform in self.impairment.transforms:
            data = transform(bytes(data))
        if not data:
            return
        self.size += len(data)
        self._parts.extend(self._packets(memoryview(data), now))

    def push_end(self, error: OSError | None, now: float) -> None:
        """End the stream: in order, or with the error of a reset."""
        if self.impairment.is_blocked:
            self.lose(now)
        if self._end is None:
            self._end = self._due(now), error

    def take(self, limit: int, now: float) -> memoryview | None:
        """Return bytes that have arrived, at most so many; None if there are none."""
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
        if self.impairment.gap or self.impairment.bytes_per_second < math.inf:
            self._free_at = max(self._free_at, due) + self.impairment.gap + size / self.impairment.bytes_per_second
        return part[:size]

    def untake(self, data: memoryview, now: float) -> None:
        """Put back bytes that could not be delivered."""
        self.size += len(data)
        self._parts.appendleft((now, data))
        if self._uncut is not None:
            self._uncut += len(data)
            self.is_cut = False

    def drop(self) -> None:
        """Forget the bytes in flight: the receiver is gone."""
        self.size = 0
        self._parts.clear()

    def is_ended(self, now: float) -> bool:
        """True if the end of the stream has arrived, or it was cut."""
        return self.is_cut or (self._end is not None and not self._parts and self.next_at() <= now)

    @property
    def error(self) -> OSError | None:
        """The error that the stream ended with; None for an orderly end."""
        return None if self._end is None else self._end[1]

    def next_at(self) -> float:
        """Return when the next bytes or the end arrive.

        Infinity if nothing does by itself.
        """
        if self.impairment.is_blocked:
            return math.inf
        if self._parts:
            return max(self._parts[0][0], self._free_at)
        return math.inf if self._end is None else max(self._end[0], self._free_at)

    def _packets(self, data: memoryview, now: float) -> Iterator[tuple[float, memoryview]]:
        """Cut where packets arrive at different times."""
        is_cut = self.impairment.loss or self.impairment.reordering
        begin, due = 0, self._due(now)
        for at in range(PACKET, len(data), PACKET) if is_cut else ():
            moment = self._due(now)
            if moment != due:
                yield due, data[begin:at]
                begin, due = at, moment
        yield due, data[begin:]

    def _due(self, now: float) -> float:
        """Return when the next packet arrives: not before those sent earlier."""
        impairment = self.impairment
        late = impairment.latency + (self.rng.uniform(0, impairment.jitter) if impairment.jitter else 0.0)
        wait = FIRST_RETRANSMISSION
        while impairment.loss and self.rng.random() < impairment.loss:
            late += wait
            wait = min(2 * wait, LONGEST_RETRANSMISSION)
        if impairment.reordering and self.rng.random() < impairment.reordering:
            late += impairment.reorder_delay
        self._latest = max(self._latest, now + late)
        return self._latest

    def _most(self) -> int:
        """Return how many bytes may arrive at once."""
        impairment, most = self.impairment, ROOM
        if impairment.segment:
            most = impairment.segment
        if impairment.bytes_per_second < math.inf:
            most = min(most, max(int(impairment.bytes_per_second * _TICK), 1))
        return most if self._uncut is None else min(most, self._uncut)
