"""Send ten messages and print the outcome of each.

Run it: `python examples/produce.py 127.0.0.1:9876 orders`.
"""

import click
import trio

from rmqlab.client.config import ClientConfig
from rmqlab.client.errors import IndeterminateError, RefusedError
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer
from rmqlab.client.script import without_traceback


async def main(namesrv_addr: str, topic: str) -> None:
    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client:
        producer = Producer(client, "example-producer")
        for number in range(10):
            message = Message(topic=topic, body=b"order %d" % number, tags="paid", keys=f"order-{number}")
            try:
                result = await producer.send(message)
            except RefusedError as exc:
                print(number, "is not stored:", exc)
            except IndeterminateError as exc:
                print(number, "may be stored or not:", exc)
            else:
                print(number, result.status.name, result.queue.broker_name, result.queue.queue_id, result.queue_offset)


@click.command()
@click.argument("namesrv_addr")
@click.argument("topic")
def command(namesrv_addr: str, topic: str) -> None:
    """Send ten messages and say what became of each."""
    with without_traceback():
        trio.run(main, namesrv_addr, topic)


if __name__ == "__main__":
    command()
