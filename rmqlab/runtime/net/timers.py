"""Timers: one task makes all scheduled calls, and sleeps until the next is due."""

import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from typing import NoReturn

import attrs
import trio


@attrs.define(eq=False)
class Timers:
    """Calls functions at times of trio's clock, in order.

    `run` must catch their exceptions.
    """

    run: Callable[[Callable[[], None]], None] = lambda fn: fn()
    """Makes one call."""
    _heap: list[tuple[float, int, Callable[[], None]]] = attrs.field(factory=list, init=False)
    _numbers: Iterator[int] = attrs.field(factory=itertools.count, init=False)
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)

    def call_at(self, moment: float, fn: Callable[[], None]) -> None:
        """Call `fn` once at this time or soon after, never from within this method.

        It cannot be cancelled.
        """
        heapq.heappush(self._heap, (moment, next(self._numbers), fn))
        if self._heap[0][2] is fn:
            self._changed.set()

    async def run_forever(self) -> NoReturn:
        """Make the calls when they are due."""
        while True:
            with trio.move_on_at(self._heap[0][0] if self._heap else math.inf):
                await self._changed.wait()
            self._changed = trio.Event()
            now = trio.current_time()
            while self._heap and self._heap[0][0] <= now:
                self.run(heapq.heappop(self._heap)[2])
