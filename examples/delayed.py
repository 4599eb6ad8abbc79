"""Send now, deliver later: `python examples/delayed.py 127.0.0.1:9876 reminders`."""

from collections.abc import Sequence

import click
import trio

from rmqlab.client.config import ClientConfig, ConsumerConfig
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.producer import Producer
from rmqlab.client.push import PushConsumer
from rmqlab.client.script import without_traceback
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere


async def main(namesrv_addr: str, topic: str) -> None:
    send, receive = trio.open_memory_channel[ReceivedMessage](10)

    async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            await send.send(message)

    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client, trio.open_nursery() as nursery:
        producer = Producer(client, "example-producer")
        # Levels: 1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h; 0 is at once.
        for level in (1, 0):
            await producer.send(Message(topic=topic, body=b"level %d" % level, tags="reminder", delay_level=level))
        consumer = PushConsumer(client, "example-reminded", {topic: "reminder"}, on_messages, config=config)
        await nursery.start(consumer.run)
        for _ in range(2):
            message = await receive.receive()
            waited = (message.store_timestamp - message.born_timestamp) // 1000
            print(message.body.decode(), "came after", waited, "s")
        await consumer.stop()


@click.command()
@click.argument("namesrv_addr")
@click.argument("topic")
def command(namesrv_addr: str, topic: str) -> None:
    """Send one message for now and one for later."""
    with without_traceback():
        trio.run(main, namesrv_addr, topic)


if __name__ == "__main__":
    command()
