"""Traces of our client, as `mqadmin queryMsgTraceById` shows them."""

import re
from collections.abc import Iterator, Sequence

import pytest
import trio

from rmqlab.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.producer import Producer
from rmqlab.client.push import PushConsumer
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere
from tests.interop.conftest import SYSTEMS
from tests.interop.java import CLIENTS, Java, Mqadmin
from tests.interop.lonemaster import lone_master
from tests.interop.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

TOPIC = "TracedTopic"


@pytest.fixture(scope="module", params=SYSTEMS)
def namesrv(request: pytest.FixtureRequest, java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with lone_master(request.param, java, tmp_path_factory.mktemp("traces")) as broker:
        yield broker.namesrv


@pytest.mark.parametrize("line", CLIENTS)
def test_mqadmin_shows_producer_and_consumer_of_a_traced_message(java: Java, namesrv: str, line: str) -> None:
    """The first consumption fails, the second does not."""
    group = f"readers-{line.replace('.', '-')}"
    message_id = trio.run(_send_and_consume, namesrv, group)
    wanted = [("Pub", "traced-writers", "success"), ("Sub", group, "failed"), ("Sub", group, "success")]
    with Mqadmin(java, line) as mqadmin:

        def rows() -> list[tuple[str, str, str]]:
            shown = mqadmin.run(namesrv, "queryMsgTraceById", "-i", message_id)
            found = [row.split() for row in shown.splitlines() if re.match(r"(Pub|Sub) ", row)]
            return sorted((row[0], row[1], row[-1]) for row in found)

        wait_until(lambda: rows() == wanted, f"the trace of {message_id}")


async def _send_and_consume(namesrv: str, group: str) -> str:
    """Returns the id of a message that was consumed at the second try.

    All traces are sent when it returns.
    """
    got: list[ReceivedMessage] = []
    sent = ""
    is_done = trio.Event()

    async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
        await trio.lowlevel.checkpoint()
        if messages[0].message_id != sent:
            return
        got.extend(messages)
        if len(got) == 1:
            raise ValueError("not yet")
        is_done.set()

    with trio.fail_after(60):
        async with open_client(ClientConfig(namesrv_addr=namesrv)) as client:
            producer = Producer(client, "traced-writers", ProducerConfig(enable_trace=True))
            sent = producer.new_id()
            await producer.send(Message(topic=TOPIC, body=b"x", keys="order-1"), message_id=sent)
            config = ConsumerConfig(enable_trace=True, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
            async with trio.open_nursery() as nursery:
                consumer = PushConsumer(client, group, {TOPIC: "*"}, on_messages, config=config)
                await nursery.start(consumer.run)
                await is_done.wait()
                await consumer.stop()
    return sent
