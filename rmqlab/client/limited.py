"""Many calls, a limited number of them at a time."""

from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeVar, TypeVarTuple

import trio

R = TypeVar("R")
T = TypeVar("T")
Args = TypeVarTuple("Args")

MAX_AT_ONCE: Final = 50


async def for_each(items: Collection[T], call: Callable[[T], Awaitable[object]], *, at_once: int = MAX_AT_ONCE) -> None:
    """Await a call for each item, a limited number at a time.

    A route may have thousands of addresses, and a topic 100,000 queues. Tasks for all of them would hold up the event
    loop for seconds, and their requests would time out before a broker has replied to them all.
    """
    left = iter(items)

    async def call_next() -> None:
        for item in left:
            await call(item)

    async with trio.open_nursery() as nursery:
        for _ in range(min(at_once, len(items))):
            nursery.start_soon(call_next)


class Limit:
    """Runs a limited number of calls at a time; others wait for their turn."""

    def __init__(self, most: int) -> None:
        self._free = trio.Semaphore(most)

    async def call(self, fn: Callable[[*Args], Awaitable[R]], *args: *Args) -> R:
        """Await `fn(*args)` in its turn."""
        try:
            self._free.acquire_nowait()  # without a turn of the event loop
        except trio.WouldBlock:
            await self._free.acquire()
        try:
            return await fn(*args)
        finally:
            self._free.release()
