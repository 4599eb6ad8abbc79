"""Deliver every message to every group member, each with its own offsets.

Run it: `python examples/broadcast.py 127.0.0.1:9876 news`.
"""

import pathlib
import tempfile
from collections.abc import Sequence

import click
import trio

from rmqlab.client.config import ClientConfig, ConsumerConfig
from rmqlab.client.consuming import OnMessages
from rmqlab.client.instance import Client, open_client
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.producer import Producer
from rmqlab.client.push import PushConsumer
from rmqlab.client.script import without_traceback
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere, MessageModel

COUNT = 5


def member(client: Client, topic: str, on_messages: OnMessages, offsets: pathlib.Path) -> PushConsumer:
    """Make one member.

    Brokers keep nothing of a broadcasting group: offsets are in the file, to go on from.
    """
    config = ConsumerConfig(
        model=MessageModel.BROADCASTING,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        local_offsets=offsets,
    )
    return PushConsumer(client, "example-broadcast", {topic: "*"}, on_messages, config=config)


async def listen(namesrv_addr: str, topic: str, directory: pathlib.Path, name: str) -> None:
    """Consume all there is, print it, and stop."""
    bodies: list[str] = []
    enough = trio.Event()

    async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
        await trio.lowlevel.checkpoint()
        bodies.extend(message.body.decode() for message in messages)
        if len(bodies) == COUNT:
            enough.set()

    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client, trio.open_nursery() as nursery:
        consumer = member(client, topic, on_messages, directory / name / "offsets.json")
        await nursery.start(consumer.run)
        await enough.wait()
        await consumer.stop()
    print(name, *sorted(bodies))


async def main(namesrv_addr: str, topic: str) -> None:
    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client:
        producer = Producer(client, "example-producer")
        for number in range(COUNT):
            await producer.send(Message(topic=topic, body=b"item-%d" % number))
    with tempfile.TemporaryDirectory() as directory:
        async with trio.open_nursery() as nursery:
            for name in ("radio", "paper"):
                nursery.start_soon(listen, namesrv_addr, topic, pathlib.Path(directory), name)


@click.command()
@click.argument("namesrv_addr")
@click.argument("topic")
def command(namesrv_addr: str, topic: str) -> None:
    """Let two members read the same news."""
    with without_traceback():
        trio.run(main, namesrv_addr, topic)


if __name__ == "__main__":
    command()
