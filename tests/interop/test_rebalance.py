"""Groups of several members: one of two Java consumers dies without a word.

One of two is ours.
"""

from collections.abc import Sequence

import pytest
import trio

from rmqlab.client.config import ClientConfig, ConsumerConfig
from rmqlab.client.instance import open_client
from rmqlab.client.message import ReceivedMessage
from rmqlab.client.push import PushConsumer
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere
from tests.interop.java import CLIENTS, Java
from tests.interop.topology import Cluster
from tests.interop.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

PATIENCE = "timeoutMillis=120000"


@pytest.mark.parametrize("line", CLIENTS)
def test_the_queues_of_a_consumer_that_is_killed_go_to_the_other(java: Java, shared: Cluster, line: str) -> None:
    """broker-requests section 3.2: the group is notified of its closed connection.

    Its uncommitted messages are delivered again.
    """
    topic = f"Rebalance{line.replace('.', '_')}"
    target = [f"namesrv={shared.namesrv}", f"topic={topic}"]
    group = [f"group={topic}-readers", "count=1000000", PATIENCE]

    def send(prefix: str) -> set[str]:
        with java.start("Producer", *target, "count=40", f"prefix={prefix}", client=line) as producer:
            producer.finish()
        return {f"{prefix}-{number}" for number in range(40)}

    sent = send("first")
    with java.start("Consumer", *target, *group, client=line) as survivor:
        wait_until(lambda: bodies(survivor.lines) == sent, "the first consumer has all", 60)
        with java.start("Consumer", *target, *group, client=line) as victim:
            wait_until(lambda: send("both") and bodies(victim.lines), "the second consumer has its share", 90)
            victim.kill()
        sent = send("last")
        wait_until(lambda: bodies(survivor.lines) >= sent, "the survivor has all", 60)


async def test_a_java_consumer_and_one_of_ours_share_the_queues(java: Java, shared: Cluster) -> None:
    """Both compute the same allocation, from the broker's lists of members."""
    topic, group = "RebalanceMixed", "RebalanceMixed-readers"
    target = [f"namesrv={shared.namesrv}", f"topic={topic}"]
    with java.start("Producer", *target, "count=4", "prefix=before") as producer:
        producer.finish()
    ours: list[str] = []

    async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
        await trio.lowlevel.checkpoint()
        ours.extend(message.body.decode() for message in messages)

    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    with java.start("Consumer", *target, f"group={group}", "count=1000000", PATIENCE) as theirs:
        await trio.to_thread.run_sync(lambda: wait_until(lambda: len(bodies(theirs.lines)) == 4, "Java has all", 60))
        async with open_client(ClientConfig(namesrv_addr=shared.namesrv)) as client, trio.open_nursery() as nursery:
            consumer = PushConsumer(client, group, {topic: "*"}, on_messages, config=config)
            await nursery.start(consumer.run)

            def held() -> int:
                return sum(queue.topic == topic for queue in consumer.held_queues)

            with trio.fail_after(90):
                while held() != 2:  # noqa: ASYNC110 - Java gives its share up when it rebalances
                    await trio.sleep(0.1)
            with java.start("Producer", *target, "count=40", "prefix=shared") as producer:
                await trio.to_thread.run_sync(producer.finish)
            wanted = {f"shared-{number}" for number in range(40)}
            with trio.fail_after(60):
                while not wanted <= bodies(theirs.lines) | set(ours):  # noqa: ASYNC110 - facts of other processes
                    await trio.sleep(0.1)
            assert len(wanted & set(ours)) == 20
            nursery.cancel_scope.cancel()


def bodies(lines: list[str]) -> set[str]:
    """The consumed bodies."""
    return {line.split()[-1] for line in lines if line != "STARTED"}
