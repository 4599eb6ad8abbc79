"""Consumers that ask: by single pulls, and by polling."""

from typing import TYPE_CHECKING

import trio

from client.calls import PullStatus
from client.instance import Client
from client.message import ReceivedMessage
from client.pull import LitePullConsumer, PullConsumer
from remoting.bodies.queue import MessageQueue
from remoting.codes import RequestCode

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


async def test_polling_goes_through_the_assigned_queues_and_commits(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """Golden recording d_lite: sysFlag 22, suspended for 20 s."""
    (broker,) = world.add("a")
    world.route("orders", 2)
    for queue_id in (0, 1):
        broker.put("orders", queue_id, b"0", b"1")
    consumer = LitePullConsumer(client, "cg")
    await nursery.start(consumer.run)
    await consumer.assign(await consumer.queues("orders"))
    got: list[ReceivedMessage] = []
    while len(got) < 4:
        got += await consumer.poll()
    assert await consumer.poll(timeout=2) == []
    fields = broker.asked(RequestCode.PULL_MESSAGE)[0].ext_fields
    assert (fields["sysFlag"], fields["suspendTimeoutMillis"], fields["subVersion"]) == ("22", "20000", "0")
    await trio.sleep(6)
    assert broker.offsets == {("cg", "orders", 0): 2, ("cg", "orders", 1): 2}


async def test_seeking_drops_what_was_pulled_ahead(world: "World", client: Client, nursery: trio.Nursery) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, *[b"%d" % number for number in range(9)])
    consumer = LitePullConsumer(client, "cg")
    await nursery.start(consumer.run)
    await consumer.queues("orders")
    await consumer.assign([QUEUE])
    await trio.sleep(1)
    consumer.seek(QUEUE, 7)
    assert [message.body for message in await consumer.poll()] == [b"7", b"8"]
    assert consumer.position(QUEUE) == 9
    await consumer.assign([])
    broker.put("orders", 0, b"unseen")
    assert await consumer.poll(timeout=2) == []
