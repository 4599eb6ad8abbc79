"""Print messages as they arrive, until interrupted.

Run it: `python examples/consume.py 127.0.0.1:9876 orders --count 10`.
"""

import signal
from collections.abc import Sequence

import click
import trio

from rmqlab.client.config import ClientConfig, ConsumerConfig
from rmqlab.client.instance import open_client
from rmqlab.client.message import ReceivedMessage
from rmqlab.client.push import PushConsumer
from rmqlab.client.script import without_traceback
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere


async def main(namesrv_addr: str, topic: str, count: int) -> None:
    seen = 0
    enough = trio.Event()

    async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
        # Returning means consumed. Any exception means: give them to the group again, later.
        nonlocal seen
        await trio.lowlevel.checkpoint()
        for message in messages:
            print(message.queue.broker_name, message.queue.queue_id, message.queue_offset, message.body.decode())
        seen += len(messages)
        if seen == count:
            enough.set()

    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client, trio.open_nursery() as nursery:
        nursery.start_soon(set_when_interrupted, enough)
        await nursery.start(PushConsumer(client, "example-consumer", {topic: "*"}, on_messages, config=config).run)
        await enough.wait()
        nursery.cancel_scope.cancel()  # commits the consumed offsets, and unregisters


async def set_when_interrupted(event: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGINT) as interrupts:
        async for _ in interrupts:
            event.set()


@click.command()
@click.argument("namesrv_addr")
@click.argument("topic")
@click.option("--count", default=0)
def command(namesrv_addr: str, topic: str, count: int) -> None:
    """Print messages as they arrive, until interrupted."""
    with without_traceback():
        trio.run(main, namesrv_addr, topic, count)


if __name__ == "__main__":
    command()
