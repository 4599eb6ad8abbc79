"""Finding messages by key, within a namespace and without."""

import struct
from typing import TYPE_CHECKING

import pytest

from rmqlab.client.instance import open_client
from rmqlab.client.messagequery import query_by_key, query_by_unique_key
from rmqlab.remoting.codes import RequestCode
from rmqlab.runtime.net.dispatch import Reply, Request
from tests.client.conftest import record

if TYPE_CHECKING:
    from tests.client.conftest import World


@pytest.mark.parametrize(("namespace", "topic"), [(None, "orders"), ("NS", "NS%orders")])
async def test_keys_are_looked_up_in_the_topic_of_the_namespace(
    world: "World", namespace: str | None, topic: str
) -> None:
    (broker,) = world.add("a")
    world.route(topic, 1)
    found = record(topic, 0, 0, b"found", "KEYS\x01k1 k2\x02UNIQ_KEY\x01U")

    def respond(request: Request) -> Reply:
        assert request.command.ext_fields["topic"] == topic
        return Reply(header={"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}, body=found)

    broker.handlers[RequestCode.QUERY_MESSAGE] = respond
    async with open_client(world.config(namespace=namespace)) as client:
        assert [message.topic for message in await query_by_key(client, "orders", "k2")] == ["orders"]
        assert await query_by_key(client, "orders", "k3") == []
        by_id = await query_by_unique_key(client, "orders", "U")
    assert by_id is not None
    assert by_id.body == b"found"


def stored_at(millis: int, body: bytes, offset: int) -> bytes:
    """A record with another store time, which is at bytes 56 to 64."""
    stored = record("orders", 0, offset, body, "UNIQ_KEY\x01U")
    return stored[:56] + struct.pack(">q", millis) + stored[64:]


async def test_of_a_message_that_was_stored_twice_the_first_is_found(world: "World") -> None:
    (broker,) = world.add("a")
    world.route("orders", 1)

    def respond(request: Request) -> Reply:
        assert int(request.command.ext_fields["endTimestamp"]) == 2**63 - 1, "the last that fits into Java's long"
        both = stored_at(2000, b"second", 1) + stored_at(1000, b"first", 0)
        return Reply(header={"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}, body=both)

    broker.handlers[RequestCode.QUERY_MESSAGE] = respond
    async with open_client(world.config()) as client:
        found = await query_by_unique_key(client, "orders", "U")
    assert found is not None
    assert (found.body, found.store_timestamp) == (b"first", 1000)
