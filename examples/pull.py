"""Read every queue of a topic from its beginning, with single pull requests.

Run it: `python examples/pull.py 127.0.0.1:9876 orders`.
"""

import click
import trio

from rmqlab.client.broker_api import PullStatus
from rmqlab.client.config import ClientConfig
from rmqlab.client.instance import open_client
from rmqlab.client.pull import PullConsumer
from rmqlab.client.script import without_traceback


async def main(namesrv_addr: str, topic: str) -> None:
    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client:
        consumer = PullConsumer(client, "example-puller")
        for queue in await consumer.queues(topic):
            offset = await consumer.min_offset(queue)
            while (result := await consumer.pull(queue, offset)).status is PullStatus.FOUND:
                for message in result.messages:
                    print(queue.broker_name, queue.queue_id, message.queue_offset, message.body.decode())
                offset = result.next_offset


@click.command()
@click.argument("namesrv_addr")
@click.argument("topic")
def command(namesrv_addr: str, topic: str) -> None:
    """Read every queue of a topic from its beginning, by hand."""
    with without_traceback():
        trio.run(main, namesrv_addr, topic)


if __name__ == "__main__":
    command()
