"""Clients of brokers that reply at once, in vain, or with nonsense.

Each has bounded work and memory, and an error that names the server.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest
import trio

from rmqlab.client import broker_api
from rmqlab.client.admin import MOST_SETTINGS, Admin
from rmqlab.client.config import ConsumerConfig
from rmqlab.client.errors import BrokerError, InvalidReplyError, RefusedError
from rmqlab.client.groupadmin import GroupAdmin
from rmqlab.client.instance import Client
from rmqlab.client.litepull import LitePullConsumer
from rmqlab.client.message import Message, ReceivedMessage, received_all
from rmqlab.client.messagequery import query_by_key
from rmqlab.client.producer import Producer
from rmqlab.client.push import PushConsumer
from rmqlab.client.replies import LONGEST_REMARK
from rmqlab.client.requestreply import request
from rmqlab.client.transaction import MAX_CHECKS, TransactionProducer, TransactionState
from rmqlab.remoting.bodies.group import GetConsumerListByGroupResponseBody
from rmqlab.remoting.bodies.offset import ResetOffsetBody
from rmqlab.remoting.bodies.queue import LockBatchResponseBody, MessageQueue
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import request as command_of
from rmqlab.remoting.headers.pull import PullMessageRequestHeader
from rmqlab.remoting.message import RecordError
from rmqlab.runtime.net.dispatch import Reply, Request
from tests.client.application import Application, start
from tests.client.conftest import record

if TYPE_CHECKING:
    from tests.client.conftest import World

QUEUE = MessageQueue(topic="orders", broker_name="a", queue_id=0)
FAR = 2**62
FOUND, NOT_FOUND, RETRY = ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY


def pulled(code: ResponseCode, next_offset: Callable[[int], int], *, body: bytes = b"") -> Callable[[Request], Reply]:
    """Reply to pulls with a next offset that follows from the requested one."""

    def reply(request: Request) -> Reply:
        offset = request.command.header(PullMessageRequestHeader).queue_offset
        return Reply(code, {"nextBeginOffset": str(next_offset(offset)), "minOffset": "0", "maxOffset": "0"}, body=body)

    return reply


@pytest.mark.parametrize(
    ("code", "next_offset", "body"),
    [
        (NOT_FOUND, lambda offset: offset, b""),
        (NOT_FOUND, lambda offset: 0 if offset else FAR, b""),
        (RETRY, lambda offset: 0 if offset else FAR, b""),
        (RETRY, lambda offset: -offset - 1, b""),
        (FOUND, lambda offset: offset, b""),
        (FOUND, lambda offset: offset, record("orders", 0, 0, b"x")),
        (FOUND, lambda _: 0, record("orders", 0, 0, b"x")),
    ],
)
async def test_replies_without_progress_cause_no_tight_loop(
    world: "World",
    client: Client,
    nursery: trio.Nursery,
    code: ResponseCode,
    next_offset: Callable[[int], int],
    body: bytes,
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.handlers[RequestCode.PULL_MESSAGE] = pulled(code, next_offset, body=body)
    await start(nursery, client)
    await trio.sleep(10)
    assert 5 <= len(broker.asked(RequestCode.PULL_MESSAGE)) <= 14


async def test_skipped_and_held_pulls_are_repeated_without_a_pause(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """Filtered messages move the offset on; a single empty reply at once is no fault."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.script[RequestCode.PULL_MESSAGE] += [
        *[pulled(RETRY, lambda offset: offset + 1)] * 20,
        *[pulled(NOT_FOUND, lambda offset: offset), pulled(RETRY, lambda offset: offset + 1)] * 20,
    ]
    began_at = trio.current_time()
    await start(nursery, client)
    await world.until(lambda: len(broker.asked(RequestCode.PULL_MESSAGE)) > 60)
    assert trio.current_time() - began_at < 1.0


async def test_pulls_that_are_held_for_a_short_suspend_timeout_are_repeated_without_a_pause(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """With pauses of 1 s, most messages waited for the end of one."""
    (broker,) = world.add("a")
    world.route("orders", 1)

    async def reply_later(request: Request) -> None:
        await trio.sleep(0.2)
        request.reply(pulled(NOT_FOUND, lambda offset: offset)(request))

    broker.handlers[RequestCode.PULL_MESSAGE] = lambda request: nursery.start_soon(reply_later, request)
    await start(nursery, client, suspend_timeout=0.2)
    await trio.sleep(10)
    assert len([one for one in broker.asked(RequestCode.PULL_MESSAGE) if one.ext_fields["topic"] == "orders"]) >= 40


async def test_a_broker_that_refuses_every_offset_is_not_asked_in_a_tight_loop(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    for next_offset in (lambda offset: offset, lambda offset: 0 if offset else FAR):
        broker.log.clear()
        broker.handlers[RequestCode.PULL_MESSAGE] = pulled(ResponseCode.PULL_OFFSET_MOVED, next_offset)
        consumer = LitePullConsumer(client, "cg")
        running = await nursery.start(_run, consumer)
        await consumer.queues("orders")
        await consumer.assign([QUEUE])
        await trio.sleep(30)
        assert 2 <= len(broker.asked(RequestCode.PULL_MESSAGE)) <= 7
        running.cancel()


async def _run(consumer: LitePullConsumer, *, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            await nursery.start(consumer.run)
            task_status.started(scope)


async def test_topics_that_a_broker_invents_are_not_counted(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    for number in range(20):
        foreign = record(f"invented-{number}", 7, number, b"x")
        broker.script[RequestCode.PULL_MESSAGE].append(pulled(FOUND, lambda offset: offset + 1, body=foreign))
    consumer, application = await start(nursery, client)
    await world.until(lambda: len(application.got) == 20)
    assert set(consumer.running_info().status_table) == {"orders", "%RETRY%cg"}


async def test_locks_of_foreign_queues_grant_nothing(world: "World", client: Client, nursery: trio.Nursery) -> None:
    (broker,) = world.add("a")
    world.route("orders", 8)
    foreign = [MessageQueue(topic="other", broker_name="z", queue_id=number) for number in range(8)]
    held_up: list[Request] = []

    def lock(request: Request) -> Reply | None:
        """Reply to the eight requests of a rebalance at eight moments."""
        held_up.append(request)
        nursery.start_soon(_reply_later, request, len(held_up) % 8 / 50, foreign)
        return None

    broker.handlers[RequestCode.LOCK_BATCH_MQ] = lock
    consumer = PushConsumer(client, "cg", {"orders": "*"}, Application(), config=ConsumerConfig(orderly=True))
    await nursery.start(consumer.run)
    await trio.sleep(15)
    assert consumer.held_queues == []
    assert 5 <= len(held_up) / 8 <= 16  # once per second


async def _reply_later(request: Request, seconds: float, granted: list[MessageQueue]) -> None:
    await trio.sleep(seconds)
    request.reply(Reply(body=LockBatchResponseBody(lock_ok_mq_set=granted).encode()))


async def test_renewed_locks_of_foreign_queues_are_a_loss(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 2)
    application = Application()
    consumer = PushConsumer(client, "cg", {"orders": "*"}, application, config=ConsumerConfig(orderly=True))
    await nursery.start(consumer.run)
    before = len(broker.asked(RequestCode.GET_CONSUMER_LIST_BY_GROUP))
    foreign = [MessageQueue(topic="other", broker_name="z", queue_id=number) for number in range(9)]
    broker.handlers[RequestCode.LOCK_BATCH_MQ] = lambda _: Reply(
        body=LockBatchResponseBody(lock_ok_mq_set=foreign).encode()
    )
    await world.until(lambda: bool(broker.asked(RequestCode.LOCK_BATCH_MQ)[2:]))
    await world.until(lambda: len(broker.asked(RequestCode.GET_CONSUMER_LIST_BY_GROUP)) > before, within=1)


async def test_checks_of_transactions_have_a_limit(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    asked = list[str]()

    async def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message.message_id)
        await trio.sleep_forever()
        raise AssertionError

    producer = TransactionProducer(client, "pg", check)
    await producer.send(Message(topic="orders", body=b"x"))
    (channel,) = broker.server.channels
    for number in range(MAX_CHECKS + 100):
        half = record("orders", 0, number, b"half", f"UNIQ_KEY\x01{number}\x02PGROUP\x01pg")
        fields = {"tranStateTableOffset": "-1", "commitLogOffset": "-1"}
        channel.send_oneway(command_of(RequestCode.CHECK_TRANSACTION_STATE, fields, half, oneway=True))
    await world.until(lambda: len(asked) >= MAX_CHECKS)
    await trio.sleep(1)
    assert len(asked) == MAX_CHECKS


@pytest.mark.parametrize("offset", [{}, {"offset": "-2"}, {"offset": str(2**63)}, {"offset": "x"}])
async def test_a_reply_without_an_offset_is_not_taken_for_0(
    world: "World", client: Client, offset: dict[str, str]
) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    await client.refresh_route("orders")
    said = rf"^{broker.address} sent an invalid reply: .*: offset .*: expected 0 to 2\^63 - 1$"
    for code in (RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET):
        broker.handlers[code] = lambda _: Reply(header=offset)
    with pytest.raises(InvalidReplyError, match=said):
        await broker_api.query_offset(client, "cg", QUEUE)
    with pytest.raises(InvalidReplyError, match=said):
        await broker_api.max_offset(client, QUEUE)
    with pytest.raises(InvalidReplyError, match=said):
        await broker_api.min_offset(client, QUEUE)


async def test_a_committed_offset_of_minus_1_is_no_offset(world: "World", client: Client) -> None:
    """As in Java (class RebalancePushImpl, method computePullFromWhere)."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    await client.refresh_route("orders")
    broker.handlers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda _: Reply(header={"offset": "-1"})
    assert await broker_api.query_offset(client, "cg", QUEUE) is None


def test_more_messages_than_were_requested_are_rejected() -> None:
    one = record("orders", 0, 0, b"x")
    assert len(received_all(one * 1024, "a", wanted=32)) == 1024
    assert len(received_all(one * 2000, "a", wanted=2000)) == 2000
    with pytest.raises(RecordError, match=r"^more than 1024 messages: 32 were requested$"):
        received_all(one * 1025, "a", wanted=32)


async def test_an_invalid_reply_names_its_server(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    world.route("%RETRY%cg", 1)
    admin, groups, server = Admin(client), GroupAdmin(client), world.name_server
    for peer in (broker, server):
        for code in RequestCode:
            if code != RequestCode.GET_ROUTEINFO_BY_TOPIC:
                peer.handlers[code] = lambda _: Reply(body=b"[\xff")
    at_broker: list[Callable[[], Awaitable[object]]] = [
        lambda: admin.topic_stats("orders"),
        lambda: admin.topic_configs(broker.address),
        lambda: admin.broker_runtime_info(broker.address),
        lambda: admin.broker_config(broker.address),
        lambda: groups.groups(broker.address),
        lambda: groups.consumer_connection("cg"),
        lambda: groups.producers(broker.address),
        lambda: groups.consume_stats("cg"),
        lambda: groups.consumer_offsets(broker.address),
        lambda: groups.reset_offsets("cg", "orders", 0),
        lambda: query_by_key(client, "orders", "k"),
    ]
    for call in at_broker:
        with pytest.raises(InvalidReplyError, match=f"^{broker.address} sent an invalid reply: "):
            await call()
    at_server: list[Callable[[], Awaitable[object]]] = [
        admin.cluster_info,
        admin.topics,
        lambda: admin.kv_list("n"),
        admin.name_server_config,
    ]
    for call in at_server:
        with pytest.raises(InvalidReplyError, match=f"^{server.address} sent an invalid reply: "):
            await call()
    server.handlers[RequestCode.GET_BROKER_CLUSTER_INFO] = lambda _: Reply(ResponseCode.SYSTEM_ERROR, remark="no")
    with pytest.raises(BrokerError, match=f"^{server.address} returned code 1: no$"):
        await admin.cluster_info()


async def test_settings_have_a_limit(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    for size in (MOST_SETTINGS, MOST_SETTINGS + 1):
        broker.script[RequestCode.GET_BROKER_CONFIG].append(Reply(body=b"k=".ljust(size, b"v")))
    assert len((await Admin(client).broker_config(broker.address))["k"]) == MOST_SETTINGS - 2
    with pytest.raises(InvalidReplyError, match="1048577 bytes of settings: expected at most 1048576"):
        await Admin(client).broker_config(broker.address)


async def test_a_long_remark_is_cut(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.GET_BROKER_CONFIG):
        broker.handlers[code] = lambda _: Reply(ResponseCode.MESSAGE_ILLEGAL, remark="r" * 1_000_000)
    with pytest.raises(RefusedError) as refused:
        await Producer(client, "pg").send(Message(topic="orders", body=b"x"))
    with pytest.raises(BrokerError, match=r"r\.\.\. \(1000000 characters\)$") as failed:
        await Admin(client).broker_config(broker.address)
    assert max(len(str(refused.value)), len(str(failed.value)), len(refused.value.remark or "")) < LONGEST_REMARK + 100


async def test_a_request_to_a_silent_server_ends_in_time(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.handlers[RequestCode.HEART_BEAT] = lambda _: None
    producer = Producer(client, "pg")
    for silent in (broker, world.name_server):
        began_at = trio.current_time()
        with pytest.raises(RefusedError, match="not sent: no route of orders, or no registration at it, within 1 s"):
            await request(producer, Message(topic="orders", body=b"x"), timeout=1)
        assert trio.current_time() - began_at == pytest.approx(1, abs=0.5)
        world.name_server.handlers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda _: None
        client.routes.forget("orders")
        del silent
    world.name_server.handlers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda _: Reply(9999, remark="nonsense")
    with pytest.raises(RefusedError, match=f"{world.name_server.address} returned code 9999: nonsense"):
        await request(producer, Message(topic="orders", body=b"x"), timeout=1)


@pytest.mark.parametrize("ids", [[], ["x"] * (broker_api.MAX_MEMBERS + 1)])
async def test_an_invalid_list_of_members_moves_no_queue(
    world: "World", client: Client, nursery: trio.Nursery, ids: list[str]
) -> None:
    """A hash ring of 700,000 members held up the client for a minute."""
    (broker,) = world.add("a")
    world.route("orders", 2)
    consumer, application = await start(nursery, client)
    body = GetConsumerListByGroupResponseBody(consumer_id_list=ids).encode()
    broker.handlers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda _: Reply(body=body)
    before = len(broker.asked(RequestCode.GET_CONSUMER_LIST_BY_GROUP))
    consumer.rebalance_soon()
    await world.until(lambda: len(broker.asked(RequestCode.GET_CONSUMER_LIST_BY_GROUP)) > before + 1)
    assert [queue.queue_id for queue in consumer.held_queues if queue.topic == "orders"] == [0, 1]
    failures = application.events_of("rebalance_failed")
    assert [str(broker_api.MAX_MEMBERS) in failure["error"] for failure in failures] == [True] * len(failures)
    assert bool(failures) is bool(ids)


async def test_a_reset_to_a_negative_offset_is_ignored(world: "World", client: Client, nursery: trio.Nursery) -> None:
    """It was committed: no member of the group could begin with that queue again."""
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"a")
    _, application = await start(nursery, client)
    await world.until(lambda: len(application.got) == 1)
    (channel,) = broker.server.channels
    fields = {"topic": "orders", "group": "cg", "timestamp": "0", "isForce": "true"}
    body = ResetOffsetBody(offset_table={QUEUE: -5}).encode()
    channel.send_oneway(command_of(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body, oneway=True))
    broker.put("orders", 0, b"b")
    await world.until(lambda: len(application.got) == 2)
    assert broker.offsets["cg", "orders", 0] >= 0
