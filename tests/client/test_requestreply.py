"""Requests and replies with a scripted broker, compared with Java's recordings."""

import json
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import trio

from rmqlab.client.errors import RefusedError
from rmqlab.client.instance import Client
from rmqlab.client.message import Message, ReceivedMessage, received
from rmqlab.client.producer import Producer
from rmqlab.client.requestreply import NoReplyError, NotARequestError, reply_to, request
from rmqlab.remoting.bodies.heartbeat import HeartbeatData
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.command import request as command_of
from rmqlab.remoting.headers.send import SendMessageRequestHeaderV2
from rmqlab.remoting.message import decode_message, parse_properties
from rmqlab.runtime.net.dispatch import Reply, Request
from tests.client.conftest import record

if TYPE_CHECKING:
    from rmqlab.client.client_handlers import ReplyMessage
    from tests.client.conftest import FakeBroker, World

WIRE = pathlib.Path(__file__).parents[1] / "golden" / "wire"
QUESTION = Message(topic="prices", body=b"RB-1", tags="T")


@pytest.fixture
def broker(world: "World") -> "FakeBroker":
    (broker,) = world.add("a")
    world.route("prices", 1)
    return broker


def reply_to_requests(broker: "FakeBroker", change: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
    """Let the broker push a reply as soon as a request is stored.

    `change` may spoil its fields.
    """

    def respond(sent: Request) -> Reply | None:
        header = sent.command.header(SendMessageRequestHeaderV2)
        fields: dict[str, Any] = {
            "producerGroup": "pg",
            "topic": "c_REPLY_TOPIC",
            "queueId": "0",
            "sysFlag": "0",
            "flag": "7",
            "bornTimestamp": "1",
            "storeTimestamp": "2",
            "properties": header.properties,
        }
        change(fields)
        sent.channel.send_request(
            command_of(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields, b"9.99"), broker_heard.append
        )
        return broker.handlers[RequestCode.SEND_MESSAGE_V2](sent)

    broker_heard: list[Command | None] = []
    broker.script[RequestCode.SEND_MESSAGE_V2].append(respond)


async def test_a_reply_finds_the_request_that_it_belongs_to(broker: "FakeBroker", client: Client) -> None:
    """broker-requests section 1.10."""
    reply_to_requests(broker)
    producer = Producer(client, "pg")
    reply = await request(producer, QUESTION, timeout=2)
    assert (reply.body, reply.topic, reply.flag) == (b"9.99", "c_REPLY_TOPIC", 7)
    (sent,) = broker.asked(RequestCode.SEND_MESSAGE_V2)
    properties = parse_properties(sent.ext_fields["i"])
    assert properties.items() >= {"REPLY_TO_CLIENT": client.client_id, "TTL": "2000"}.items()
    assert reply.properties["CORRELATION_ID"] == properties["CORRELATION_ID"]
    assert client.local_members.replies == {}


async def test_a_reply_ends_the_wait_at_once(broker: "FakeBroker", client: Client) -> None:
    reply_to_requests(broker)
    with trio.fail_after(30):
        await request(Producer(client, "pg"), QUESTION, timeout=1000)


async def test_a_requester_is_registered_before_its_request_is_sent(broker: "FakeBroker", client: Client) -> None:
    """A reply is pushed to the client id of the heartbeats."""
    reply_to_requests(broker)
    await request(Producer(client, "pg"), QUESTION)
    codes = [command.code for command in broker.log]
    assert RequestCode.HEART_BEAT in codes[: codes.index(RequestCode.SEND_MESSAGE_V2)]
    data = HeartbeatData.decode(broker.asked(RequestCode.HEART_BEAT)[0].body)
    assert data.client_id == client.client_id
    assert [producer.group_name for producer in data.producer_data_set] == ["pg"]


async def test_a_request_timeout_reports_that_the_request_is_stored(broker: "FakeBroker", client: Client) -> None:
    reply_to_requests(broker, lambda fields: fields.update(properties="CORRELATION_ID\x01another"))
    began_at = trio.current_time()
    with pytest.raises(NoReplyError, match="stored, but no reply arrived within 2 s"):
        await request(Producer(client, "pg"), QUESTION, timeout=2)
    assert trio.current_time() - began_at == pytest.approx(2, abs=0.5)


async def test_a_request_that_is_refused_says_so(broker: "FakeBroker", client: Client) -> None:
    broker.script[RequestCode.SEND_MESSAGE_V2].append(Reply(ResponseCode.MESSAGE_ILLEGAL, remark="no"))
    with pytest.raises(RefusedError, match="no"):
        await request(Producer(client, "pg"), QUESTION)
    assert client.local_members.replies == {}


def asked_message(properties: str) -> ReceivedMessage:
    return received(decode_message(record("prices", 0, 0, b"RB-1", properties)), "a")


async def test_a_reply_goes_to_the_cluster_that_the_request_came_by(
    world: "World", broker: "FakeBroker", client: Client
) -> None:
    world.route("c_REPLY_TOPIC", 1)
    message = asked_message("CLUSTER\x01c\x02REPLY_TO_CLIENT\x01me\x02CORRELATION_ID\x01id\x02TTL\x013000")
    broker.handlers[RequestCode.SEND_REPLY_MESSAGE_V2] = broker.handlers[RequestCode.SEND_MESSAGE_V2]
    await Producer(client, "pg").send(reply_to(message, b"9.99"))
    (sent,) = broker.asked(RequestCode.SEND_REPLY_MESSAGE_V2)
    header = sent.header(SendMessageRequestHeaderV2)
    properties = parse_properties(header.properties or "")
    del properties["UNIQ_KEY"]
    assert (header.topic, sent.body) == ("c_REPLY_TOPIC", b"9.99")
    assert properties == {
        "MSG_TYPE": "reply",
        "REPLY_TO_CLIENT": "me",
        "CORRELATION_ID": "id",
        "TTL": "3000",
        "WAIT": "true",
    }


@pytest.mark.parametrize("properties", ["CLUSTER\x01c", "REPLY_TO_CLIENT\x01me", ""])
def test_a_message_that_is_no_request_has_no_reply(properties: str) -> None:
    with pytest.raises(NotARequestError, match="has no property"):
        reply_to(asked_message(properties), b"9.99")


async def test_a_reply_that_a_real_broker_pushed_is_read(broker: "FakeBroker", client: Client) -> None:
    """Golden recording c_request_reply."""
    await Producer(client, "pg").send(QUESTION)
    frames = map(json.loads, (WIRE / "c_request_reply.jsonl").read_text().splitlines())
    pushed = next(frame for frame in frames if frame["header"]["code"] == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
    raw = bytes.fromhex(pushed["hex"])
    body = raw[8 + (int.from_bytes(raw[4:8], "big") & 0xFFFFFF) :]
    fields = pushed["header"]["extFields"]
    got: list[ReplyMessage] = []
    client.local_members.replies[parse_properties(fields["properties"])["CORRELATION_ID"]] = got.append
    (channel,) = broker.server.channels
    response = await channel.request(command_of(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields, body), 5)
    assert response.code == ResponseCode.SUCCESS
    assert [reply.body for reply in got] == [b"reply to question 0"]
    assert got[0].store_timestamp == int(fields["storeTimestamp"])
