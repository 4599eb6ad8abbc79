"""RocketMQ's own examples with clients 4.9.8 and 5.3.3, at a master of ours.

They print what they get, and most of them never end; so each is read until it has printed enough, and then killed.
The programs are those of 4.7.0, the only release that Maven Central has; the one with a namespace and the one with
access control ask 127.0.0.1:9876 and are left out.
"""

import re
from collections.abc import Iterator

import pytest

from tests.interop import rawrequest
from tests.interop.child import Child
from tests.interop.conftest import SYSTEMS
from tests.interop.java import CLIENTS, Java, Mqadmin
from tests.interop.lonemaster import lone_master
from tests.interop.server import BrokerServer
from tests.interop.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

_MESSAGES = re.compile(r"queueId=(\d+), .*?queueOffset=(\d+), .*?body=\[")

_MEANT_FOR = [(system, line) for system in SYSTEMS for line in CLIENTS]
only_with_4_9 = pytest.mark.parametrize(
    "examples", [(system, "4.9.8") for system in SYSTEMS], indirect=True, ids="-".join
)
"""For programs that use classes which 5 has moved away, and for what the other line would only repeat."""


@pytest.fixture(scope="module", params=_MEANT_FOR, ids="-".join)
def examples(
    request: pytest.FixtureRequest, java: Java, mqadmin: Mqadmin, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["Examples"]:
    """One master for all examples of one client, which share topics by design."""
    system, line = request.param
    # Lite pull consumers of 5.x send 361, which 4.9.8 does not serve: behind a switch in ours.
    settings = {"serveRequestsOf5x": "true"} if system == "ours" and line.startswith("5") else {}
    with lone_master(system, java, tmp_path_factory.mktemp("examples"), settings) as broker:
        yield Examples(java, line, broker, mqadmin)


class Examples:
    """Starts programs below org.apache.rocketmq.example, and inspects the broker."""

    def __init__(self, java: Java, line: str, broker: BrokerServer, mqadmin: Mqadmin) -> None:
        self._java, self.line, self.broker, self._mqadmin = java, line, broker, mqadmin

    def make_topic(self, topic: str) -> None:
        """Create a topic before its first message.

        Consumers that start now find it at once.
        """
        self._mqadmin.run(self.broker.namesrv, "updateTopic", "-b", self.broker.address, "-t", topic)
        wait_until(lambda: rawrequest.route_of(self.broker.namesrv, topic), f"route of {topic}")

    def start(self, name: str, *options: str) -> Child:
        jvm = [f"-Drocketmq.namesrv.addr={self.broker.namesrv}", *options]
        return self._java.start(f"org.apache.rocketmq.example.{name}", client=self.line, options=jvm)

    def stored(self, topic: str) -> int:
        """Messages of a topic so far, in all of its queues."""
        return sum(
            rawrequest.max_offset(self.broker.address, topic, queue_id)
            for queue_id in range(rawrequest.queue_count(self.broker.namesrv, topic))
        )

    def wait_stored(self, topic: str, count: int) -> None:
        wait_until(lambda: self.stored(topic) >= count, f"{count} messages in {topic}", timeout=180)
        assert self.stored(topic) == count


def received(child: Child) -> list[tuple[int, int]]:
    """Queue and offset of each message that a consumer has printed, in order."""
    return [
        (int(queue), int(offset))
        for line in child.lines
        if "MessageExt" in line
        for queue, offset in _MESSAGES.findall(line)
    ]


def wait_received(child: Child, count: int) -> list[tuple[int, int]]:
    """Wait for so many messages; return them."""

    def enough() -> bool:
        child.check_running()
        return len(received(child)) >= count

    wait_until(enough, f"{count} messages at {child.name}", timeout=180)
    return received(child)


def sent_ok(child: Child) -> int:
    """Let a producer end; return the number of successful sends."""
    return sum("sendStatus=SEND_OK" in line for line in child.finish())


def test_simple_messages_are_consumed_by_all_kinds_of_consumers(examples: Examples) -> None:
    """Push, orderly, lite pull by subscription and by assignment."""
    with examples.start("simple.Producer") as producer:
        assert sent_ok(producer) == 128
    count = examples.stored("TopicTest")
    with (
        examples.start("simple.PushConsumer") as push,
        examples.start("ordermessage.Consumer") as orderly,
        examples.start("simple.LitePullConsumerSubscribe") as lite,
        examples.start("simple.LitePullConsumerAssign") as assigned,
    ):
        for consumer in (push, lite):
            got = wait_received(consumer, count)
            assert len(set(got)) == len(got) == count, consumer.name
        ordered = wait_received(orderly, count)
        for queue in {queue for queue, _ in ordered}:
            offsets = [offset for of_queue, offset in ordered if of_queue == queue]
            assert offsets == sorted(offsets)
        wait_until(lambda: {queue for queue, _ in received(assigned)}, "messages of assigned queues")


@only_with_4_9
def test_each_broadcasting_consumer_gets_every_message(examples: Examples) -> None:
    with examples.start("simple.Producer") as producer:
        assert sent_ok(producer) == 128
    count = examples.stored("TopicTest")
    with (
        examples.start("broadcast.PushConsumer", "-Drocketmq.client.name=one") as one,
        examples.start("broadcast.PushConsumer", "-Drocketmq.client.name=two") as two,
    ):
        for consumer in (one, two):
            got = wait_received(consumer, count)
            assert len(set(got)) == len(got) == count


@only_with_4_9
def test_asynchronous_sends_are_all_called_back(examples: Examples) -> None:
    with examples.start("simple.AsyncProducer") as producer:
        assert sum(" OK " in line for line in producer.finish()) == 100
    examples.wait_stored("Jodie_topic_1023", 100)


@only_with_4_9
def test_messages_of_one_order_lie_in_one_queue(examples: Examples) -> None:
    with examples.start("ordermessage.Producer") as producer:
        assert sent_ok(producer) == 100
    examples.wait_stored("TopicTestjjj", 100)


@only_with_4_9
def test_batches_small_and_split_are_stored_whole(examples: Examples) -> None:
    """100,000 messages in batches of a megabyte."""
    with examples.start("batch.SimpleBatchProducer"):
        examples.wait_stored("BatchTest", 3)
    with examples.start("batch.SplitBatchProducer"):
        examples.wait_stored("BatchTest", 100_003)


def test_transactions_are_asked_for_until_they_end(examples: Examples) -> None:
    """Of ten unknown ones, checks commit three, roll three back, and leave four open."""
    with examples.start("transaction.TransactionProducer") as producer:
        wait_until(lambda: sum("SEND_OK" in line for line in producer.lines) == 10, "ten half messages")
        examples.wait_stored("TopicTest1234", 3)


@only_with_4_9
def test_a_request_gets_its_reply(examples: Examples) -> None:
    """The line has the reply's body as a list of numbers.

    With the client of 5.3.3 the example gets none, from a
    real broker 4.9.7 either."""
    examples.make_topic("RequestTopic")
    with examples.start("rpc.ResponseConsumer") as responder:
        for queue_id in range(rawrequest.queue_count(examples.broker.namesrv, "RequestTopic")):
            rawrequest.send(examples.broker.address, "RequestTopic", b"are you there?", queue_id=queue_id)
            responder.wait_line(rf"queueId={queue_id}, ")  # else the time of a request is spent on rebalancing
        # It waits three seconds, of which the start of its JVM may take the most.
        wait_until(lambda: _is_answered(examples), "a reply", 180)


def _is_answered(examples: Examples) -> bool:
    with examples.start("rpc.RequestProducer") as requester:
        return any(
            "request to <RequestTopic> cost" in line and str(list(b"reply message contents.")) in line
            for line in requester.finish()
        )


@pytest.mark.parametrize(("kind", "sent", "matching"), [("Tag", 60, 40), ("Sql", 10, 3)])
def test_filters_let_through_what_they_should(examples: Examples, kind: str, sent: int, matching: int) -> None:
    """Tags A and C of three; by SQL92, tags A and B with `a` from 0 to 3."""
    examples.make_topic(f"{kind}FilterTest")
    with examples.start(f"filter.{kind}FilterConsumer") as consumer:
        consumer.wait_line("Consumer Started", 30)
        with examples.start(f"filter.{kind}FilterProducer") as producer:
            assert sent_ok(producer) == sent
        assert len(wait_received(consumer, matching)) == matching


@only_with_4_9
def test_traces_are_stored_and_found_again(examples: Examples, mqadmin: Mqadmin) -> None:
    """Only of a consumer: a producer that ends drops its unsent traces."""
    with examples.start("simple.Producer") as producer:
        assert sent_ok(producer) == 128
    with examples.start("tracemessage.TracePushConsumer") as consumer:
        line = consumer.wait_line("UNIQ_KEY=", 60)
        wait_until(lambda: examples.stored("RMQ_SYS_TRACE_TOPIC"), "traces", 60)
        found = re.search(r"UNIQ_KEY=(\w+)", line)
        assert found is not None

        def is_traced() -> bool:
            return "CID_JODIE_1" in mqadmin.run(examples.broker.namesrv, "queryMsgTraceById", "-i", found[1])

        wait_until(is_traced, "the trace of a message", 60)
