"""What brokers ask of a client, over the connection that the client opened."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
import trio

from rmqlab.client.config import ConsumerConfig
from rmqlab.client.consuming import ConsumeLaterError
from rmqlab.client.instance import Client
from rmqlab.client.message import ReceivedMessage
from rmqlab.client.push import PushConsumer
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere
from rmqlab.remoting.bodies.offset import GetConsumerStatusBody, ResetOffsetBody
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.bodies.runtime import CMResult, ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command, request

if TYPE_CHECKING:
    from tests.client.conftest import FakeBroker, World

QUEUE = MessageQueue(topic="orders", broker_name="a", queue_id=0)
GROUP = {"consumerGroup": "cg", "clientId": "c"}


class Consumer:
    """A running consumer that records its messages, and its broker."""

    def __init__(self, client: Client, *, orderly: bool = False) -> None:
        self.got: list[ReceivedMessage] = []
        self.error: Exception | None = None
        config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, orderly=orderly)
        self.consumer = PushConsumer(client, "cg", {"orders": "*"}, self._take, config=config)

    async def _take(self, messages: Sequence[ReceivedMessage]) -> None:
        self.got += messages
        if self.error is not None:
            raise self.error


@pytest.fixture
async def broker(world: "World") -> "FakeBroker":
    (broker,) = world.add("a")
    world.route("orders", 1)
    broker.put("orders", 0, b"0", b"1", b"2")
    return broker


@pytest.fixture
async def consumer(world: "World", broker: "FakeBroker", client: Client, nursery: trio.Nursery) -> Consumer:
    consumer = Consumer(client)
    await nursery.start(consumer.consumer.run)
    await world.until(lambda: len(consumer.got) == len(broker.queues["orders", 0]) == 3)
    return consumer


async def ask(broker: "FakeBroker", code: RequestCode, fields: dict[str, str], body: bytes = b"") -> Command:
    (channel,) = broker.server.channels
    answer: Command = await channel.request(request(code, fields, body), 5)
    return answer


async def push_request(broker: "FakeBroker", code: RequestCode, fields: dict[str, str], body: bytes = b"") -> None:
    (channel,) = broker.server.channels
    channel.send_oneway(request(code, fields, body, oneway=True))
    await trio.sleep(0.1)


async def test_a_notification_makes_the_consumer_rebalance_at_once(
    world: "World", broker: "FakeBroker", consumer: Consumer
) -> None:
    """broker-requests section 3.2."""
    del world, consumer
    before = len(broker.asked(RequestCode.GET_CONSUMER_LIST_BY_GROUP))
    await push_request(broker, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "cg"})
    assert len(broker.asked(RequestCode.GET_CONSUMER_LIST_BY_GROUP)) > before


async def test_an_operator_moves_a_consumer_back(world: "World", broker: "FakeBroker", consumer: Consumer) -> None:
    """broker-requests section 6.3, code 220."""
    body = ResetOffsetBody(offset_table={QUEUE: 1}).encode()
    fields = {"topic": "orders", "group": "cg", "timestamp": "0", "isForce": "true"}
    await push_request(broker, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)
    await world.until(lambda: sorted(message.body for message in consumer.got[3:]) == [b"1", b"2"], within=5)


async def test_a_consumer_returns_its_offsets(broker: "FakeBroker", consumer: Consumer) -> None:
    """Code 221."""
    del consumer
    await trio.sleep(0.1)
    answer = await ask(broker, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "orders", "group": "cg"})
    assert GetConsumerStatusBody.decode(answer.body).message_queue_table == {QUEUE: 3}


async def test_a_consumer_shows_its_inside(broker: "FakeBroker", consumer: Consumer) -> None:
    """Code 307."""
    answer = await ask(broker, RequestCode.GET_CONSUMER_RUNNING_INFO, GROUP | {"jstackEnable": "false"})
    info = ConsumerRunningInfo.decode(answer.body)
    assert info.mq_table[QUEUE].cached_msg_count == 0
    assert info.properties["PROP_CLIENT_VERSION"] == "V4_9_8"
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert int(info.properties["PROP_CONSUMER_START_TIMESTAMP"]) == consumer.consumer.started_at
    assert {data.topic for data in info.subscription_set} == {"orders", "%RETRY%cg"}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, CMResult.CR_SUCCESS),
        (ConsumeLaterError(), CMResult.CR_LATER),
        (ValueError("on purpose"), CMResult.CR_THROW_EXCEPTION),
    ],
)
async def test_one_message_is_consumed_out_of_turn(
    broker: "FakeBroker", consumer: Consumer, error: Exception | None, expected: CMResult
) -> None:
    """Code 309."""
    consumer.error = error
    answer = await ask(broker, RequestCode.CONSUME_MESSAGE_DIRECTLY, GROUP, broker.queues["orders", 0][1])
    result = ConsumeMessageDirectlyResult.decode(answer.body)
    assert (result.consume_result, result.order) == (expected, False)
    assert consumer.got[-1].body == b"1"


async def test_an_orderly_consumer_says_that_it_is_one(
    world: "World", broker: "FakeBroker", client: Client, nursery: trio.Nursery
) -> None:
    """Class ConsumeMessageOrderlyService, method consumeMessageDirectly."""
    consumer = Consumer(client, orderly=True)
    await nursery.start(consumer.consumer.run)
    await world.until(lambda: len(consumer.got) == 3)
    answer = await ask(broker, RequestCode.CONSUME_MESSAGE_DIRECTLY, GROUP, broker.queues["orders", 0][1])
    assert ConsumeMessageDirectlyResult.decode(answer.body).order


async def test_an_unparseable_message_is_reported_as_an_exception(broker: "FakeBroker", consumer: Consumer) -> None:
    answer = await ask(broker, RequestCode.CONSUME_MESSAGE_DIRECTLY, GROUP, b"no record")
    result = ConsumeMessageDirectlyResult.decode(answer.body)
    assert result.consume_result == CMResult.CR_THROW_EXCEPTION
    assert len(consumer.got) == 3


async def test_a_consumer_that_starts_or_stops_consumes_no_message_out_of_turn(
    broker: "FakeBroker", consumer: Consumer
) -> None:
    """The tool that asks would wait for its time-out."""
    consumer.consumer._assignments = None
    answer = await ask(broker, RequestCode.CONSUME_MESSAGE_DIRECTLY, GROUP, broker.queues["orders", 0][1])
    assert (answer.code, answer.remark) == (1, "the consumer of group cg is starting or stopping")
    assert len(consumer.got) == 3


async def test_a_reply_that_no_request_waits_for_is_not_decompressed(
    broker: "FakeBroker", consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may be one of 64 MiB."""
    del consumer
    bodies = list[bytes]()
    monkeypatch.setattr("rmqlab.client.client_handlers.decompress_body", lambda body, _flag: bodies.append(body))
    fields: dict[str, Any] = {
        "producerGroup": "pg", "topic": "T", "queueId": "0", "sysFlag": "1", "flag": "0", "properties": "",
        "bornTimestamp": "1", "storeTimestamp": "2",
    }  # fmt: skip
    answer = await ask(broker, RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields, b"x")
    assert (answer.code, bodies) == (ResponseCode.SUCCESS, [])


@pytest.mark.parametrize("code", [RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY])
async def test_a_group_that_is_not_here_is_refused(broker: "FakeBroker", consumer: Consumer, code: RequestCode) -> None:
    del consumer
    answer = await ask(broker, code, {"consumerGroup": "other", "clientId": "c"})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "no consumer of group other" in (answer.remark or "")


async def test_an_unsupported_request_gets_code_3(broker: "FakeBroker", consumer: Consumer) -> None:
    del consumer
    answer = await ask(broker, RequestCode.SUSPEND_CONSUMER, {})
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_a_half_message_that_does_not_parse_is_refused(broker: "FakeBroker", consumer: Consumer) -> None:
    del consumer
    fields: dict[str, Any] = {"tranStateTableOffset": "0", "commitLogOffset": "0"}
    answer = await ask(broker, RequestCode.CHECK_TRANSACTION_STATE, fields, b"no record")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "does not parse" in (answer.remark or "")


async def test_the_rates_of_a_consumer_are_measured(world: "World", broker: "FakeBroker", consumer: Consumer) -> None:
    """Code 307: what mqadmin consumerStatus shows.

    A topic without messages is listed, too.
    """
    consumer.error = ConsumeLaterError()
    broker.put("orders", 0, b"3")
    await world.until(lambda: len(consumer.got) == 4)
    await trio.sleep(1)
    answer = await ask(broker, RequestCode.GET_CONSUMER_RUNNING_INFO, GROUP | {"jstackEnable": "false"})
    rates = ConsumerRunningInfo.decode(answer.body).status_table
    assert set(rates) == {"orders", "%RETRY%cg"}
    assert rates["orders"].consume_failed_msgs == 1
    assert rates["orders"].consume_ok_tps == pytest.approx(3 * rates["orders"].consume_failed_tps) != 0
    assert rates["orders"].pull_tps > 0
    assert rates["%RETRY%cg"].pull_tps == 0
