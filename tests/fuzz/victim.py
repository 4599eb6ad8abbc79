"""An application on our client, connected to a hostile server.

Run it: `python -m tests.fuzz.victim ADDRESS`. It prints a line for each round that it survived. An error that the
client does not document ends it.
"""

import contextlib
import itertools
import sys
from collections.abc import Awaitable, Callable, Sequence

import trio

from rmqlab.client.admin import Admin
from rmqlab.client.config import ClientConfig, ConsumerConfig
from rmqlab.client.errors import ClientError
from rmqlab.client.groupadmin import GroupAdmin
from rmqlab.client.instance import FAILURES, Client, open_client
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.producer import Producer
from rmqlab.client.push import PushConsumer

ROUND_SECONDS = 3.0
CONSUMING_SECONDS = 0.5
DOCUMENTED = (*FAILURES, ClientError)


async def _ignore(_messages: Sequence[ReceivedMessage]) -> None:
    await trio.lowlevel.checkpoint()


async def _attempt(call: Callable[..., Awaitable[object]], *args: object) -> None:
    with trio.move_on_after(ROUND_SECONDS), contextlib.suppress(*DOCUMENTED):
        await call(*args)


async def _ask_all(client: Client, address: str) -> None:
    admin, groups = Admin(client), GroupAdmin(client)
    for call, *args in (
        (admin.cluster_info,),
        (admin.topics,),
        (admin.topic_route, "FuzzTopic"),
        (admin.topic_stats, "FuzzTopic"),
        (admin.topic_configs, address),
        (admin.broker_runtime_info, address),
        (admin.broker_config, address),
        (groups.groups, address),
        (groups.consumer_connection, "fuzz"),
        (groups.consume_stats, "fuzz"),
        (groups.groups_of_topic, "FuzzTopic"),
    ):
        await _attempt(call, *args)


async def one_round(address: str) -> None:
    """Produce, consume and ask, with a client of its own."""
    config = ClientConfig(namesrv_addr=address, api_timeout=1.0)
    async with open_client(config) as client, trio.open_nursery() as nursery:
        consumer = PushConsumer(client, "fuzz", {"FuzzTopic": "*"}, _ignore, config=ConsumerConfig())
        nursery.start_soon(_attempt, consumer.run)
        producer = Producer(client, "fuzz-out")
        for number in range(10):
            await _attempt(producer.send, Message(topic="FuzzTopic", body=b"%d" % number))
        await _ask_all(client, address)
        await trio.sleep(CONSUMING_SECONDS)
        nursery.cancel_scope.cancel()


async def main(address: str) -> None:
    """Round after round, until cancelled."""
    for number in itertools.count(1):
        try:
            await one_round(address)
        except* DOCUMENTED:
            pass
        print(f"round {number}", flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
