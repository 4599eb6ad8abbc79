"""Every way to send: `python examples/producers.py 127.0.0.1:9876 orders`."""

import click
import trio

from rmqlab.client.config import ClientConfig
from rmqlab.client.errors import SendError
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message
from rmqlab.client.producer import Outcome, Producer
from rmqlab.client.script import without_traceback


async def main(namesrv_addr: str, topic: str) -> None:
    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client:
        producer = Producer(client, "example-producer")

        # One message: stored when this returns.
        result = await producer.send(Message(topic=topic, body=b"one", keys="order-1", properties={"region": "north"}))
        print("sent", result.status.name, result.message_id)

        # Several in one request and one queue: all are stored, or none.
        result = await producer.send_batch([Message(topic=topic, body=b"batch %d" % number) for number in range(3)])
        print("batch", result.status.name, len(result.message_id.split(",")))

        # To a queue of your choice.
        queues = await producer.queues(topic)
        result = await producer.send(Message(topic=topic, body=b"to a queue"), to=queues[0])
        print("queue", result.queue.queue_id)

        # In the background: the function is called with the result or the error.
        outcomes: list[Outcome] = []
        done = trio.Event()

        def on_outcome(outcome: Outcome) -> None:
            outcomes.append(outcome)
            if len(outcomes) == 5:
                done.set()

        for number in range(5):
            producer.send_soon(Message(topic=topic, body=b"background %d" % number), on_outcome)
        await done.wait()
        print("background", sum(not isinstance(outcome, SendError) for outcome in outcomes))

        # And forget: whether it arrived remains unknown.
        print("oneway", await producer.send_oneway(Message(topic=topic, body=b"oneway")))


@click.command()
@click.argument("namesrv_addr")
@click.argument("topic")
def command(namesrv_addr: str, topic: str) -> None:
    """Send in every way that there is."""
    with without_traceback():
        trio.run(main, namesrv_addr, topic)


if __name__ == "__main__":
    command()
