"""Our requests and a recorded Java client's: the same fields and members."""

import json
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
import trio

from rmqlab.client.config import ConsumerConfig
from rmqlab.client.consuming import ConsumeLaterError
from rmqlab.client.instance import Client
from rmqlab.client.litepull import LitePullConsumer
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.producer import Producer
from rmqlab.client.push import PushConsumer
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.fastjson import parse_fastjson

if TYPE_CHECKING:
    from tests.client.conftest import World

WIRE = pathlib.Path(__file__).parents[1] / "golden" / "wire"


def recorded(file: str, code: RequestCode) -> tuple[set[str], Any]:
    """Names of the fields of one recorded request, and its JSON body."""
    for line in (WIRE / file).read_text().splitlines():
        frame = json.loads(line)
        header = frame["header"]
        if header["code"] == code and not header["flag"] & 1 and frame["from"] == "client":
            raw = bytes.fromhex(frame["hex"])
            body = raw[8 + (int.from_bytes(raw[4:8], "big") & 0xFFFFFF) :]
            return set(header.get("extFields", {})), parse_fastjson(body) if body.startswith(b"{") else None
    raise LookupError(f"{file} has no request {code}")


def shape(value: Any) -> Any:
    """Member names and kinds of values, all the way down.

    A list shows its first item's.
    """
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value)


@pytest.fixture
async def sent(world: "World", client: Client) -> dict[int, tuple[set[str], Any]]:
    """Send every request once; return the field names and bodies by code."""
    (broker,) = world.add("a")
    world.route("orders", 2)

    async def fail(_messages: Sequence[ReceivedMessage]) -> None:
        raise ConsumeLaterError

    producer = Producer(client, "pg")
    await producer.send(Message(topic="orders", body=b"x", tags="TagA"))
    await producer.send_batch([Message(topic="orders", body=b"x")])
    async with trio.open_nursery() as nursery:
        for number, is_orderly in enumerate((False, True)):
            config = ConsumerConfig(orderly=is_orderly)
            consumer = PushConsumer(client, f"cg{number}", {"orders": "TagA || TagB"}, fail, config=config)
            await nursery.start(consumer.run)
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    found = {}
    for command in reversed([*broker.log, *world.name_server.log]):
        body: Any = parse_fastjson(command.body) if command.body.startswith(b"{") else None
        if command.code != RequestCode.HEART_BEAT or body["consumerDataSet"]:
            found[command.code] = (set(command.ext_fields), body)
    return found


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("c_basic.jsonl", RequestCode.SEND_MESSAGE_V2),
        ("c_basic.jsonl", RequestCode.SEND_BATCH_MESSAGE),
        ("c_basic.jsonl", RequestCode.GET_ROUTEINFO_BY_TOPIC),
        ("d_tags.jsonl", RequestCode.GET_CONSUMER_LIST_BY_GROUP),
        ("d_tags.jsonl", RequestCode.QUERY_CONSUMER_OFFSET),
        ("d_tags.jsonl", RequestCode.PULL_MESSAGE),
        ("d_tags.jsonl", RequestCode.UPDATE_CONSUMER_OFFSET),
        ("d_tags.jsonl", RequestCode.UNREGISTER_CLIENT),
        ("d_retry.jsonl", RequestCode.CONSUMER_SEND_MSG_BACK),
        ("d_orderly.jsonl", RequestCode.LOCK_BATCH_MQ),
    ],
)
async def test_requests_carry_the_fields_that_javas_carry(
    sent: dict[int, tuple[set[str], Any]], file: str, code: RequestCode
) -> None:
    fields, body = recorded(file, code)
    assert sent[code][0] == fields
    assert shape(sent[code][1]) == shape(body)


async def test_heartbeats_have_the_form_of_javas(sent: dict[int, tuple[set[str], Any]]) -> None:
    _, theirs = recorded("d_orderly.jsonl", RequestCode.HEART_BEAT)
    for line in (WIRE / "d_tags.jsonl").read_text().splitlines():
        frame = json.loads(line)
        raw = bytes.fromhex(frame["hex"])
        body = raw[8 + (int.from_bytes(raw[4:8], "big") & 0xFFFFFF) :]
        if frame["header"]["code"] == RequestCode.HEART_BEAT and b"TagA" in body:
            theirs = parse_fastjson(body)
    assert shape(sent[RequestCode.HEART_BEAT][1]) == shape(theirs)


async def test_lite_pulls_carry_the_fields_that_javas_carry(
    world: "World", client: Client, nursery: trio.Nursery
) -> None:
    """Java's admin marks its requests with ReqT.

    A client of applications has no need to.
    """
    (broker,) = world.add("a")
    world.route("orders", 1)
    consumer = LitePullConsumer(client, "cg")
    await nursery.start(consumer.run)
    await consumer.assign(await consumer.queues("orders"))
    await world.until(lambda: bool(broker.asked(RequestCode.PULL_MESSAGE)))
    fields, _ = recorded("d_lite.jsonl", RequestCode.PULL_MESSAGE)
    assert set(broker.asked(RequestCode.PULL_MESSAGE)[0].ext_fields) == fields - {"ReqT"}
