"""RocketMQ's own example programs, with the 4.9.8 client and with that of 5.3.3, against a master of ours.

They print what they get, and most of them never end; so each is read until it has printed enough, and then killed.
The programs are those of 4.7.0, the only release that Maven Central has; the one with a namespace and the one with
access control ask 127.0.0.1:9876 and are left out.
"""

import re
from collections.abc import Callable, Iterator

import pytest

from tests.interop import rawrequest
from tests.interop.child import Child
from tests.interop.conftest import SYSTEMS
from tests.interop.java import CLIENTS, Java, Mqadmin
from tests.interop.ours import OurBroker, OurNameserver
from tests.interop.realrocketmq import SMALL_FILES, RealBroker, RealNameserver
from tests.interop.server import BrokerServer
from tests.interop.waiting import wait_until

pytestmark = pytest.mark.interop

_SETTINGS = {
    **SMALL_FILES,
    "transactionCheckInterval": 2000,
    "transactionTimeOut": 1000,
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
}
_MESSAGES = re.compile(r"queueId=(\d+), .*?queueOffset=(\d+), .*?body=\[")

Start = Callable[..., Child]


@pytest.fixture(scope="module", params=[(system, line) for system in SYSTEMS for line in CLIENTS], ids="-".join)
def examples(
    request: pytest.FixtureRequest, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["Examples"]:
    """One lone master for all examples of one client: they share their topics, as the examples mean it."""
    system, line = request.param
    directory = tmp_path_factory.mktemp("examples")
    with RealNameserver(java, directory) if system == "real" else OurNameserver(directory) as nameserver:
        broker: BrokerServer
        if system == "real":
            broker = RealBroker(java, directory, nameserver.address, role="ASYNC_MASTER", settings=_SETTINGS)
        else:
            broker = OurBroker(directory, nameserver.address, role="ASYNC_MASTER", settings=_SETTINGS)
        with broker:
            yield Examples(java, line, broker)


class Examples:
    """Starts programs by their name below org.apache.rocketmq.example, and looks at the broker behind their backs."""

    def __init__(self, java: Java, line: str, broker: BrokerServer) -> None:
        self._java, self._line, self.broker = java, line, broker

    def start(self, name: str, *options: str) -> Child:
        jvm = [f"-Drocketmq.namesrv.addr={self.broker.namesrv}", *options]
        return self._java.start(f"org.apache.rocketmq.example.{name}", client=self._line, options=jvm)

    def stored(self, topic: str) -> int:
        """Messages of a topic so far, in all of its queues."""
        return sum(
            rawrequest.max_offset(self.broker.address, topic, queue_id)
            for queue_id in range(rawrequest.queue_count(self.broker.namesrv, topic))
        )

    def wait_stored(self, topic: str, count: int) -> None:
        wait_until(lambda: self.stored(topic) >= count, f"{count} messages in {topic}", timeout=60)
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
    """Wait for so many messages; answer them."""

    def enough() -> bool:
        child.check_running()
        return len(received(child)) >= count

    wait_until(enough, f"{count} messages at {child.name}", timeout=60)
    return received(child)


def sent_ok(child: Child) -> int:
    """Let a producer end; answer how many of its sends succeeded."""
    return sum("sendStatus=SEND_OK" in line for line in child.finish())


def test_simple_messages_are_consumed_by_all_kinds_of_consumers(examples: Examples) -> None:
    """Push, orderly, broadcasting (two members, each gets all), lite pull by subscription and by assignment."""
    before = examples.stored("TopicTest")
    with examples.start("simple.Producer") as producer:
        assert sent_ok(producer) == 128
    count = before + 128
    with (
        examples.start("simple.PushConsumer") as push,
        examples.start("ordermessage.Consumer") as orderly,
        examples.start("broadcast.PushConsumer", "-Drocketmq.client.name=one") as one,
        examples.start("broadcast.PushConsumer", "-Drocketmq.client.name=two") as two,
        examples.start("simple.LitePullConsumerSubscribe") as lite,
    ):
        for consumer in (push, one, two, lite):
            got = wait_received(consumer, count)
            assert len(set(got)) == len(got) == count, consumer.name
        ordered = wait_received(orderly, count)
        for queue in {queue for queue, _ in ordered}:
            offsets = [offset for of_queue, offset in ordered if of_queue == queue]
            assert offsets == sorted(offsets)
    with examples.start("simple.LitePullConsumerAssign") as assigned:
        got = wait_received(assigned, count // 2 - 10)
        assert len({queue for queue, _ in got}) == 2


def test_asynchronous_sends_are_all_called_back(examples: Examples) -> None:
    with examples.start("simple.AsyncProducer") as producer:
        assert sum(" OK " in line for line in producer.finish()) == 100
    examples.wait_stored("Jodie_topic_1023", 100)


def test_messages_of_one_order_lie_in_one_queue(examples: Examples) -> None:
    with examples.start("ordermessage.Producer") as producer:
        assert sent_ok(producer) == 100
    examples.wait_stored("TopicTestjjj", 100)


def test_batches_small_and_split_are_stored_whole(examples: Examples) -> None:
    """100,000 messages in batches of a megabyte."""
    with examples.start("batch.SimpleBatchProducer"):
        examples.wait_stored("BatchTest", 3)
    with examples.start("batch.SplitBatchProducer"):
        examples.wait_stored("BatchTest", 100_003)


def test_transactions_are_asked_for_until_they_end(examples: Examples) -> None:
    """Of ten, all unknown at first, the listener commits three when asked, rolls three back, and leaves four open."""
    with examples.start("transaction.TransactionProducer") as producer:
        producer.wait_line(r"(?s)sendStatus=SEND_OK.*", 30)
        wait_until(lambda: sum("SEND_OK" in line for line in producer.lines) == 10, "ten half messages", 30)
        examples.wait_stored("TopicTest1234", 3)


def test_a_request_gets_its_reply(examples: Examples) -> None:
    with examples.start("rpc.ResponseConsumer") as responder:
        responder.wait_line("Consumer Started", 30)
        with examples.start("rpc.RequestProducer") as requester:
            answered = [line for line in requester.finish() if line.startswith("request to <RequestTopic> cost")]
        with examples.start("rpc.AsyncRequestProducer") as requester:
            answered.append(requester.wait_line("request to <RequestTopic> cost", 30))
    assert len(answered) == 2
    reply = str(list(b"reply message contents."))
    assert all(reply in line for line in answered), answered


@pytest.mark.parametrize(("kind", "sent", "matching"), [("Tag", 60, 40), ("Sql", 10, 3)])
def test_filters_let_through_what_they_should(examples: Examples, kind: str, sent: int, matching: int) -> None:
    """Tags A and C of three; by SQL92, tags A and B with `a` from 0 to 3."""
    with examples.start(f"filter.{kind}FilterProducer") as producer:
        assert sent_ok(producer) == sent
    with examples.start(f"filter.{kind}FilterConsumer") as consumer:
        consumer.wait_line("Consumer Started", 30)
        with examples.start(f"filter.{kind}FilterProducer") as producer:
            assert sent_ok(producer) == sent
        assert len(wait_received(consumer, matching)) in {matching, 2 * matching}


def test_traces_are_stored_and_found_again(examples: Examples, mqadmin: Mqadmin) -> None:
    with examples.start("tracemessage.TraceProducer") as producer:
        line = next(line for line in producer.finish() if "sendStatus=SEND_OK" in line)
    found = re.search(r"msgId=(\w+)", line)
    assert found is not None
    wait_until(lambda: examples.stored("RMQ_SYS_TRACE_TOPIC"), "traces", 30)

    def traced() -> bool:
        return "success" in mqadmin.run(examples.broker.namesrv, "queryMsgTraceById", "-i", found[1])

    wait_until(traced, "the trace of a message", 30)
