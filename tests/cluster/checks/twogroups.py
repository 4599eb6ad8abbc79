"""A run of two groups of brokers, with violations at some of them."""

from collections.abc import Collection

import attrs

from rmqlab.cluster.checks.testing import MadeUpRun

NODES = ("namesrv-1", "broker-a", "broker-a-s", "broker-b", "broker-b-s")
PLANTED = {
    "lost": 2,
    "order.stored": 1,
    "order.delivered shop": 1,
    "place_disagreement": 2,
    "stored_twice": 1,
    "duplicates.unexplained": 1,
    "offset_rollbacks": 1,
    "offset_rollbacks shop": 1,
    "rolled_back shop": 4,
}
"""The values of metrics with violations at one group."""
OF_BROKERS = [metric for metric in PLANTED if metric not in ("lost", "order.stored", "stored_twice")] + ["order.stored"]
"""Metrics that the journal of a broker may excuse."""


def two_groups(violated: Collection[str]) -> MadeUpRun:
    """Return a run with violations at these broker names."""
    run = MadeUpRun(nodes=NODES)
    for nth, broker in enumerate(("broker-a", "broker-b")):
        for number in range(100 * nth, 100 * nth + 4):
            run.send(number, broker=broker)
            run.deliver(number, number % 100, broker=broker)
        run.commit(4, broker=broker)
    for nth, broker in enumerate(violated):
        violate(run, broker, first=1000 * (nth + 1))
    return run


def violate(run: MadeUpRun, broker: str, first: int) -> None:
    """Add violations at a broker name, of messages from a number on."""
    for number in (first, first + 1):
        run.send(number, at=(), broker=broker, queue_id=1)
    for number in (first + 2, first + 3):
        run.send(number, broker=broker, queue_id=2)
    for node in run.members(broker):
        one, other = run.logs[node][-2:]
        run.logs[node][-2:] = [attrs.evolve(other, offset=one.offset), attrs.evolve(one, offset=other.offset)]
    for number in (first + 4, first + 5):
        run.send(number, broker=broker, queue_id=3)
    run.deliver(first + 5, 1, broker=broker, queue_id=3)
    run.deliver(first + 4, 0, broker=broker, queue_id=3)
    run.deliver(first + 5, 1, broker=broker, queue_id=3)
    message = run.send(first + 6, broker=broker, queue_id=4)
    run.store(message, run.logs[broker][-1].queue, run.members(broker))
    run.commit(9, broker=broker, queue_id=5)
    run.commit(5, broker=broker, queue_id=5)
