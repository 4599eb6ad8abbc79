"""Recent statistics of a consumer (class ConsumerStatsManager). Pure.

`mqadmin consumerStatus` shows them. Rates are those of the last minute, as far as it is over: counted in steps of ten
seconds.
"""

import collections
from collections.abc import Callable

import attrs

from rmqlab.remoting.bodies.runtime import ConsumeStatus

STEP = 10.0
"""Seconds."""
STEPS = 6
HOUR = 3600.0


@attrs.define(eq=False)
class Recent:
    """A sum and a count over the last `steps` periods and the current one.

    A period has `step` seconds.
    """

    step: float = STEP
    steps: int = STEPS
    _parts: collections.deque[list[float]] = attrs.field(factory=collections.deque, init=False)
    """Each: number of the step, sum, count."""

    def add(self, now: float, value: float, count: int = 1) -> None:
        """Add a value of the current time."""
        number = now // self.step
        if not self._parts or self._parts[-1][0] != number:
            self._parts.append([number, 0.0, 0])
            self._forget(now)
        self._parts[-1][1] += value
        self._parts[-1][2] += count

    def total(self, now: float) -> float:
        """Return the sum."""
        self._forget(now)
        return sum(part[1] for part in self._parts)

    def mean(self, now: float) -> float:
        """Return the average; 0 without values."""
        self._forget(now)
        count = sum(part[2] for part in self._parts)
        return sum(part[1] for part in self._parts) / count if count else 0.0

    def per_second(self, now: float, since: float) -> float:
        """Return the sum per second of the time that it covers.

        Shortly after `since`, that is less than all periods.
        """
        covered = min(now - since, self.step * (self.steps + (now % self.step) / self.step))
        return self.total(now) / max(covered, 1.0)

    def _forget(self, now: float) -> None:
        oldest = now // self.step - self.steps
        while self._parts and self._parts[0][0] < oldest:
            self._parts.popleft()


@attrs.define(eq=False)
class _Topic:
    pulled: Recent = attrs.field(factory=Recent)
    pull_millis: Recent = attrs.field(factory=Recent)
    consumed: Recent = attrs.field(factory=Recent)
    consume_millis: Recent = attrs.field(factory=Recent)
    failed: Recent = attrs.field(factory=Recent)
    failed_in_hour: Recent = attrs.field(factory=lambda: Recent(HOUR / STEPS, STEPS))


@attrs.define(eq=False)
class ConsumeStats:
    """Rates and times by topic. `now` returns seconds of the process's clock."""

    now: Callable[[], float]
    began_at: float
    _topics: dict[str, _Topic] = attrs.field(factory=lambda: collections.defaultdict(_Topic), init=False)

    def pulled(self, topic: str, messages: int, took: float) -> None:
        """Record a pull with messages, and its duration in seconds."""
        now, of_topic = self.now(), self._topics[topic]
        of_topic.pulled.add(now, messages)
        of_topic.pull_millis.add(now, took * 1000)

    def consumed(self, topic: str, messages: int, failed: int, took: float) -> None:
        """Record a call of the application's function: messages, and how many failed."""
        now, of_topic = self.now(), self._topics[topic]
        of_topic.consume_millis.add(now, took * 1000)
        of_topic.consumed.add(now, messages - failed)
        if failed:
            of_topic.failed.add(now, failed)
            of_topic.failed_in_hour.add(now, failed)

    def table(self) -> dict[str, ConsumeStatus]:
        """Return the data of request 307."""
        now, since = self.now(), self.began_at
        return {
            topic: ConsumeStatus(
                pull_rt=of_topic.pull_millis.mean(now),
                pull_tps=of_topic.pulled.per_second(now, since),
                consume_rt=of_topic.consume_millis.mean(now),
                consume_ok_tps=of_topic.consumed.per_second(now, since),
                consume_failed_tps=of_topic.failed.per_second(now, since),
                consume_failed_msgs=int(of_topic.failed_in_hour.total(now)),
            )
            for topic, of_topic in self._topics.items()
        }
