"""Finding messages by key, within a namespace and without."""

from typing import TYPE_CHECKING

import pytest

from rmqlab.client.instance import open_client
from rmqlab.client.messagequery import query_by_key, query_by_unique_key
from rmqlab.remoting.codes import RequestCode
from rmqlab.runtime.dispatch import Reply, Request
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

    def answer(request: Request) -> Reply:
        assert request.command.ext_fields["topic"] == topic
        return Reply(header={"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}, body=found)

    broker.handlers[RequestCode.QUERY_MESSAGE] = answer
    async with open_client(world.config(namespace=namespace)) as client:
        assert [message.topic for message in await query_by_key(client, "orders", "k2")] == ["orders"]
        assert await query_by_key(client, "orders", "k3") == []
        by_id = await query_by_unique_key(client, "orders", "U")
    assert by_id is not None
    assert by_id.body == b"found"
