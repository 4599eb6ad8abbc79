"""Wrong values from an application get errors that name them."""

import collections
import math
import types
from typing import Any

import pytest

from rmqlab.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from rmqlab.client.instance import Client, open_client
from rmqlab.client.litepull import LitePullConsumer
from rmqlab.client.message import Message
from rmqlab.client.outgoing import check
from rmqlab.client.producer import Producer
from rmqlab.client.pull import PullConsumer
from rmqlab.client.push import PushConsumer


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


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1", "127.0.0.1:99999", "a b:1"])
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
