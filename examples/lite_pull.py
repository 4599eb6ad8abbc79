"""Poll messages when the application wants them, from the offsets it chooses.

Run it: `python examples/lite_pull.py 127.0.0.1:9876 orders`.
"""

import click
import trio

from rmqlab.client.config import ClientConfig
from rmqlab.client.instance import open_client
from rmqlab.client.litepull import LitePullConsumer
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer
from rmqlab.client.script import without_traceback


async def main(namesrv_addr: str, topic: str) -> None:
    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client, trio.open_nursery() as nursery:
        producer = Producer(client, "example-producer")
        queue = (await producer.queues(topic))[0]
        for number in range(6):
            result = await producer.send(Message(topic=topic, body=b"order %d" % number), to=queue)
        last = result.queue_offset

        consumer = LitePullConsumer(client, "example-lite")
        await nursery.start(consumer.run)  # pulls ahead in the background, and commits now and then
        await consumer.assign([queue])
        consumer.seek(queue, last - 2)
        while (consumer.position(queue) or 0) <= last:
            for message in await consumer.poll():
                print(message.queue_offset - last + 5, message.body.decode())
        await consumer.commit()
        nursery.cancel_scope.cancel()


@click.command()
@click.argument("namesrv_addr")
@click.argument("topic")
def command(namesrv_addr: str, topic: str) -> None:
    """Send six messages, and read the last three."""
    with without_traceback():
        trio.run(main, namesrv_addr, topic)


if __name__ == "__main__":
    command()
