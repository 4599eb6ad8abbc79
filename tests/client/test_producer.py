"""The producer against scripted brokers: attempts, results, kinds of failures."""

import logging
from typing import TYPE_CHECKING

import pytest
import trio

from rmqlab.client.config import ProducerConfig
from rmqlab.client.errors import (
    BROKER_NOT_EXIST,
    NO_NAME_SERVER,
    NOT_FOUND_TOPIC,
    IndeterminateError,
    RefusedError,
    TooManySendsError,
)
from rmqlab.client.instance import Client, open_client
from rmqlab.client.message import Attempt, Message, SendResult, SendStatus
from rmqlab.client.producer import Outcome, Producer
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.headers.send import SendMessageRequestHeaderV2
from rmqlab.remoting.message import parse_properties
from rmqlab.runtime.net.dispatch import Reply, Request

if TYPE_CHECKING:
    from tests.client.conftest import World

SEND = RequestCode.SEND_MESSAGE_V2
HELLO = Message(topic="orders", body=b"hello", tags="A", keys=["k1", "k2"], properties={"colour": "red"})


def stored(code: ResponseCode = ResponseCode.SUCCESS, remark: str | None = None) -> Reply:
    return Reply(code, {"msgId": "7F000001" + "0" * 24, "queueId": "2", "queueOffset": "7"}, remark=remark)


def refusal(code: ResponseCode) -> Reply:
    return Reply(code, {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}, remark="no")


def close(request: Request) -> None:
    """Close the connection instead of answering."""
    request.channel.close("killed")


def watched(client: Client, config: ProducerConfig | None = None) -> tuple[Producer, list[Attempt]]:
    attempts: list[Attempt] = []
    return Producer(client, "pg", config, on_attempt=attempts.append), attempts


async def test_a_message_is_stored_with_all_that_belongs_to_it(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders")
    result = await Producer(client, "pg").send(HELLO)
    assert result.status is SendStatus.SEND_OK
    assert result.queue.broker_name == "a"
    assert result.queue_offset == 0
    (command,) = broker.asked(SEND)
    header = command.header(SendMessageRequestHeaderV2)
    assert (header.producer_group, header.topic, header.default_topic) == ("pg", "orders", "TBW102")
    assert (header.default_topic_queue_nums, header.sys_flag, bool(header.batch)) == (4, 0, False)
    assert parse_properties(header.properties or "") == {
        "KEYS": "k1 k2",
        "TAGS": "A",
        "UNIQ_KEY": result.message_id,
        "WAIT": "true",
        "colour": "red",
    }
    assert (command.language, command.version, command.body) == ("PYTHON", 409, b"hello")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.SUCCESS, SendStatus.SEND_OK),
        (ResponseCode.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_DISK_TIMEOUT),
        (ResponseCode.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT),
        (ResponseCode.SLAVE_NOT_AVAILABLE, SendStatus.SLAVE_NOT_AVAILABLE),
    ],
)
async def test_each_code_that_means_stored_has_its_status(
    world: "World", client: Client, code: ResponseCode, status: SendStatus
) -> None:
    """store-and-ha section 3.8: none of them is sent again."""
    (broker,) = world.add("a")
    world.route("orders")
    broker.script[SEND].append(stored(code))
    result = await Producer(client, "pg").send(HELLO)
    assert (result.status, result.queue.queue_id, result.queue_offset) == (status, 2, 7)
    assert len(broker.asked(SEND)) == 1


async def test_the_status_of_a_stored_message_is_returned_to_the_application(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders")
    broker.script[SEND] += [stored(ResponseCode.SLAVE_NOT_AVAILABLE, "no slave is connected"), stored()]
    producer = Producer(client, "pg")
    assert (await producer.send(HELLO)).remark == "no slave is connected"
    assert (await producer.send(HELLO)).remark is None


async def test_a_status_short_of_ok_is_tried_elsewhere_only_if_asked_for(world: "World", client: Client) -> None:
    first, second = world.add("a")[0], world.add("b")[0]
    world.route("orders")
    for broker in (first, second):
        broker.script[SEND].append(stored(ResponseCode.SLAVE_NOT_AVAILABLE))
    config = ProducerConfig(retry_another_broker_when_not_store_ok=True)
    result = await Producer(client, "pg", config).send(HELLO)
    assert result.status is SendStatus.SEND_OK
    assert len(first.log + second.log) >= 3


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL])
async def test_a_message_that_one_broker_stored_is_not_refused_because_others_reject_it(
    world: "World", client: Client, code: ResponseCode
) -> None:
    """Class DefaultMQProducerImpl, method sendDefaultImpl."""
    (broker,) = world.add("a")
    world.route("orders")
    broker.script[SEND].append(stored(ResponseCode.SLAVE_NOT_AVAILABLE))
    broker.script[SEND] += [Reply(code, remark="no")] * 2
    config = ProducerConfig(retry_another_broker_when_not_store_ok=True)
    result = await Producer(client, "pg", config).send(HELLO)
    assert result.status is SendStatus.SLAVE_NOT_AVAILABLE


@pytest.mark.parametrize(
    "code",
    [
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    ],
)
async def test_a_refusal_that_another_broker_may_not_share_moves_on(
    world: "World", client: Client, code: ResponseCode
) -> None:
    """broker-requests section 1.9."""
    brokers = [world.add("a")[0], world.add("b")[0]]
    world.route("orders")
    for broker in brokers:
        broker.script[SEND] += [refusal(code)]
    producer, attempts = watched(client)
    result = await producer.send(HELLO)
    assert result.status is SendStatus.SEND_OK
    assert [attempt.code for attempt in attempts] == [code, code, None]
    assert attempts[0].broker_name != attempts[1].broker_name
    assert len({attempt.message_id for attempt in attempts}) == 1


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.MESSAGE_ILLEGAL])
async def test_other_refusals_end_the_send_at_once(world: "World", client: Client, code: ResponseCode) -> None:
    """A 4.9 client does not retry SYSTEM_BUSY (broker-requests section 1.9)."""
    (broker,) = world.add("a")
    world.route("orders")
    broker.script[SEND].append(refusal(code))
    with pytest.raises(RefusedError, match="no") as caught:
        await Producer(client, "pg").send(HELLO)
    assert (caught.value.code, caught.value.remark, len(caught.value.attempts)) == (code, "no", 1)


async def test_a_broker_that_refuses_connections_has_certainly_not_stored_it(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders")
    broker.die()
    producer, attempts = watched(client)
    with pytest.raises(RefusedError, match="refused, 3 attempts"):
        await producer.send(HELLO)
    assert [(attempt.number, attempt.status, attempt.is_indeterminate) for attempt in attempts] == [
        (number, None, False) for number in (1, 2, 3)
    ]


async def test_a_connection_lost_after_the_request_leaves_it_open(world: "World", client: Client) -> None:
    """The last attempt was refused for sure, but the first may have stored it."""
    (broker,) = world.add("a")
    world.route("orders")
    broker.script[SEND] += [close, refusal(ResponseCode.SYSTEM_BUSY)]
    with pytest.raises(IndeterminateError, match="may be stored, 2 attempts") as caught:
        await Producer(client, "pg").send(HELLO)
    assert [attempt.is_indeterminate for attempt in caught.value.attempts] == [True, False]


async def test_an_attempt_that_times_out_leaves_no_time_for_another(world: "World", client: Client) -> None:
    """Scenario producer-vs-frozen: the first try eats the whole 3 s."""
    frozen, other = world.add("a")[0], world.add("b")[0]
    world.route("orders")
    frozen.script[SEND].append(None)
    other.script[SEND].append(None)
    producer, attempts = watched(client)
    began_at = trio.current_time()
    with pytest.raises(IndeterminateError):
        await producer.send(HELLO)
    assert len(attempts) == 1
    assert 3.0 <= trio.current_time() - began_at < 3.5


async def test_an_answer_that_does_not_parse_leaves_it_open(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders")
    broker.script[SEND] += [Reply(header={"queueId": "x"})] * 3
    with pytest.raises(IndeterminateError, match="sent an invalid reply"):
        await Producer(client, "pg").send(HELLO)


async def test_a_named_queue_is_tried_once(world: "World", client: Client) -> None:
    world.add("a")
    (broker,) = world.add("b")
    world.route("orders")
    queue = MessageQueue(topic="orders", broker_name="b", queue_id=3)
    producer = Producer(client, "pg")
    assert (await producer.send(HELLO, to=queue)).queue == queue
    assert (await producer.send(HELLO, to=lambda queues: queues[-1])).queue == queue
    broker.script[SEND].append(refusal(ResponseCode.SERVICE_NOT_AVAILABLE))
    with pytest.raises(RefusedError) as caught:
        await producer.send(HELLO, to=queue)
    assert len(caught.value.attempts) == 1


async def test_a_topic_that_does_not_exist_borrows_the_route_of_its_template(world: "World", client: Client) -> None:
    """remoting-and-nameserver section 6.5."""
    (broker,) = world.add("a")
    world.route("TBW102", 8, perm=7)
    await Producer(client, "pg").send(HELLO)
    asked = [command.ext_fields["topic"] for command in world.name_server.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)]
    assert asked[-2:] == ["orders", "TBW102"]
    assert len(broker.asked(SEND)) == 1


async def test_a_missing_route_is_a_warning_only_once_a_topic_had_its_own(
    world: "World", client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Until its broker registers again, a topic that the first send creates has none."""
    caplog.set_level(logging.WARNING)  # tests of commands in this process may have set another level
    world.add("a")
    world.route("TBW102", 8, perm=7)
    await Producer(client, "pg").send(HELLO)
    assert not await client.try_refresh("orders")
    assert caplog.text == ""
    world.route("orders")
    assert await client.try_refresh("orders")
    del world.name_server.routes["orders"]
    assert not await client.try_refresh("orders")
    assert "route of orders not refreshed: no route for topic orders" in caplog.text


async def test_without_any_route_nothing_is_sent(world: "World", client: Client) -> None:
    world.add("a")
    producer, attempts = watched(client)
    with pytest.raises(RefusedError, match="no route for topic orders, nor for its template TBW102") as caught:
        await producer.send(HELLO)
    assert caught.value.code == NOT_FOUND_TOPIC
    assert [(attempt.code, attempt.address) for attempt in attempts] == [(NOT_FOUND_TOPIC, None)]


async def test_a_topic_whose_masters_are_all_gone_has_no_route_for_producers(world: "World", client: Client) -> None:
    """Golden recording g1: `no route`, with one route request per send."""
    master, _slave = world.add("a", 2)
    world.route("orders", without=master)
    producer = Producer(client, "pg")
    with pytest.raises(RefusedError, match="no broker of topic orders has a master"):
        await producer.send(HELLO)
    before = len(world.name_server.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC))
    with pytest.raises(RefusedError):
        await producer.send(HELLO)
    assert len(world.name_server.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == before + 1


async def test_without_a_name_server_the_error_says_so(world: "World") -> None:
    async with open_client(world.config(namesrv_addr="")) as client:
        with pytest.raises(RefusedError, match="no nameserver is configured") as caught:
            await Producer(client, "pg").send(HELLO)
    assert caught.value.code == NO_NAME_SERVER


async def test_a_name_server_that_is_gone_is_replaced_by_the_next(world: "World") -> None:
    """remoting-and-nameserver section 6.1."""
    world.add("a")
    world.route("orders")
    async with open_client(world.config(namesrv_addr=f"127.0.0.1:1;{world.name_server.address}")) as client:
        assert (await Producer(client, "pg").send(HELLO)).status is SendStatus.SEND_OK


async def test_a_master_that_vanished_from_the_route_is_no_longer_tried(world: "World", client: Client) -> None:
    master, _slave = world.add("a", 2)
    world.route("orders")
    producer = Producer(client, "pg")
    queue = (await producer.send(HELLO)).queue
    world.route("orders", without=master)
    await world.until(lambda: client.routes.master("a") is None)
    with pytest.raises(RefusedError) as caught:
        await producer.send(HELLO, to=queue)
    assert caught.value.code in (NOT_FOUND_TOPIC, BROKER_NOT_EXIST)


async def test_large_bodies_are_compressed_and_the_rest_is_not(world: "World", client: Client) -> None:
    """store-and-ha section 2.2: 4096 bytes or more, zlib."""
    (broker,) = world.add("a")
    world.route("orders")
    producer = Producer(client, "pg")
    for size in (4095, 4096):
        await producer.send(Message(topic="orders", body=b"x" * size))
    small, large = broker.asked(SEND)
    assert (small.ext_fields["f"], len(small.body)) == ("0", 4095)
    assert large.ext_fields["f"] == str(0x301)
    assert len(large.body) < 100


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message(topic="", body=b"x"), "blank"),
        (Message(topic="a b", body=b"x"), "character"),
        (Message(topic="t" * 128, body=b"x"), "128 characters"),
        (Message(topic="SCHEDULE_TOPIC_XXXX", body=b"x"), "does not accept messages"),
        (Message(topic="orders", body=b""), "empty"),
        (Message(topic="orders", body=b"x" * (4 * 2**20 + 1)), "at most 4194304"),
        (Message(topic="orders", body=b"x", min_copies=2, wait_store_ok=False), "wait_store_ok=False forbids it"),
    ],
)
async def test_an_invalid_message_is_rejected_by_the_producer(client: Client, message: Message, reason: str) -> None:
    with pytest.raises(RefusedError, match=reason) as caught:
        await Producer(client, "pg").send(message)
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_oneway_send_is_written_and_forgotten(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders")
    await Producer(client, "pg").send_oneway(HELLO)
    await world.until(lambda: len(broker.asked(SEND)) == 1)
    assert broker.asked(SEND)[0].is_oneway


async def test_an_unwritable_oneway_send_is_rejected(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders")
    broker.die()
    with pytest.raises(RefusedError):
        await Producer(client, "pg").send_oneway(HELLO)


async def test_background_sends_call_back_with_result_or_error(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders")
    broker.script[SEND].append(refusal(ResponseCode.SYSTEM_BUSY))
    outcomes: list[Outcome] = []
    producer = Producer(client, "pg", ProducerConfig(max_sends_under_way=2))
    producer.send_soon(HELLO, outcomes.append)
    producer.send_soon(HELLO, outcomes.append)
    with pytest.raises(TooManySendsError):
        producer.send_soon(HELLO, outcomes.append)
    await world.until(lambda: len(outcomes) == 2)
    assert {type(outcome) for outcome in outcomes} == {RefusedError, SendResult}
    assert producer.sends_under_way == 0


async def test_the_time_of_a_send_begins_when_few_others_are_under_way(world: "World", client: Client) -> None:
    """Of thousands of sends at once, the last ones have as much time."""
    (broker,) = world.add("a")
    world.route("orders")
    broker.script[SEND] += [lambda _: None, lambda _: None]  # no responses
    producer = Producer(client, "pg", ProducerConfig(max_concurrent_sends=2, retries=0, send_timeout=3.0))
    outcomes: list[object] = []

    async def send() -> None:
        try:
            outcomes.append((await producer.send(HELLO)).status)
        except IndeterminateError as exc:
            outcomes.append(type(exc))

    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(send)
        await world.until(lambda: len(broker.asked(SEND)) == 2)
        await trio.sleep(1)
        assert len(broker.asked(SEND)) == 2
    assert outcomes == [IndeterminateError] * 2 + [SendStatus.SEND_OK] * 4


async def test_a_cancelled_send_lets_the_next_begin(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders")
    broker.script[SEND].append(lambda _: None)
    producer = Producer(client, "pg", ProducerConfig(max_concurrent_sends=1))
    with trio.move_on_after(1):
        await producer.send(HELLO)
    assert (await producer.send(HELLO)).status is SendStatus.SEND_OK
