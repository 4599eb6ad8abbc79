"""Broker groups that do not respond: descriptions, and time limits. No I/O."""

from collections.abc import Collection, Iterable, Mapping

import attrs

from rmqlab.pipeline.options import shortened
from rmqlab.pipeline.topics.topicoffsets import QueueName


@attrs.frozen
class Silence:
    """A broker group without a responding member, the affected queues, and the error."""

    broker: str
    queues: tuple[QueueName, ...]
    reason: str

    def __str__(self) -> str:
        queues = f" ({shortened(self.queues)})" if self.queues else ""
        return f"{self.broker}{queues}: {self.reason}"


def silences(reasons: Mapping[QueueName, str]) -> list[Silence]:
    """Group the queues without a response by broker.

    The reason is that of the first queue.
    """
    by_broker: dict[str, list[QueueName]] = {}
    for queue in sorted(reasons):
        by_broker.setdefault(queue.broker, []).append(queue)
    return [Silence(broker, tuple(queues), reasons[queues[0]]) for broker, queues in by_broker.items()]


@attrs.define(eq=False)
class SilenceWatch:
    """Measures how many seconds broker groups are silent, over rounds of requests."""

    seconds: float
    """Seconds of silence after which a group is overdue."""
    _since: dict[str, float] = attrs.field(factory=dict, init=False)

    def overdue(self, asked: Collection[str], silent: Iterable[Silence], now: float) -> list[Silence]:
        """Process one round: the groups asked, and the silent ones.

        Returns those silent for too long.
        """
        silent = list(silent)
        for broker in set(asked) - {one.broker for one in silent}:
            self._since.pop(broker, None)
        return [one for one in silent if now - self._since.setdefault(one.broker, now) >= self.seconds]
