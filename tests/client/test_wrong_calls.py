"""Wrong values from an application get errors that name them."""

import array
import collections
import math
import types
from typing import Any

import numpy as np
import pytest

from rmqlab.client.admin import Admin
from rmqlab.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from rmqlab.client.errors import RefusedError
from rmqlab.client.groupadmin import GroupAdmin
from rmqlab.client.instance import Client, open_client
from rmqlab.client.litepull import LitePullConsumer
from rmqlab.client.message import Message
from rmqlab.client.messagequery import query_by_key
from rmqlab.client.outgoing import check, prepare, prepare_batch
from rmqlab.client.producer import Producer
from rmqlab.client.pull import PullConsumer
from rmqlab.client.push import PushConsumer
from rmqlab.client.requestreply import request
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.bodies.topic import TopicConfig
from tests.client.conftest import World


@pytest.mark.parametrize(
    ("kind", "key", "value", "said"),
    [
        (ClientConfig, "namesrv_addr", None, "namesrv_addr = None: expected a text, such as 127.0.0.1:9876"),
        (ClientConfig, "api_timeout", "3", "api_timeout = '3': expected a number"),
        (ClientConfig, "credentials", ("a", "b"), r"credentials = \('a', 'b'\): expected a Credentials or None"),
        (ProducerConfig, "retries", 1.5, r"retries = 1\.5: expected a whole number"),
        (ProducerConfig, "enable_trace", "yes", "enable_trace = 'yes': expected true or false"),
        (ConsumerConfig, "model", "BROADCASTING", "model = 'BROADCASTING': expected a MessageModel"),
        (ConsumerConfig, "strategy", None, "strategy = None: expected a function"),
        (Message, "keys", 5, "keys = 5: expected a text, or several"),
    ],
)
def test_a_setting_of_a_wrong_type_is_named(kind: Any, key: str, value: object, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        kind(**{"topic": "t", "body": b"x", key: value} if kind is Message else {key: value})


def test_several_keys_and_addresses_are_any_collection_of_texts() -> None:
    for keys in (["a", "b"], ("a", "b"), collections.deque("ab"), {"a": 1, "b": 2}.keys()):
        assert Message(topic="t", body=b"x", keys=keys).keys == "a b"
    addresses: Any = collections.deque(["h:1", "h:2"])
    assert ClientConfig(namesrv_addr=addresses).namesrv_addr == ("h:1", "h:2")


def test_a_body_is_any_buffer_and_none_means_no_tags() -> None:
    bodies: list[Any] = [b"abc", bytearray(b"abc"), memoryview(b"a-b-c")[::2], array.array("B", b"abc")]
    bodies.append(np.frombuffer(b"abc", dtype=np.uint8))
    for body in bodies:
        outgoing = prepare(Message(topic="t", body=body, tags=None, keys=None, properties=None), "id", ProducerConfig())
        assert (outgoing.body, outgoing.properties) == (b"abc", "UNIQ_KEY\1id\2WAIT\1true")


def test_a_body_is_copied() -> None:
    body = bytearray(b"abc")
    message = Message(topic="t", body=body)
    body[:] = b"xyz"
    assert message.body == b"abc"


async def test_numbers_of_other_packages_can_be_sent(world: World, client: Client) -> None:
    world.add("broker-a")
    world.route("orders")
    numbers: Any = np.array([1, 3])
    queue = MessageQueue(topic="orders", broker_name="broker-a", queue_id=numbers[0])
    sent = await Producer(client, "g").send(
        Message(topic="orders", body=b"x", flag=numbers[0], delay_level=numbers[1]), to=queue, timeout=np.float32(3)
    )
    assert sent.queue.queue_id == 1
    assert MessageQueue.decode(queue.encode()) == queue


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"tags": "\ud800"}, r"a property has the character '\\ud800', which UTF-8 cannot encode"),
        ({"properties": {"n": "\udcff"}}, r"a property has the character '\\udcff', which UTF-8 cannot encode"),
        ({"flag": 2**31}, "flag 2147483648 has more than 32 bits"),
    ],
)
def test_a_message_that_cannot_be_written_is_rejected(keys: Any, said: str) -> None:
    message = Message(topic="t", body=b"x", **keys)
    with pytest.raises(RefusedError, match=said):
        prepare(message, "id", ProducerConfig())
    with pytest.raises(RefusedError, match=said):
        prepare_batch([message], ["id"], ProducerConfig())


def test_a_batch_with_long_properties_is_rejected() -> None:
    message = Message(topic="t", body=b"x", properties={"n": "x" * 2**15})
    with pytest.raises(RefusedError, match="the properties are 32792 bytes long, at most 32767 are allowed"):
        prepare_batch([message], ["id"], ProducerConfig())


@pytest.mark.parametrize(
    ("keys", "kind", "said"),
    [
        ({"timeout": "3"}, TypeError, "timeout = '3': expected a number of seconds above 0"),
        ({"timeout": 0}, ValueError, "timeout = 0: expected a number of seconds above 0"),
        ({"timeout": -1}, ValueError, "timeout = -1: expected a number of seconds above 0"),
        ({"timeout": math.nan}, ValueError, "timeout = nan: expected a number of seconds above 0"),
        ({"timeout": math.inf}, ValueError, "timeout = inf: expected a number of seconds above 0"),
        ({"to": 3}, TypeError, "to = 3: expected a MessageQueue or a function"),
    ],
)
async def test_a_wrong_argument_of_a_send_is_named(client: Client, keys: Any, kind: type[Exception], said: str) -> None:
    producer, message = Producer(client, "g"), Message(topic="orders", body=b"x")
    with pytest.raises(kind, match=said):
        await producer.send(message, **keys)
    with pytest.raises(kind, match=said):
        await producer.send_batch([message], **keys)
    with pytest.raises(kind, match=said):  # before a task of the client could fail by it
        producer.send_soon(message, print, **keys)
    if "timeout" in keys:
        with pytest.raises(kind, match=said):
            await request(producer, message, **keys)
        with pytest.raises(kind, match=said):
            await client.ask("127.0.0.1:1", 1, **keys)


async def test_a_wrong_argument_of_another_call_is_named(client: Client) -> None:
    producer, pulls, polls = Producer(client, "g"), PullConsumer(client, "p"), LitePullConsumer(client, "l")
    admin, groups, unknown = Admin(client), GroupAdmin(client), MessageQueue(topic="t", broker_name="b", queue_id=0)
    broken: Any = lambda fn: fn  # noqa: E731 - without the types that mypy would reject
    calls: list[tuple[Any, str]] = [
        (lambda: producer.send_batch(broken(None)), "messages = None: expected a list"),
        (lambda: pulls.pull(broken("q"), 0), "queue = 'q': expected a MessageQueue"),
        (lambda: pulls.pull(unknown, broken("0")), "offset = '0': expected an offset"),
        (lambda: polls.poll(broken("1")), "timeout = '1': expected a number of seconds"),
        (lambda: admin.create_topic(broken(None), TopicConfig(topic_name="t")), "address = None: expected a text"),
        (lambda: admin.update_broker_config("a:1", broken({"k": True})), "changes = .*: expected a mapping of texts"),
        (lambda: groups.commit_offset("g", unknown, broken(1.5)), "offset = 1.5: expected an offset"),
        (lambda: query_by_key(client, "t", broken(5)), "key = 5: expected a text"),
    ]
    for call, said in calls:
        with pytest.raises(TypeError, match=said):
            await call()
    with pytest.raises(TypeError, match="on_outcome = None: expected a function"):
        producer.send_soon(Message(topic="t", body=b"x"), broken(None))
    with pytest.raises(ValueError, match="expected one that is assigned to this consumer"):
        polls.seek(unknown, 0)


@pytest.mark.parametrize("properties", [["n"], {"n": 5}, {5: "n"}, types.MappingProxyType({"n": 5})])
def test_properties_that_are_no_texts_are_named(properties: Any) -> None:
    with pytest.raises(TypeError, match=r"properties = .*: expected a mapping of texts to texts"):
        check(Message(topic="t", body=b"x", properties=properties), ProducerConfig())


def test_a_setting_out_of_range_is_named() -> None:
    for key, value, said in (
        ("send_timeout", 0, "send_timeout = 0: expected more than 0"),
        ("send_timeout", math.nan, "send_timeout = nan: expected more than 0"),
        ("compress_level", 11, "compress_level = 11: expected 1 to 9"),
    ):
        config: Any = ProducerConfig
        with pytest.raises(ValueError, match=said):
            config(**{key: value})


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1", "127.0.0.1:99999", "a b:1", "http://a:1"])
def test_an_invalid_address_of_a_nameserver_is_named(address: str) -> None:
    """It was an error of `int` at the first request."""
    with pytest.raises(ValueError, match=f"namesrv_addr = '{address}': expected host:port, several separated by ;"):
        ClientConfig(namesrv_addr=f"127.0.0.1:9876;{address}")


async def test_a_wrong_argument_of_a_client_is_named(client: Client) -> None:
    for kind in (Producer, PullConsumer, LitePullConsumer):
        made: Any = kind
        with pytest.raises(TypeError, match="group = None: expected a text"):
            made(client, None)
        with pytest.raises(TypeError, match="client = 'c': expected a Client"):
            made("c", "g")
    push: Any = PushConsumer
    with pytest.raises(TypeError, match="topics = 'orders': expected a mapping of texts to texts or Sqls"):
        push(client, "g", "orders", print)
    with pytest.raises(TypeError, match="on_messages = None: expected a function"):
        push(client, "g", {"orders": "*"}, None)
    opened: Any = open_client
    with pytest.raises(TypeError, match=r"config = '127\.0\.0\.1:9876': expected a ClientConfig"):
        opened("127.0.0.1:9876")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (None, "message = None: expected a Message"),
        (b"hello", "message = b'hello': expected a Message"),
        (Message(topic="orders", body="hello"), "body = 'hello': expected bytes"),  # type: ignore[arg-type]
        (Message(topic=None, body=b"x"), "topic = None: expected a text"),  # type: ignore[arg-type]
        (Message(topic="orders", body=b"x", tags=5), "tags = 5: expected a text"),  # type: ignore[arg-type]
        (Message(topic="orders", body=b"x", properties={"n": 5}), "properties = {'n': 5}: expected a mapping"),  # type: ignore[dict-item]
        (Message(topic="orders", body=b"x", delay_level="3"), "delay_level = '3': expected a whole number"),  # type: ignore[arg-type]
    ],
)
async def test_a_value_that_cannot_be_sent_is_named(client: Client, message: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        await Producer(client, "g").send(message)


async def test_right_arguments_of_a_send_need_no_slow_check(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They took 45 us of each send."""
    for module in ("producer", "sendarguments", "outgoing"):
        monkeypatch.setattr(f"rmqlab.client.{module}.check_value", None)
    world.add("a")
    world.route("orders", 1)
    message = Message(topic="orders", body=b"x", tags="t", keys="k", properties={"a": "b"})
    producer = Producer(client, "pg")
    queue = (await producer.send(message, timeout=3.0)).queue
    await producer.send(message, to=queue, timeout=3.0)
    await producer.send(message, to=lambda queues: queues[0])
    producer.send_soon(message, lambda _: None)
