"""Our allocation strategies and those of Java's client 4.9.8 must agree."""

from collections.abc import Iterator

import pytest

from rmqlab.client import rebalance
from rmqlab.client.rebalance import Strategy
from rmqlab.remoting.bodies.queue import MessageQueue
from tests.interop.java import Java

pytestmark = pytest.mark.interop

MEMBERS, QUEUES = 6, 13

STRATEGIES: dict[str, Strategy] = {
    "averagely": rebalance.averagely,
    "circle": rebalance.averagely_by_circle,
    "hash": rebalance.consistent_hash(),
    "room": rebalance.by_machine_room({"room-1"}),
    "nearby": rebalance.by_nearest_machine_room(
        rebalance.averagely,
        lambda queue: queue.broker_name.split("@")[0],
        lambda member: "room-1" if int(member.rpartition("@")[2]) % 2 == 1 else "room-3",
    ),
}


def ours() -> Iterator[str]:
    """What the Java program prints, made by our strategies."""
    for members in range(1, MEMBERS + 1):
        ids = [f"10.0.0.{number}@{number}" for number in range(1, members + 1)]
        for count in range(1, QUEUES + 1):
            queues = [
                MessageQueue(topic="orders", broker_name="room-2@b" if number % 2 else "room-1@a", queue_id=number)
                for number in range(count)
            ]
            for name, strategy in STRATEGIES.items():
                for member in ids:
                    given = rebalance.allocate(strategy, member, queues, ids)
                    names = "".join(f" {queue.broker_name}/{queue.queue_id}" for queue in given)
                    yield f"{name} {members} {count} {member}:{names}"


def test_every_strategy_gives_every_member_what_javas_gives_it(java: Java) -> None:
    with java.start("Allocations", f"members={MEMBERS}", f"queues={QUEUES}") as program:
        theirs = program.finish()
    assert sorted(ours()) == sorted(theirs)
    assert len(theirs) == len(STRATEGIES) * QUEUES * sum(range(1, MEMBERS + 1))
