"""Our client with a real master and ours.

Tests are of transactions, delays, requests, SQL92, namespaces and broadcasts. What needs a cluster of two brokers is in
test_python_client.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import pytest
import trio

from rmqlab.client.config import ClientConfig, ConsumerConfig
from rmqlab.client.errors import BrokerError
from rmqlab.client.instance import Client, open_client
from rmqlab.client.litepull import LitePullConsumer
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.producer import Producer
from rmqlab.client.push import PushConsumer
from rmqlab.client.requestreply import NoReplyError, reply_to, request
from rmqlab.client.subscription import Expression, Sql
from rmqlab.client.transaction import TransactionProducer, TransactionState
from rmqlab.remoting.bodies.heartbeat import ConsumeFromWhere, MessageModel
from tests.interop import rawrequest
from tests.interop.java import CLIENTS, Java, Mqadmin
from tests.interop.lonemaster import lone_master
from tests.interop.server import BrokerServer
from tests.interop.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


@pytest.fixture(scope="module", params=["real", "ours"])
def master(
    request: pytest.FixtureRequest, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerServer]:
    with lone_master(request.param, java, tmp_path_factory.mktemp("python")) as broker:
        yield broker


@pytest.fixture
def topic(master: BrokerServer, mqadmin: Mqadmin) -> str:
    """A topic of this test's own, in one queue."""
    topic = f"Py-{os.urandom(4).hex()}"
    mqadmin.run(master.namesrv, "updateTopic", "-b", master.address, "-t", topic, "-r", "1", "-w", "1")
    wait_until(lambda: rawrequest.route_of(master.namesrv, topic), f"route of {topic}")
    return topic


@pytest.fixture
async def client(master: BrokerServer) -> AsyncIterator[Client]:
    async with open_client(ClientConfig(namesrv_addr=master.namesrv)) as client:
        yield client


@contextlib.asynccontextmanager
async def consuming(
    client: Client, topic: str, expression: Expression = "*", config: ConsumerConfig | None = None
) -> AsyncIterator[list[ReceivedMessage]]:
    """A consumer for the length of the block.

    Gives the list that its messages are added to.
    """
    got: list[ReceivedMessage] = []

    async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
        await trio.lowlevel.checkpoint()
        got.extend(messages)

    config = config or ConsumerConfig(consume_from_where=FIRST)
    async with trio.open_nursery() as nursery:
        await nursery.start(
            PushConsumer(client, f"readers-of-{topic}", {topic: expression}, on_messages, config=config).run
        )
        yield got
        nursery.cancel_scope.cancel()


async def until(condition: Callable[[], object], within: float = 60.0) -> None:
    with trio.fail_after(within):
        while not condition():  # noqa: ASYNC110 - facts of other processes
            await trio.sleep(0.05)


async def test_transactions_end_as_they_should_at_once_or_when_asked(client: Client, topic: str) -> None:
    asked: list[tuple[bytes, str]] = []
    answers = {b"late commit": TransactionState.COMMIT, b"late rollback": TransactionState.ROLLBACK}

    async def check(message: ReceivedMessage) -> TransactionState:
        await trio.lowlevel.checkpoint()
        asked.append((message.body, message.topic))
        return answers[message.body]

    producer = TransactionProducer(client, f"transactions-of-{topic}", check)
    wanted = {
        b"commit": TransactionState.COMMIT,
        b"rollback": TransactionState.ROLLBACK,
        b"late commit": TransactionState.UNKNOWN,
        b"late rollback": TransactionState.UNKNOWN,
    }

    async def work(message: Message, unique_id: str) -> TransactionState:
        del unique_id
        await trio.lowlevel.checkpoint()
        return wanted[message.body]

    for body in wanted:
        await producer.send_in_transaction(Message(topic=topic, body=body), work)
    async with consuming(client, topic) as got:
        await until(lambda: len(got) == 2 and len(asked) == 2)
        await trio.sleep(3)
    assert [message.body for message in got] == [b"commit", b"late commit"]
    assert sorted(asked) == [(b"late commit", topic), (b"late rollback", topic)]


async def test_a_delayed_message_is_delivered_when_due(client: Client, topic: str) -> None:
    await Producer(client, f"p-{topic}").send(Message(topic=topic, body=b"later", delay_level=1))
    async with consuming(client, topic) as got:
        await until(lambda: got)
    assert got[0].store_timestamp - got[0].born_timestamp >= 1000


async def test_requests_are_answered(master: BrokerServer, client: Client, topic: str) -> None:
    """Two client instances: a requester, and a responder that omits one reply."""
    async with open_client(ClientConfig(namesrv_addr=master.namesrv)) as other, trio.open_nursery() as nursery:
        replies = Producer(other, "answers")

        async def on_messages(messages: Sequence[ReceivedMessage]) -> None:
            for message in messages:
                if message.body != b"silence":
                    await replies.send(reply_to(message, b"answer to " + message.body))

        config = ConsumerConfig(consume_from_where=FIRST)
        await nursery.start(PushConsumer(other, f"a-{topic}", {topic: "*"}, on_messages, config=config).run)
        asker = Producer(client, f"q-{topic}")
        for question in (b"one", b"x" * 10_000):
            reply = await request(asker, Message(topic=topic, body=question), timeout=30)
            assert reply.body == b"answer to " + question
        with pytest.raises(NoReplyError):
            await request(asker, Message(topic=topic, body=b"silence"), timeout=2)
        nursery.cancel_scope.cancel()


async def test_only_what_an_sql_expression_wants_arrives(client: Client, topic: str) -> None:
    producer = Producer(client, f"p-{topic}")
    expression = Sql("amount BETWEEN 3 AND 5 AND region IS NOT NULL OR TAGS = 'urgent'")
    async with consuming(client, topic, expression) as got:
        for amount in range(8):
            properties = {"amount": str(amount)} | ({"region": "north"} if amount != 4 else {})
            await producer.send(Message(topic=topic, body=b"%d" % amount, properties=properties))
        await producer.send(Message(topic=topic, body=b"urgent", tags="urgent"))
        await until(lambda: len(got) == 3)
        await trio.sleep(1)
    assert sorted(message.body for message in got) == [b"3", b"5", b"urgent"]


async def test_an_expression_that_does_not_parse_is_refused_at_the_start(client: Client, topic: str) -> None:
    async def on_messages(_messages: Sequence[ReceivedMessage]) -> None:
        await trio.lowlevel.checkpoint()

    await client.refresh_route(topic)
    with pytest.raises(BrokerError) as refusal:
        await PushConsumer(client, f"c-{topic}", {topic: Sql("amount >")}, on_messages).run()
    assert refusal.value.code in (1, 23)


async def test_a_polled_consumer_shares_queues_with_its_group(master: BrokerServer, client: Client, topic: str) -> None:
    """Two members in turn: the second continues at the first's committed offset."""
    producer = Producer(client, f"p-{topic}")
    seen: list[bytes] = []
    for round_number in range(2):
        await producer.send(Message(topic=topic, body=b"%d" % round_number))
        config = ConsumerConfig(consume_from_where=FIRST)
        async with (
            open_client(ClientConfig(namesrv_addr=master.namesrv)) as member,
            trio.open_nursery() as nursery,
        ):
            consumer = LitePullConsumer(member, f"c-{topic}", config=config)
            await nursery.start(consumer.run)
            await consumer.subscribe({topic: "*"})
            with trio.fail_after(60):
                while len(seen) == round_number:
                    seen += [message.body for message in await consumer.poll()]
            seen += [message.body for message in await consumer.poll(timeout=0.5)]
            nursery.cancel_scope.cancel()
    assert seen == [b"0", b"1"]


async def test_broadcasts_reach_every_member_once_and_resume_after_a_restart(
    master: BrokerServer, topic: str, tmp_path: Path
) -> None:
    for round_number in range(2):
        async with open_client(ClientConfig(namesrv_addr=master.namesrv)) as client:
            producer = Producer(client, f"p-{topic}")
            for number in range(5):
                await producer.send(Message(topic=topic, body=b"%d" % (5 * round_number + number)))
        for name in ("one", "two"):
            config = ConsumerConfig(
                model=MessageModel.BROADCASTING,
                consume_from_where=FIRST,
                local_offsets=tmp_path / name / "offsets.json",
            )
            async with (
                open_client(ClientConfig(namesrv_addr=master.namesrv)) as client,
                consuming(client, topic, "*", config) as got,
            ):
                await until(lambda got=got: len(got) >= 5)  # type: ignore[misc]
                await trio.sleep(0.5)
            assert sorted(int(message.body) for message in got) == list(range(5 * round_number, 5 * round_number + 5))


@pytest.mark.parametrize("line", CLIENTS)
def test_a_namespace_is_that_of_javas_clients(
    java: Java, mqadmin: Mqadmin, master: BrokerServer, topic: str, line: str
) -> None:
    """Messages of Java within a namespace are consumed within it, and vice versa."""
    namespace = f"INST_{line.replace('.', '_')}"
    mqadmin.run(master.namesrv, "updateTopic", "-b", master.address, "-t", f"{namespace}%{topic}", "-r", "1", "-w", "1")
    wait_until(lambda: rawrequest.route_of(master.namesrv, f"{namespace}%{topic}"), "route within the namespace")
    target = [f"namesrv={master.namesrv}", f"topic={topic}", f"namespace={namespace}", "count=3"]
    with java.start("Producer", *target, client=line) as producer:
        producer.finish()

    async def consume_and_send() -> None:
        async with open_client(ClientConfig(namesrv_addr=master.namesrv, namespace=namespace)) as client:
            async with consuming(client, topic) as got:
                await until(lambda: len(got) == 3)
            assert {(message.topic, message.queue.topic) for message in got} == {(topic, f"{namespace}%{topic}")}
            await Producer(client, "ours").send(Message(topic=topic, body=b"from-python"))

    trio.run(consume_and_send)
    with java.start("Consumer", *target[:3], "group=theirs", "count=4", client=line) as consumer:
        _, *received = consumer.finish()
    assert sorted(row.split()[-1] for row in received) == ["from-python", "m-0", "m-1", "m-2"]
