"""Boundaries: the places that catch unexpected exceptions.

The process continues after such an exception. Foreign input reaches our code in a request handler, a released reply, a
deferred call, `on_close`, a timer, a control message, a file, or a background loop. Each of these kinds has one
boundary, and each boundary reports to the `InternalErrors` of its process: one log line at a limited rate, and a count
by place, shown in `status` as `internal_errors` (docs/architecture.md, issue 12).
"""

import collections
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

import attrs
import trio

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
"""Seconds between the failure of a background loop and its restart; doubled on each consecutive failure."""
LONGEST_PAUSE = 30.0
CALM_AFTER = 60.0
"""Seconds without a failure after which the restart delay is reset."""


class FatalError(Exception):
    """An error that ends the node.

    No boundary catches it; the message suggests what an operator can do.
    """


@attrs.define(eq=False)
class InternalErrors:
    """Counts exceptions at boundaries by place, and logs some of them.

    The 1st, 10th, 100th, ... of each place is logged. A limit by count needs no clock: a peer that causes a million
    failures adds seven lines to the log.
    """

    counts: collections.Counter[str] = attrs.field(factory=collections.Counter)

    def caught(self, place: str, exc: Exception, detail: str = "") -> None:
        """Count and log an exception. Raises it again if it is a FatalError."""
        if isinstance(exc, FatalError):
            raise exc
        self.counts[place] += 1
        count = self.counts[place]
        if str(count).strip("0") == "1":
            text = f"{place}: {detail}" if detail else place
            log.error("internal error in %s (number %d)", text[:1000], count, exc_info=exc)

    def call(self, place: str, fn: Callable[..., object], *args: object) -> bool:
        """Call a function. Return False if it raised."""
        try:
            fn(*args)
        except Exception as exc:  # noqa: BLE001 - this is the boundary
            self.caught(place, exc)
            return False
        return True

    async def run(self, place: str, fn: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run one background task, and record the exception if it fails."""
        try:
            await fn(*args)
        except Exception as exc:  # noqa: BLE001 - this is the boundary
            self.caught(place, exc)

    async def keep_running(self, place: str, loop: Callable[..., Awaitable[object]], *args: object) -> NoReturn:
        """Run a background loop and restart it, after a delay, when it fails.

        Cancelled raises as usual.
        """
        pause = FIRST_PAUSE
        while True:
            began = trio.current_time()
            await self.run(place, loop, *args)
            if trio.current_time() - began > CALM_AFTER:
                pause = FIRST_PAUSE
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
