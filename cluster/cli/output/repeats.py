"""Folds failures of a workload that repeat, and events of single queues.

The first event is one line. While a failure repeats, a line with the count follows every few seconds.
"""

import re
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import attrs

Event = Mapping[str, Any]

SECONDS = 5.0
"""Real seconds between lines of the same failure."""
_PER_QUEUE = ("pulling_from", "pull_resumed", "committing_to")
"""Kinds with an event for each queue: one line for each broker is enough, without a count."""
_NUMBER = re.compile(r"\d+")


@attrs.define
class _Run:
    """A failure that repeats."""

    latest: Event
    shown_at: float
    count: int = 0
    """Number of events since the last line."""


@attrs.define(eq=False)
class RepeatFolder:
    """Shows events, and folds failures that differ only in numbers.

    It shows the first one, and then one line every SECONDS.
    """

    show: Callable[[Event, int], object]
    """Receives an event, and the number of equal events."""
    now: Callable[[], float] = time.monotonic
    _runs: dict[Hashable, _Run] = attrs.field(factory=dict, init=False)

    def add(self, event: Event) -> None:
        """Show an event, or count it."""
        if (key := _key(event)) is None:
            self.show(event, 1)
        elif (run := self._runs.get(key)) is None:
            self._runs[key] = _Run(event, self.now())
            self.show(event, 1)
        elif event["kind"] not in _PER_QUEUE:
            run.latest, run.count = event, run.count + 1
            self.show_due()

    def show_due(self) -> None:
        """Show the count of each failure whose last line is old.

        Forget those that did not repeat since.
        """
        now = self.now()
        for key, run in list(self._runs.items()):
            if now - run.shown_at >= SECONDS:
                if run.count:
                    self.show(run.latest, run.count)
                    run.shown_at, run.count = now, 0
                else:
                    del self._runs[key]

    def close(self) -> None:
        """Show the counts since the last lines."""
        for run in self._runs.values():
            if run.count:
                self.show(run.latest, run.count)
        self._runs.clear()


def _key(event: Event) -> Hashable:
    """Return the key of equal failures; None for other events."""
    if event["kind"] in _PER_QUEUE:
        return event["kind"], event.get("address")
    if not event.get("error") and event["kind"] != "sent":
        return None
    names = ("broker", "broker_name", "queue", "outcome", "error", "remark")
    return event["kind"], *(_NUMBER.sub("#", str(event.get(name))) for name in names)
