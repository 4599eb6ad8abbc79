"""Consume the messages of each customer in the order of their sends.

Run it: `python examples/ordered.py 127.0.0.1:9876 carts`.
"""

import collections
import zlib
from collections.abc import Sequence

import click
import trio

from rmqlab.client.config import ClientConfig, ConsumerConfig
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.producer import Producer, SelectQueue
from rmqlab.client.push import PushConsumer
from rmqlab.client.script import without_traceback
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere
from rmqlab.remoting.bodies.queue import MessageQueue

CUSTOMERS = ("ann", "bob", "eve")
STEPS = ("opened", "filled", "paid", "shipped")


def by(customer: str) -> SelectQueue:
    """Select one queue for all messages of a customer: only queues keep the order."""

    def select(queues: Sequence[MessageQueue]) -> MessageQueue:
        return queues[zlib.crc32(customer.encode()) % len(queues)]

    return select


async def main(namesrv_addr: str, topic: str) -> None:
    seen = collections.defaultdict[str, list[str]](list)
    enough = trio.Event()

    async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
        # Called for one queue at a time by the member that holds its lock. An exception repeats the same messages.
        await trio.lowlevel.checkpoint()
        for message in messages:
            customer, step = message.body.decode().split()
            seen[customer].append(step)
        if sum(map(len, seen.values())) == len(CUSTOMERS) * len(STEPS):
            enough.set()

    config = ConsumerConfig(orderly=True, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client, trio.open_nursery() as nursery:
        producer = Producer(client, "example-producer")
        for step in STEPS:
            for customer in CUSTOMERS:
                message = Message(topic=topic, body=f"{customer} {step}".encode(), tags="cart")
                await producer.send(message, to=by(customer))
        consumer = PushConsumer(client, "example-orderly", {topic: "cart"}, on_messages, config=config)
        await nursery.start(consumer.run)
        await enough.wait()
        await consumer.stop()
    for customer in CUSTOMERS:
        print(customer, *seen[customer])


@click.command()
@click.argument("namesrv_addr")
@click.argument("topic")
def command(namesrv_addr: str, topic: str) -> None:
    """Send and consume in order."""
    with without_traceback():
        trio.run(main, namesrv_addr, topic)


if __name__ == "__main__":
    command()
