"""How rows are grouped into requests, and sent again."""

import collections
from collections.abc import Iterator, Mapping, Sequence

import attrs
import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from rmqlab.pipeline.topics.blocking_client import close_links
from rmqlab.pipeline.topics.topicsends import SendFailedError
from rmqlab.pipeline.topics.topicsource import TopicSource
from rmqlab.pipeline.topics.topicwriter import write_rows
from rmqlab.remoting.batch import decode_batch
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from tests.pipeline.hostile import SILENT, TOPIC, HostileServer, Reply, hostile_server, reply, route

ROUTE, SEND, SEND_BATCH = (
    RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
)  # fmt: skip
SCHEMA = StructType([
    StructField("body", StringType()), StructField("shardingKey", StringType()), StructField("queueId", IntegerType()),
])  # fmt: skip
KEYED = [{"body": f"{number:03d}", "shardingKey": f"order-{number % 70}"} for number in range(210)]


@pytest.fixture(autouse=True)
def fresh_client() -> Iterator[None]:
    """Close the clients of a test: their tasks would call servers that are gone."""
    yield
    close_links()


@attrs.define
class Broker:
    """Accepts sends, and keeps their bodies by queue."""

    server: HostileServer
    refused: int = 0
    """The number of requests that it still refuses."""
    bodies: dict[int, list[str]] = attrs.field(factory=lambda: collections.defaultdict(list))
    requests: int = 0

    def respond(self, command: Command) -> Reply:
        self.requests += 1
        if self.refused:
            self.refused -= 1
            return reply(ResponseCode.SYSTEM_BUSY)
        queue = int(command.ext_fields["e"])
        items = decode_batch(command.body) if command.code == SEND_BATCH else [command]
        self.bodies[queue] += [bytes(item.body).decode() for item in items]
        return reply(msgId="x", queueId=queue, queueOffset=0)


@pytest.fixture
def broker(own_host: str) -> Iterator[Broker]:
    with hostile_server(own_host, {}) as server:
        broker = Broker(server)
        server.replies |= {int(SEND): broker.respond, int(SEND_BATCH): broker.respond}
        yield broker


def write(server: HostileServer, rows: Sequence[Mapping[str, object]], seconds: float = 60) -> Mapping[str, int]:
    """Write rows; return the outcomes."""
    options = {"nameServer": server.address, "topic": TOPIC, "requestTimeoutMs": "300", "connectTimeoutMs": "300"}
    options["deliveryTimeoutMs"] = str(int(seconds * 1000))
    writer = TopicSource(options).writer(SCHEMA, overwrite=False)
    columns = {field.name: [row.get(field.name) for row in rows] for field in SCHEMA.fields}
    return write_rows(iter([pa.RecordBatch.from_pydict(columns)]), writer.options, "job-0").outcomes


def test_rows_with_different_keys_share_requests(broker: Broker) -> None:
    """The number of requests is that of full batches, not that of keys."""
    assert write(broker.server, KEYED) == {"SEND_OK": 210}
    assert broker.bodies == {0: [row["body"] for row in KEYED]}
    assert broker.requests == 4


def test_each_key_has_one_queue_and_keeps_its_order(broker: Broker) -> None:
    broker.server.replies[ROUTE] = reply(0, route(broker.server.address, queues=4))
    assert write(broker.server, KEYED) == {"SEND_OK": 210}
    assert_keys_are_in_order(broker)
    assert len(broker.bodies) == 4


def test_keys_find_their_queue_again_if_the_topic_gets_other_queues(broker: Broker) -> None:
    """Rows that wait are distributed over the queues of the new route."""
    routes = [reply(0, route(broker.server.address, queues=1)), reply(0, route(broker.server.address, queues=4))]
    broker.server.replies[ROUTE] = lambda _: routes.pop(0) if len(routes) > 1 else routes[0]
    broker.refused = 1
    outcomes = write(broker.server, KEYED)
    assert (outcomes["SEND_OK"], outcomes["again after refused"]) == (210, 64)
    assert_keys_are_in_order(broker)
    assert len(broker.bodies) == 4


def assert_keys_are_in_order(broker: Broker) -> None:
    queues: dict[int, int] = {}
    for queue, found in broker.bodies.items():
        numbers = [int(body) for body in found]
        for key in {number % 70 for number in numbers}:
            assert queues.setdefault(key, queue) == queue
            mine = [number for number in numbers if number % 70 == key]
            assert mine == [key, key + 70, key + 140]


@pytest.mark.parametrize("target", [{}, {"shardingKey": "k"}, {"queueId": 0}], ids=["any", "of a key", "named"])
def test_rows_wait_for_a_name_server_that_does_not_respond(broker: Broker, target: dict[str, object]) -> None:
    """A frozen nameserver accepts connections, but sends no route."""
    replies: list[Reply] = [reply(0, route(broker.server.address)), SILENT]
    broker.server.replies[ROUTE] = lambda _: replies.pop() if len(replies) > 1 else replies[0]
    outcomes = write(broker.server, [{"body": "000", **target}])
    assert outcomes == {"again after refused": 1, "SEND_OK": 1}
    assert broker.bodies == {0: ["000"]}


@pytest.mark.parametrize("target", [{"shardingKey": "k"}, {"queueId": 0}, {"queueId": 7}], ids=["key", "named", "none"])
@pytest.mark.parametrize("answer", [SILENT, b"\x00" * 64, reply(0, b"{"), reply(0, route("127.0.0.1:1"))])
def test_rows_with_a_target_fail_their_task_without_a_broker(
    own_host: str, answer: Reply, target: dict[str, object]
) -> None:
    with hostile_server(own_host, {ROUTE: answer}) as server, pytest.raises(SendFailedError) as caught:
        write(server, [{"body": "000", **target}], 0.1)
    assert str(caught.value).startswith("1 row could not be written to orders: ")
