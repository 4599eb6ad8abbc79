"""Batches: several messages in one request."""

from typing import TYPE_CHECKING

import pytest

from rmqlab.client.errors import RefusedError
from rmqlab.client.instance import Client
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer
from rmqlab.remoting.batch import decode_batch
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.message import parse_properties

if TYPE_CHECKING:
    from tests.client.conftest import World

HELLO = Message(topic="orders", body=b"hello")


async def test_a_batch_is_one_request_for_one_queue(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    messages = [Message(topic="orders", body=b"%d" % number) for number in range(3)]
    result = await Producer(client, "pg").send_batch(messages)
    assert len(result.message_id.split(",")) == 3
    (command,) = broker.asked(RequestCode.SEND_BATCH_MESSAGE)
    assert command.ext_fields["m"] == "true"
    assert command.ext_fields["i"] == "WAIT\x01true"
    assert len(broker.queues["orders", 0]) == 3


async def test_each_message_of_a_batch_carries_its_own_demand_for_copies(world: "World", client: Client) -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)
    messages = [Message(topic="orders", body=b"x", min_copies=copies) for copies in (0, 2)]
    producer = Producer(client, "pg")
    await producer.send_batch(messages)
    await producer.send(messages[1])
    (batch,), (single,) = (broker.asked(code) for code in (RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2))
    carried = [parse_properties(bytes(text).decode()).get("MIN_COPIES") for text in decode_batch(batch.body).properties]
    assert carried == [None, "2"]
    assert parse_properties(single.ext_fields["i"])["MIN_COPIES"] == "2"


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([HELLO, Message(topic="other", body=b"x")], "share one topic"),
        ([HELLO, Message(topic="orders", body=b"x", wait_store_ok=False)], "share one topic"),
        ([Message(topic="orders", body=b"x", delay_level=1)], "delayed"),
        ([Message(topic="%RETRY%g", body=b"x")], "retry topic"),
        ([Message(topic="orders", body=b"x" * 3 * 2**20)] * 2, "at most 4194304"),
    ],
)
async def test_messages_that_do_not_go_together_make_no_batch(
    world: "World", client: Client, messages: list[Message], reason: str
) -> None:
    world.add("a")
    with pytest.raises(RefusedError, match=reason):
        await Producer(client, "pg").send_batch(messages)
