"""Boundaries: the places where an unexpected exception ends, so that the process goes on.

Foreign input meets our code in a request handler, a released reply, a deferred call, `on_close`, a timer, a control
message, a file, or a background loop. Each of these kinds has one boundary, and each boundary reports to the
`InternalErrors` of its process: one log line at a limited rate, and a count by place, shown in `status` as
`internal_errors` (docs/architecture.md, issue 12).
"""

import collections
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

import attrs
import trio

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
"""Seconds between the failure of a background loop and its next run; doubled with each failure in a row."""
LONGEST_PAUSE = 30.0
CALM_AFTER = 60.0
"""Seconds without a failure after which the next one counts as the first in a row."""


class FatalError(Exception):
    """A named reason for which a node ends itself. Passes every boundary; the message says what an operator can do."""


@attrs.define(eq=False)
class InternalErrors:
    """Counts exceptions that reached a boundary, by place, and logs the 1st, 10th, 100th, ... of each place.

    Limiting by count needs no clock: a peer that causes a million failures writes seven lines.
    """

    counts: collections.Counter[str] = attrs.field(factory=collections.Counter)

    def caught(self, place: str, exc: Exception, detail: str = "") -> None:
        """Record an exception. Raises it again if it is a FatalError."""
        if isinstance(exc, FatalError):
            raise exc
        self.counts[place] += 1
        count = self.counts[place]
        if str(count).strip("0") == "1":
            text = f"{place}: {detail}" if detail else place
            log.error("internal error in %s (number %d)", text[:1000], count, exc_info=exc)

    def call(self, place: str, fn: Callable[..., object], *args: object) -> bool:
        """Call a function. False if it raised."""
        try:
            fn(*args)
        except Exception as exc:  # noqa: BLE001 - this is the boundary
            self.caught(place, exc)
            return False
        return True

    async def run(self, place: str, fn: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run one background task to its end, whatever that is."""
        try:
            await fn(*args)
        except Exception as exc:  # noqa: BLE001 - this is the boundary
            self.caught(place, exc)

    async def keep_running(self, place: str, loop: Callable[..., Awaitable[object]], *args: object) -> NoReturn:
        """Run a background loop; after a failure pause and run it again. Cancellation passes."""
        pause = FIRST_PAUSE
        while True:
            began = trio.current_time()
            await self.run(place, loop, *args)
            if trio.current_time() - began > CALM_AFTER:
                pause = FIRST_PAUSE
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
