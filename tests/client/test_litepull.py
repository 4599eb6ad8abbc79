"""Consumers that are polled: queues by hand, or shared with a group."""

import pathlib
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio

from rmqlab.client.config import ConsumerConfig
from rmqlab.client.instance import Client, open_client
from rmqlab.client.litepull import LitePullConsumer
from rmqlab.client.processqueue import FlowLimits
from rmqlab.client.subscription import Expression, Sql
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere, ConsumeType, HeartbeatData, MessageModel
from rmqlab.remoting.bodies.offset import ResetOffsetBody
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.bodies.runtime import ConsumerRunningInfo
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import request
from rmqlab.runtime.net.dispatch import Reply

if TYPE_CHECKING:
    from rmqlab.client.message import ReceivedMessage
    from tests.client.conftest import World

QUEUE = MessageQueue(topic="orders", broker_name="a", queue_id=0)
FIRST = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


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


async def test_a_seek_beyond_the_queue_goes_on_where_the_broker_says(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    events: list[dict[str, Any]] = []
    moved = Reply(ResponseCode.PULL_OFFSET_MOVED, {"nextBeginOffset": "1", "minOffset": "0", "maxOffset": "2"})
    broker.script[RequestCode.PULL_MESSAGE].append(moved)
    consumer = LitePullConsumer(client, "cg", on_event=lambda kind, **fields: events.append({"kind": kind} | fields))
    await nursery.start(consumer.run)
    await consumer.queues("orders")
    await consumer.assign([QUEUE])
    consumer.seek(QUEUE, 99)
    broker.put("orders", 0, b"0", b"1")
    assert [message.body for message in await consumer.poll()] == [b"1"]
    assert {"kind": "offset_illegal", "queue": QUEUE, "asked": 99, "offered": 1} in events


@pytest.mark.parametrize(("config", "expected"), [(None, b"new"), (FIRST, b"old")])
async def test_assigned_queues_of_a_group_without_offsets_begin_where_it_wants(
    world: "World", client: Client, nursery: trio.Nursery, config: ConsumerConfig | None, expected: bytes
) -> None:
    """Class RebalanceLitePullImpl, method computePullFromWhereWithException."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"old")
    broker.handlers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda _: Reply(ResponseCode.QUERY_NOT_FOUND)
    consumer = LitePullConsumer(client, "cg", config=config)
    await nursery.start(consumer.run)
    await consumer.queues("orders")
    await consumer.assign([QUEUE])
    broker.put("orders", 0, b"new")
    assert (await consumer.poll())[0].body == expected


async def test_members_that_subscribe_share_the_queues(world: "World", client: Client, nursery: trio.Nursery) -> None:
    """As Java's lite pull consumer: heartbeats as CONSUME_ACTIVELY.

    Each pull has the subscription.
    """
    (broker,) = world.add("a")
    world.route("orders", 4)
    for queue_id in range(4):
        broker.put("orders", queue_id, b"0", b"1")
    first = LitePullConsumer(client, "cg", config=FIRST)
    await nursery.start(first.run)
    await first.subscribe({"orders": "*"})
    assert len(first.held_queues) == 4
    got: list[ReceivedMessage] = []
    while len(got) < 8:
        got += await first.poll()
    await first.commit()  # or the second may begin before the first has committed what it gives up
    async with open_client(world.config()) as other, trio.open_nursery() as inner:
        second = LitePullConsumer(other, "cg", config=FIRST)
        await inner.start(second.run)
        await second.subscribe({"orders": "*"})
        await world.until(lambda: len(first.held_queues) == len(second.held_queues) == 2)
        for queue in second.held_queues:
            broker.put("orders", queue.queue_id, b"for the second")
        more: list[ReceivedMessage] = []
        while len(more) < 2:
            more += await second.poll()
        inner.cancel_scope.cancel()
    assert {message.body for message in more} == {b"for the second"}
    await world.until(lambda: len(first.held_queues) == 4)
    assert await first.poll(timeout=2) == []
    data = HeartbeatData.decode(broker.asked(RequestCode.HEART_BEAT)[0].body).consumer_data_set[0]
    assert (data.group_name, data.consume_type) == ("cg", ConsumeType.CONSUME_ACTIVELY)
    assert broker.asked(RequestCode.PULL_MESSAGE)[0].ext_fields["sysFlag"] == "22"


@pytest.mark.parametrize(("expression", "has_version"), [("A || B", False), (Sql("a > 1"), True)])
async def test_pulls_have_the_version_of_an_sql_subscription_only(
    world: "World", client: Client, nursery: trio.Nursery, expression: Expression, *, has_version: bool
) -> None:
    """Class DefaultLitePullConsumerImpl, method pullSyncImpl."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    consumer = LitePullConsumer(client, "cg")
    await nursery.start(consumer.run)
    await consumer.queues("orders")
    await consumer.assign([QUEUE], expression)
    await world.until(lambda: bool(broker.asked(RequestCode.PULL_MESSAGE)))
    assert (broker.asked(RequestCode.PULL_MESSAGE)[0].ext_fields["subVersion"] != "0") is has_version


async def test_each_member_that_broadcasts_keeps_its_own_offsets(
    world: "World", client: Client, nursery: trio.Nursery, tmp_path: pathlib.Path
) -> None:
    """Class DefaultLitePullConsumerImpl, method initOffsetStore."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"0", b"1")
    path = tmp_path / "offsets.json"
    config = attrs.evolve(FIRST, model=MessageModel.BROADCASTING, local_offsets=path)
    consumer = LitePullConsumer(client, "cg", config=config)
    await nursery.start(consumer.run)
    await consumer.subscribe({"orders": "*"})
    assert len(await consumer.poll()) == 2
    await consumer.commit()
    assert ResetOffsetBody.decode(path.read_bytes()).offset_table == {QUEUE: 2}
    assert broker.offsets == {}


async def test_a_subscription_and_queues_by_hand_do_not_go_together(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    world.add("a")
    world.route("orders", 1)
    consumer, idle = LitePullConsumer(client, "cg"), LitePullConsumer(client, "other")
    with pytest.raises(RuntimeError, match="while it runs"):
        await idle.subscribe({"orders": "*"})
    await nursery.start(consumer.run)
    await consumer.subscribe({"orders": "*"})
    with pytest.raises(RuntimeError, match="by subscription"):
        await consumer.assign([QUEUE])
    with pytest.raises(RuntimeError, match="already"):
        await consumer.subscribe({"orders": "*"})


async def test_a_paused_queue_is_not_pulled(world: "World", client: Client, nursery: trio.Nursery) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    consumer = LitePullConsumer(client, "cg")
    await nursery.start(consumer.run)
    await consumer.queues("orders")
    await consumer.assign([QUEUE])
    await trio.sleep(1)
    consumer.pause([QUEUE])
    broker.put("orders", 0, b"under way")
    assert [message.body for message in await consumer.poll()] == [b"under way"]
    broker.put("orders", 0, b"unseen")
    assert await consumer.poll(timeout=30) == []
    consumer.resume([QUEUE])
    assert [message.body for message in await consumer.poll()] == [b"unseen"]


async def test_pulling_stops_while_too_many_messages_of_all_queues_wait(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """Class DefaultLitePullConsumerImpl: pullThresholdForAll."""
    (broker,) = world.add("a")
    world.route("orders", 2)
    for queue_id in (0, 1):
        broker.put("orders", queue_id, *[b"%03d" % number for number in range(100)])
    config = attrs.evolve(FIRST, pull_batch_size=10, flow=FlowLimits(polled_messages=50))
    consumer = LitePullConsumer(client, "cg", config=config)
    await nursery.start(consumer.run)
    await consumer.assign(await consumer.queues("orders"))
    await trio.sleep(10)
    assert 6 <= len(broker.asked(RequestCode.PULL_MESSAGE)) <= 7  # the other queue's pull may be under way
    got = 0
    while got < 200:
        got += len(await consumer.poll())
    assert got == 200


async def test_a_polled_consumer_answers_tools(world: "World", client: Client, nursery: trio.Nursery) -> None:
    """Codes 307 and 309: it reports its held messages, but cannot consume one."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    consumer = LitePullConsumer(client, "cg")
    await nursery.start(consumer.run)
    await consumer.subscribe({"orders": "*"})
    (channel,) = broker.server.channels
    fields: dict[str, Any] = {"consumerGroup": "cg", "clientId": "c"}
    response = await channel.request(request(RequestCode.GET_CONSUMER_RUNNING_INFO, fields), 5)
    info = ConsumerRunningInfo.decode(response.body)
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
    assert QUEUE in info.mq_table
    refused = await channel.request(request(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields, b""), 5)
    assert refused.code == ResponseCode.SYSTEM_ERROR
