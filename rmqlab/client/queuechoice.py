"""The queue of the next attempt of a send. Pure: no I/O, no clock.

Sources: classes TopicPublishInfo, MQFaultStrategy, LatencyFaultToleranceImpl; broker-requests section 1.9.
"""

import random
from collections.abc import Sequence

import attrs

from rmqlab.remoting.bodies.queue import MessageQueue

AVOIDED_FOR = ((15.0, 600.0), (3.0, 180.0), (2.0, 120.0), (1.0, 60.0), (0.55, 30.0))
"""Seconds from which on an attempt is slow, and for how many seconds its broker is avoided then."""
FAILURE_COUNTS_AS = 30.0
"""Seconds of an attempt that failed, whatever it took."""


@attrs.frozen
class _Health:
    """What the last attempt at a broker showed."""

    took: float
    available_at: float


class BrokerHealth:
    """The brokers to avoid, by the last attempt at each of them.

    Any failure counts, also the refusal of a message that is too large. All times are in seconds.
    """

    def __init__(self, rng: random.Random) -> None:
        self._brokers: dict[str, _Health] = {}
        self._turn = rng.randrange(2**16)

    def note(self, broker_name: str, took: float, *, is_failed: bool, now: float) -> None:
        """Note an attempt that ended now."""
        counted = FAILURE_COUNTS_AS if is_failed else took
        avoided = next((seconds for slow, seconds in AVOIDED_FOR if counted >= slow), 0.0)
        self._brokers[broker_name] = _Health(took, now + avoided)

    def is_available(self, broker_name: str, now: float) -> bool:
        """True unless the broker is avoided now."""
        health = self._brokers.get(broker_name)
        return health is None or health.available_at <= now

    def choose(self, queues: Sequence[MessageQueue], index: int, now: float) -> tuple[MessageQueue, int]:
        """Return the next queue in turn of an available broker, and the new index.

        If all brokers are avoided, it is one of the better half.
        """
        index += 1
        for step in range(len(queues)):
            queue = queues[(index + step) % len(queues)]
            if self.is_available(queue.broker_name, now):
                return queue, index
        broker_name = self._least_bad(now)
        own = [queue for queue in queues if queue.broker_name == broker_name]
        if not own:
            del self._brokers[broker_name]
            return queues[(index + 1) % len(queues)], index + 1
        return own[(index + 2) % len(own)], index + 2

    def _least_bad(self, now: float) -> str:
        def badness(name: str) -> tuple[bool, float, float]:
            health = self._brokers[name]
            return not self.is_available(name, now), health.took, health.available_at

        names = sorted(self._brokers, key=badness)
        self._turn += 1
        return names[self._turn % max(len(names) // 2, 1)]


class QueueChoice:
    """The turns of a producer: each of its topics has its own."""

    def __init__(self, rng: random.Random, *, avoid_slow_brokers: bool) -> None:
        self._rng = rng
        self._turns: dict[str, int] = {}
        self._health = BrokerHealth(rng) if avoid_slow_brokers else None

    def next_queue(
        self, topic: str, queues: Sequence[MessageQueue], failed_broker: str | None, now: float
    ) -> MessageQueue:
        """Return the queue for the next attempt.

        `failed_broker` had the attempt before, if there was one.
        """
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._rng.randrange(len(queues))  # many producers must not begin at one queue
        if self._health is None:
            queue, self._turns[topic] = choose_queue(queues, turn, failed_broker)
        else:
            queue, self._turns[topic] = self._health.choose(queues, turn, now)
        return queue

    def note(self, broker_name: str, took: float, *, is_failed: bool, now: float) -> None:
        """Note an attempt that ended now, in seconds."""
        if self._health is not None:
            self._health.note(broker_name, took, is_failed=is_failed, now=now)


def choose_queue(queues: Sequence[MessageQueue], index: int, avoid_broker: str | None) -> tuple[MessageQueue, int]:
    """Return the next queue in turn, and the new index.

    It is on another broker than the failed one, if possible.
    """
    for step in range(1, len(queues) + 1):
        queue = queues[(index + step) % len(queues)]
        if queue.broker_name != avoid_broker:
            return queue, index + step
    index += len(queues) + 1  # Java steps once more after its vain round
    return queues[index % len(queues)], index
