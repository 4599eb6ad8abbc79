"""Traces sent to a scripted broker: content, time and amount.

They are of sends, deliveries and transactions.
"""

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio

from rmqlab.client.config import ConsumerConfig, ProducerConfig
from rmqlab.client.consuming import ConsumeLaterError
from rmqlab.client.instance import Client, open_client
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.producer import Producer
from rmqlab.client.push import PushConsumer
from rmqlab.client.transaction import TransactionProducer, TransactionState
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import request
from rmqlab.remoting.header import FALSE, TRUE
from rmqlab.remoting.headers.send import SendMessageResponseHeader
from rmqlab.remoting.message import StoredMessage, decode_message
from rmqlab.remoting.names import TRACE_TOPIC
from rmqlab.runtime.net.dispatch import Reply
from tests.client.conftest import record

if TYPE_CHECKING:
    from tests.client.conftest import FakeBroker, World

TRACED = ProducerConfig(enable_trace=True)
WALL = range(10**12, 10**13)  # milliseconds of this epoch


@pytest.fixture
def broker(world: "World") -> "FakeBroker":
    (broker,) = world.add("a")
    world.route("orders", 1)
    world.route(TRACE_TOPIC, 1)
    return broker


def traces(broker: "FakeBroker") -> list[tuple[list[str], set[str]]]:
    """Records, each as its fields, with the keys of its trace message."""
    traces = [decode_message(record) for record in broker.queues[TRACE_TOPIC, 0]]
    return [
        (text.split("\x01"), set(trace.properties["KEYS"].split()))
        for trace in traces
        for text in text_of(trace).split("\x02")[:-1]
    ]


def text_of(trace: StoredMessage) -> str:
    """Large ones are compressed; the broker here keeps no flag of it."""
    return (zlib.decompress(trace.body) if trace.body.startswith(b"x\x5e") else trace.body).decode()


async def wait_traces(world: "World", broker: "FakeBroker", count: int) -> list[tuple[list[str], set[str]]]:
    await world.until(lambda: len(traces(broker)) >= count, 120)
    return traces(broker)


def stored(**fields: Any) -> Reply:
    return Reply(header=SendMessageResponseHeader(msg_id="AB", queue_id=0, queue_offset=5, **fields))


async def test_a_send_trace_has_all_fields_of_the_java_trace(
    world: "World", broker: "FakeBroker", client: Client
) -> None:
    """Class TraceDataEncoder: 14 fields.

    The keys of a trace are the message's id and its own keys.
    """
    broker.script[RequestCode.SEND_MESSAGE_V2].append(stored(region="north", trace_on=TRUE))
    sent = await Producer(client, "pg", TRACED).send(Message(topic="orders", body=b"four", tags="paid", keys="k1 k2"))
    ((fields, keys),) = await wait_traces(world, broker, 1)
    kind, at, *rest, took, message_type, offset_id, is_ok = fields
    assert int(at) in WALL
    assert int(took) >= 0
    assert [kind, *rest] == [
        "Pub",
        "north",
        "pg",
        "orders",
        sent.message_id,
        "paid",
        "k1 k2",
        broker.address,
        "4",
    ]
    assert (message_type, offset_id, is_ok) == ("0", "AB", "true")
    assert keys == {sent.message_id, "k1", "k2"}
    (command,) = [c for c in broker.asked(RequestCode.SEND_MESSAGE_V2) if c.ext_fields["b"] == TRACE_TOPIC]
    assert command.ext_fields["a"] == "_INNER_TRACE_PRODUCER-pg-PRODUCE-1"


async def test_missing_fields_are_null_and_a_message_that_a_slave_lacks_is_no_success(
    world: "World", broker: "FakeBroker", client: Client
) -> None:
    late = SendMessageResponseHeader(msg_id="AB", queue_id=0, queue_offset=5)
    broker.script[RequestCode.SEND_MESSAGE_V2].append(Reply(ResponseCode.FLUSH_SLAVE_TIMEOUT, header=late))
    await Producer(client, "pg", TRACED).send(Message(topic="orders", body=b"x", delay_level=2))
    ((fields, _),) = await wait_traces(world, broker, 1)
    assert fields[2] == "DefaultRegion"
    assert fields[6:8] == ["null", "null"]
    assert fields[11:] == ["3", "AB", "false"]  # a delayed one


async def test_a_batch_is_traced_once_under_all_of_its_ids(
    world: "World", broker: "FakeBroker", client: Client
) -> None:
    batch = [Message(topic="orders", body=b"x"), Message(topic="orders", body=b"y")]
    sent = await Producer(client, "pg", TRACED).send_batch(batch)
    ((fields, keys),) = await wait_traces(world, broker, 1)
    assert fields[5] == sent.message_id
    assert keys == {sent.message_id}


async def test_sends_rejected_or_with_tracing_disabled_by_the_broker_have_no_trace(
    world: "World", broker: "FakeBroker", client: Client
) -> None:
    broker.script[RequestCode.SEND_MESSAGE_V2] += [
        stored(trace_on=FALSE),
        Reply(ResponseCode.MESSAGE_ILLEGAL, remark="no"),
    ]
    producer = Producer(client, "pg", TRACED)
    await producer.send(Message(topic="orders", body=b"untold"))
    with pytest.raises(Exception, match="no"):
        await producer.send(Message(topic="orders", body=b"refused"))
    await producer.send(Message(topic=TRACE_TOPIC, body=b"of somebody else"))
    await producer.send(Message(topic="orders", body=b"told"))
    await world.until(lambda: len(broker.queues[TRACE_TOPIC, 0]) == 2)
    bodies = [decode_message(record).body for record in broker.queues[TRACE_TOPIC, 0]]
    assert bodies[0] == b"of somebody else"
    assert [text.split("\x01")[9] for text in bodies[1].decode().split("\x02")[:-1]] == ["4"]


@pytest.mark.parametrize(("field", "at_least"), [("tags", 2), ("keys", 6)])
async def test_traces_are_gathered_and_large_ones_sent_in_parts(
    world: "World", broker: "FakeBroker", client: Client, field: str, at_least: int
) -> None:
    """A message's properties, of which its keys are one, are 32 KiB at most."""
    producer = Producer(client, "pg", TRACED)
    for number in range(200):
        long = f"{number:05}" * 200
        message = Message(topic="orders", body=b"x", tags=long if field == "tags" else "")
        await producer.send(attrs.evolve(message, keys=long if field == "keys" else ""))
    records = await wait_traces(world, broker, 200)
    assert len({fields[5] for fields, _ in records}) == 200
    traces = [decode_message(record) for record in broker.queues[TRACE_TOPIC, 0]]
    assert at_least <= len(traces) <= 20
    assert max(len(text_of(trace)) for trace in traces) <= 128_000
    assert max(len(trace.properties["KEYS"]) for trace in traces) < 2**15


@pytest.mark.usefixtures("broker")
async def test_no_more_than_so_many_records_are_kept(client: Client) -> None:
    producer = Producer(client, "pg", TRACED)
    assert producer.tracer is not None
    message = Message(topic="orders", body=b"x")
    for _ in range(1100):
        producer.tracer.ended_transaction(message, "host:1", "id", "UNKNOW", is_asked_for=False)
    assert len(producer.tracer._waiting) == 1024


@pytest.mark.parametrize(
    ("failure", "is_ok", "code"),
    [
        (None, "true", "0"),
        (ValueError("no"), "false", "2"),
        (ConsumeLaterError("not now"), "false", "4"),
        (trio.TooSlowError(), "false", "1"),
    ],
)
async def test_a_delivery_is_traced_before_and_after(
    world: "World", broker: "FakeBroker", client: Client, nursery: trio.Nursery, failure: Any, is_ok: str, code: str
) -> None:
    broker.put("orders", 0, b"x", properties="UNIQ_KEY\x01U1\x02KEYS\x01k1\x02MSG_REGION\x01north\x02TRACE_ON\x01true")
    calls = 0

    async def on_messages(_messages: Sequence[ReceivedMessage]) -> None:
        nonlocal calls
        calls += 1
        if isinstance(failure, trio.TooSlowError):
            await trio.sleep(1000)
        await trio.sleep(2)
        if failure is not None and calls == 1:
            raise failure

    config = ConsumerConfig(enable_trace=True, consume_timeout=60)
    await nursery.start(PushConsumer(client, "cg", {"orders": "*"}, on_messages, config=config).run)
    (before, keys), (after, _) = (await wait_traces(world, broker, 2))[:2]
    request_id = before[4]
    assert int(before[1]) in WALL
    assert [before[0], *before[2:]] == ["SubBefore", "north", "cg", request_id, "U1", "0", "k1"]
    assert [*after[:3], *after[4:7]] == ["SubAfter", request_id, "U1", is_ok, "k1", code]
    assert int(after[3]) in (range(60_000, 61_000) if code == "1" else range(2000, 3000))
    assert int(after[7]) in WALL
    assert after[8] == "cg"
    assert keys == {"U1", "k1"}


async def test_messages_that_are_not_to_be_traced_are_not(
    world: "World", broker: "FakeBroker", client: Client, nursery: trio.Nursery
) -> None:
    broker.put("orders", 0, b"x", properties="UNIQ_KEY\x01U1\x02TRACE_ON\x01false")
    broker.put("orders", 0, b"x", properties="UNIQ_KEY\x01U2")

    async def on_messages(_messages: Sequence[ReceivedMessage]) -> None:
        await trio.lowlevel.checkpoint()

    config = ConsumerConfig(enable_trace=True)
    await nursery.start(PushConsumer(client, "cg", {"orders": "*"}, on_messages, config=config).run)
    records = await wait_traces(world, broker, 2)
    assert [(fields[0], keys) for fields, keys in records] == [("SubBefore", {"U2"}), ("SubAfter", {"U2"})]
    assert records[0][0][2] == "null"


async def test_the_end_of_a_transaction_is_traced(world: "World", broker: "FakeBroker", client: Client) -> None:
    async def work(_message: Message, _id: str) -> TransactionState:
        await trio.lowlevel.checkpoint()
        return TransactionState.ROLLBACK

    async def check(_message: ReceivedMessage) -> TransactionState:
        await trio.lowlevel.checkpoint()
        return TransactionState.COMMIT

    producer = TransactionProducer(client, "pg", check, TRACED)
    done = await producer.send_in_transaction(Message(topic="orders", body=b"x", keys="k"), work)
    (half, _), (end, keys) = await wait_traces(world, broker, 2)
    assert half[11] == "1"
    message_id = done.sent.message_id
    assert [end[0], *end[2:]] == [
        "EndTransaction",
        "DefaultRegion",
        "pg",
        "orders",
        message_id,
        "null",
        "k",
        broker.address,
        "2",
        message_id,
        "ROLLBACK_MESSAGE",
        "false",
    ]
    assert keys == {message_id, "k"}


async def test_the_end_of_a_checked_transaction_is_traced(world: "World", broker: "FakeBroker", client: Client) -> None:
    async def check(_message: ReceivedMessage) -> TransactionState:
        await trio.lowlevel.checkpoint()
        return TransactionState.COMMIT

    producer = TransactionProducer(client, "pg", check, TRACED)
    await producer.send(Message(topic="orders", body=b"x"))
    fields = {"tranStateTableOffset": "17", "commitLogOffset": "4711", "transactionId": "T"}
    half = record("orders", 0, 17, b"half", "UNIQ_KEY\x01U\x02PGROUP\x01pg")
    (channel,) = broker.server.channels
    channel.send_oneway(request(RequestCode.CHECK_TRANSACTION_STATE, fields, half, oneway=True))
    _, (end, keys) = await wait_traces(world, broker, 2)
    assert (end[0], end[5], end[8:]) == ("EndTransaction", "U", [broker.address, "2", "U", "COMMIT_MESSAGE", "true"])
    assert "U" in keys


async def test_pending_traces_are_sent_when_producer_or_client_close(world: "World", broker: "FakeBroker") -> None:
    async with open_client(world.config()) as client:
        producer = Producer(client, "pg", TRACED)
        await producer.send(Message(topic="orders", body=b"x"))
        await producer.close()
        assert len(traces(broker)) == 1
        await Producer(client, "other", TRACED).send(Message(topic="orders", body=b"x"))
    assert [fields[3] for fields, _ in traces(broker)] == ["pg", "other"]


async def test_traces_contain_names_without_the_namespace(world: "World", broker: "FakeBroker") -> None:
    world.route("NS%orders", 1)
    async with open_client(world.config(namespace="NS")) as client:
        await Producer(client, "pg", TRACED).send(Message(topic="orders", body=b"x"))
    ((fields, _),) = traces(broker)
    assert fields[3:5] == ["pg", "orders"]
