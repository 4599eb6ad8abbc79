"""The client in an application on asyncio.

Run it: `python examples/asyncio_app.py 127.0.0.1:9876 orders`.
"""

import asyncio
from collections.abc import Sequence

import click

from rmqlab.client.aio import open_asyncio_client
from rmqlab.client.config import ClientConfig, ConsumerConfig
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.script import without_traceback
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere

COUNT = 10


async def main(namesrv_addr: str, topic: str) -> None:
    received: asyncio.Queue[ReceivedMessage] = asyncio.Queue()

    async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
        # A coroutine of this loop. Returning means consumed; any exception means: again, later.
        for message in messages:
            await received.put(message)

    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with open_asyncio_client(ClientConfig(namesrv_addr=namesrv_addr)) as client:
        producer = await client.producer("example-producer")
        sends = [producer.send(Message(topic=topic, body=b"order %d" % number)) for number in range(COUNT)]
        for result in await asyncio.gather(*sends):
            print("sent", result.status.name)
        consumer = await client.consume("example-asyncio", {topic: "*"}, on_messages, config=config)
        bodies = {(await received.get()).body.decode() for _ in range(COUNT)}
        print("received", *sorted(bodies), sep=", ")
        await consumer.stop()


@click.command()
@click.argument("namesrv_addr")
@click.argument("topic")
def command(namesrv_addr: str, topic: str) -> None:
    """Send and consume ten messages."""
    with without_traceback():
        asyncio.run(main(namesrv_addr, topic))


if __name__ == "__main__":
    command()
