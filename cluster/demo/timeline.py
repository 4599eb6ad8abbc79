"""Sorts lines by the time of their events.

The journals of different processes are read one after the other. Lines are delayed for a moment, so that earlier events
can still arrive. Lines that arrive later are out of order.
"""

import heapq
import itertools
from collections.abc import Callable, Iterator

import attrs


@attrs.define(eq=False)
class Timeline:
    """Lines that wait to be shown, by time in ms of the cluster's clock.

    Lines of equal time keep their order.
    """

    _waiting: list[tuple[int, int, Callable[[], None]]] = attrs.field(factory=list, init=False)
    _numbers: Iterator[int] = attrs.field(factory=itertools.count, init=False)

    def add(self, at_millis: int, show: Callable[[], None]) -> None:
        """Add an event's time and the function that shows it."""
        heapq.heappush(self._waiting, (at_millis, next(self._numbers), show))

    def show_until(self, at_millis: int) -> None:
        """Show all events up to a time, in order."""
        while self._waiting and self._waiting[0][0] <= at_millis:
            heapq.heappop(self._waiting)[2]()

    def show_all(self) -> None:
        """Show the remaining events, in order."""
        while self._waiting:
            heapq.heappop(self._waiting)[2]()
