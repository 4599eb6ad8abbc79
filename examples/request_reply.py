"""Send a request as a message and receive the reply.

Run it: `python examples/request_reply.py 127.0.0.1:9876 prices`.
"""

from collections.abc import Sequence

import click
import trio

from rmqlab.client.config import ClientConfig, ConsumerConfig
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.producer import Producer
from rmqlab.client.push import PushConsumer
from rmqlab.client.requestreply import NoReplyError, reply_to, request
from rmqlab.client.script import without_traceback
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere

PRICES = {b"RB-1": b"9.99", b"RB-2": b"24.50"}


async def main(namesrv_addr: str, topic: str) -> None:
    config = ClientConfig(namesrv_addr=namesrv_addr)
    async with open_client(config) as asking, open_client(config) as answering, trio.open_nursery() as nursery:
        producer, replies = Producer(asking, "example-asker"), Producer(answering, "example-answerer")

        async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
            for message in messages:
                if (price := PRICES.get(message.body)) is not None:
                    await replies.send(reply_to(message, price))

        await replies.announce(topic)  # the first message of a topic would create it: here no message was sent yet
        where = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        consumer = PushConsumer(answering, "example-answerer", {topic: "*"}, on_messages, config=where)
        await nursery.start(consumer.run)
        for article in (*PRICES, b"RB-3"):
            timeout = 30 if article in PRICES else 5  # the time for the send, too
            try:
                reply = await request(producer, Message(topic=topic, body=article), timeout=timeout)
            except NoReplyError as exc:
                print(article.decode(), "-", exc)
            else:
                print(article.decode(), "costs", reply.body.decode())
        await consumer.stop()


@click.command()
@click.argument("namesrv_addr")
@click.argument("topic")
def command(namesrv_addr: str, topic: str) -> None:
    """Ask for three prices, one of them unknown."""
    with without_traceback():
        trio.run(main, namesrv_addr, topic)


if __name__ == "__main__":
    command()
