"""Send a message that becomes visible only if the related work succeeds.

Run it: `python examples/transaction.py 127.0.0.1:9876 payments`.
"""

from collections.abc import Sequence

import click
import trio

from rmqlab.client.config import ClientConfig, ConsumerConfig
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.push import PushConsumer
from rmqlab.client.script import without_traceback
from rmqlab.client.transaction import TransactionProducer, TransactionState
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere

ACCOUNTS = {"ann": 100, "bob": 5}
BOOKED: set[str] = set()
"""Ids of charged messages: an application would write them into the database transaction of the charge."""


async def charge(message: Message, unique_id: str) -> TransactionState:
    """The local transaction: consumers cannot see the message until it ends."""
    await trio.lowlevel.checkpoint()
    customer, amount = message.body.decode().split()
    if ACCOUNTS[customer] < int(amount):
        return TransactionState.ROLLBACK
    ACCOUNTS[customer] -= int(amount)
    BOOKED.add(unique_id)
    return TransactionState.COMMIT


async def was_charged(message: ReceivedMessage) -> TransactionState:
    """Return the transaction's state when the broker checks it.

    The broker checks if this process died during the work, or could not report the state.
    """
    await trio.lowlevel.checkpoint()
    return TransactionState.COMMIT if message.message_id in BOOKED else TransactionState.ROLLBACK


async def main(namesrv_addr: str, topic: str) -> None:
    consumed = trio.Event()

    async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
        await trio.lowlevel.checkpoint()
        for message in messages:
            print("consumed:", message.body.decode())
        consumed.set()

    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with open_client(ClientConfig(namesrv_addr=namesrv_addr)) as client, trio.open_nursery() as nursery:
        producer = TransactionProducer(client, "example-transactions", was_charged)
        for body in (b"bob 30", b"ann 30"):
            result = await producer.send_in_transaction(Message(topic=topic, body=body, tags="charge"), charge)
            print(body.decode(), result.sent.status.name, result.state.name)
        if not BOOKED:  # such as without the slave that a SYNC_MASTER waits for: no local transaction is begun
            print("no transaction is committed, thus nothing to consume")
            return
        consumer = PushConsumer(client, "example-charged", {topic: "charge"}, on_messages, config=config)
        await nursery.start(consumer.run)
        await consumed.wait()
        await consumer.stop()


@click.command()
@click.argument("namesrv_addr")
@click.argument("topic")
def command(namesrv_addr: str, topic: str) -> None:
    """Send two messages, of which one is rolled back."""
    with without_traceback():
        trio.run(main, namesrv_addr, topic)


if __name__ == "__main__":
    command()
