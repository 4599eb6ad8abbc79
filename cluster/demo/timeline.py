"""Puts what is told into the order in which it happened: journals of different processes are read one after the other.

What is told is held back for a moment, for something earlier may yet come; what comes later than that is shown late.
"""

import heapq
import itertools
from collections.abc import Callable, Iterator

import attrs


@attrs.define(eq=False)
class Timeline:
    """What waits to be shown. Times are milliseconds of the cluster's clock; those of one time keep their order."""

    _waiting: list[tuple[int, int, Callable[[], None]]] = attrs.field(factory=list, init=False)
    _numbers: Iterator[int] = attrs.field(factory=itertools.count, init=False)

    def add(self, at_millis: int, show: Callable[[], None]) -> None:
        """Take something that happened then, and the function that shows it."""
        heapq.heappush(self._waiting, (at_millis, next(self._numbers), show))

    def show_until(self, at_millis: int) -> None:
        """Show all that happened up to then, in order."""
        while self._waiting and self._waiting[0][0] <= at_millis:
            heapq.heappop(self._waiting)[2]()

    def show_all(self) -> None:
        """Show what is left, in order."""
        while self._waiting:
            heapq.heappop(self._waiting)[2]()
