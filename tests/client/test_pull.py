"""Single pulls."""

from typing import TYPE_CHECKING

import trio

from rmqlab.client.broker_api import PullStatus
from rmqlab.client.instance import Client
from rmqlab.client.message import ReceivedMessage
from rmqlab.client.pull import PullConsumer
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.codes import RequestCode

if TYPE_CHECKING:
    from tests.client.conftest import World

QUEUE = MessageQueue(topic="orders", broker_name="a", queue_id=0)


async def test_a_pull_carries_its_subscription(world: "World", client: Client) -> None:
    """broker-requests section 2.1: bit 4; no heartbeat is needed."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"0", b"1", b"2", properties="TAGS\x01A")
    consumer = PullConsumer(client, "cg")
    assert await consumer.queues("orders") == [QUEUE]
    result = await consumer.pull(QUEUE, 1, expression="A", max_messages=1)
    assert (result.status, result.next_offset, result.max_offset) == (PullStatus.FOUND, 2, 3)
    assert [message.body for message in result.messages] == [b"1"]
    (command,) = broker.asked(RequestCode.PULL_MESSAGE)
    assert {name: command.ext_fields[name] for name in ("sysFlag", "subscription", "subVersion")} == {
        "sysFlag": "4",
        "subscription": "A",
        "subVersion": "0",
    }
    assert (await consumer.pull(QUEUE, 3)).status is PullStatus.NO_NEW_MSG
    assert not broker.asked(RequestCode.HEART_BEAT)


async def test_a_pull_may_wait_for_a_message(world: "World", client: Client, nursery: trio.Nursery) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    consumer, got = PullConsumer(client, "cg"), list[ReceivedMessage]()
    await consumer.queues("orders")

    async def pull() -> None:
        got.extend((await consumer.pull(QUEUE, 0, wait=15)).messages)

    nursery.start_soon(pull)
    await world.until(lambda: bool(broker.parked))
    broker.put("orders", 0, b"x")
    await world.until(lambda: bool(got))


async def test_offsets_are_committed_by_hand(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    consumer = PullConsumer(client, "cg")
    await consumer.queues("orders")
    await consumer.commit(QUEUE, 5)
    await world.until(lambda: broker.offsets.get(("cg", "orders", 0)) == 5)
    assert await consumer.committed(QUEUE) == 5
