"""Nameservers and brokers that reply wrongly, or never.

The source and the sink report them, and lose nothing.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from rmqlab.pipeline.errors import UserError
from rmqlab.pipeline.topics.blocking_client import close_links
from rmqlab.pipeline.topics.topicsource import TopicSource
from rmqlab.pipeline.topics.topicwriter import write_rows
from rmqlab.remoting.codes import RequestCode, ResponseCode
from tests.pipeline.hostile import SILENT, TOPIC, Replies, Reply, hostile_server, reply, route
from tests.pipeline.test_topicreader import record

SCHEMA = StructType([StructField("queueId", IntegerType()), StructField("queueOffset", LongType())])
TIMEOUTS = {"requestTimeoutMs": "300", "pollTimeoutMs": "600", "connectTimeoutMs": "300"}
HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
NO_FRAMES = {"silence": SILENT, "HTTP": HTTP, "an absurd size": b"\x7f\xff\xff\xff" * 4, "zeros": bytes(64)}

MAX, MIN, PULL = RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET, RequestCode.PULL_MESSAGE
ROUTE, SEND = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.SEND_MESSAGE_V2
THREE: Replies = {MIN: lambda _: reply(offset=0), MAX: lambda _: reply(offset=3)}
"""A queue of three messages."""


@pytest.fixture(autouse=True)
def fresh_client() -> Iterator[None]:
    """Close the clients of a test.

    Their background tasks would call servers that are gone.
    """
    yield
    close_links()


def read_batch(host: str, replies: Replies, **options: str) -> list[int]:
    """Plan and read a batch; return the offsets of its rows."""
    with hostile_server(host, replies) as server:
        reader = TopicSource({"nameServer": server.address, "topic": TOPIC, **TIMEOUTS, **options}).reader(SCHEMA)
        parts = reader.partitions()
        return [row["queueOffset"] for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def error_of(fn: Callable[..., Any], *args: Any, **options: Any) -> str:
    """Return the error for the user."""
    with pytest.raises(UserError) as caught:
        fn(*args, **options)
    return str(caught.value)


def pulled(*records: bytes, following: int, code: int = 0) -> Callable[[Any], Reply]:
    return lambda _: reply(
        code, b"".join(records), nextBeginOffset=following, minOffset=0, maxOffset=3, suggestWhichBrokerId=0
    )


@pytest.mark.parametrize("nonsense", NO_FRAMES.values(), ids=NO_FRAMES)
def test_a_nameserver_that_speaks_no_remoting_is_named(own_host: str, nonsense: bytes) -> None:
    assert "cannot fetch the route of topic orders: " in error_of(read_batch, own_host, {ROUTE: nonsense})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "cannot fetch the route of topic orders"),
        (b"[" * 100_000, "cannot fetch the route of topic orders"),
        (b"", "there is no topic orders"),
        (route("127.0.0.1:1", queues=2**31 - 1), "the route claims 2147483647 queues: at most 100000 are expected"),
        (route("127.0.0.1:1"), r"orders@broker-0:0): no member responds (broker id 0 at 127.0.0.1:1: "),
        (route("nowhere.invalid:x"), r"orders@broker-0:0): no member responds (broker id 0 at nowhere.invalid:x: "),
        (route(""), r"orders@broker-0:0): no member responds (broker id 0 at : "),
        (route(*[f"127.0.0.1:{port}" for port in range(1, 301)]), "no member responds"),
    ],
    ids=["no JSON", "deep JSON", "nothing", "absurd queues", "a closed port", "no address", "empty", "300 brokers"],
)
def test_a_route_to_nowhere_is_reported(own_host: str, body: bytes, said: str) -> None:
    assert said in error_of(read_batch, own_host, {ROUTE: lambda _: reply(0, body)})


@pytest.mark.parametrize("code", [MAX, MIN])
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        *((nonsense, "no member responds") for nonsense in NO_FRAMES.values()),
        (lambda _: reply(), "the response has no offset"),
        (lambda _: reply(offset="many"), "no member responds"),
        (lambda _: reply(offset=-7), "the response has offset -7: expected "),
        (lambda _: reply(offset=2**63 - 1), "the response has offset 9223372036854775807: expected "),
        (lambda _: reply(offset=10**30), "no member responds"),
        (lambda _: reply(ResponseCode.SYSTEM_BUSY), "no member responds"),
    ],
    ids=[*NO_FRAMES, "no offset", "no number", "negative", "absurd", "30 digits", "busy"],
)
def test_a_broker_that_returns_no_offset_of_a_queue_is_named(
    own_host: str, code: RequestCode, answer: Callable[[Any], Reply], said: str
) -> None:
    error = error_of(read_batch, own_host, {**THREE, code: answer})
    assert "broker-0 (orders@broker-0:0): no member responds" in error
    assert said in error


@pytest.mark.parametrize(
    "answer",
    [
        *NO_FRAMES.values(),
        pulled(b"no record" * 20, following=3),
        pulled(record(0, 0)[:-1], following=3),
        pulled(following=3),
        pulled(record(0, 0), following=0),
        pulled(record(0, 0), following=-1),
        pulled(record(0, 0), following=2**63 - 1),
        pulled(record(0, 0), record(0, 2), following=3),
        pulled(record(0, 0), record(1, 1), record(0, 2), following=3),
        lambda _: reply(0, record(0, 0), nextBeginOffset="many"),
        lambda _: reply(0, record(0, 0)),
        lambda _: reply(77, b"", nextBeginOffset=3),
    ],
    ids=[
        *NO_FRAMES, "no records", "a torn record", "nothing", "no progress", "a negative offset", "an absurd offset",
        "a hole", "another queue", "no number", "no fields", "an unknown code",
    ],
)  # fmt: skip
def test_no_message_is_left_out_without_an_error(own_host: str, answer: Callable[[Any], Reply]) -> None:
    error = error_of(read_batch, own_host, {**THREE, PULL: answer})
    assert "orders@broker-0:0" in error


def test_a_broker_that_claims_too_many_messages_is_an_error(own_host: str) -> None:
    claimed: Replies = {**THREE, MAX: lambda _: reply(offset=10**17), PULL: pulled(record(0, 0), following=1)}
    error = error_of(read_batch, own_host, claimed, maxRecordsPerPartition="1000")
    assert "option maxRecordsPerPartition asks for 100000000000000 tasks" in error


def test_messages_that_a_broker_returns_twice_are_read_once(own_host: str) -> None:
    records = [record(0, offset) for offset in range(3)]
    assert read_batch(own_host, {**THREE, PULL: pulled(records[0], *records, following=3)}) == [0, 1, 2]


def test_a_negative_commit_is_no_commit(own_host: str) -> None:
    """As a position it would mean the end of the queue.

    Its messages would be left out.
    """
    groups = reply(0, b'{"groupList":["billing"]}')
    replies: Replies = {
        **THREE,
        PULL: pulled(*[record(0, offset) for offset in range(3)], following=3),
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: groups,
        RequestCode.QUERY_CONSUMER_OFFSET: lambda _: reply(offset=-1),
    }
    assert read_batch(own_host, replies, startingGroup="billing", startingOffsets="earliest") == [0, 1, 2]
    assert "group billing of option startingGroup has no commit" in error_of(
        read_batch, own_host, replies, startingGroup="billing"
    )


def test_a_stream_reports_a_broker_with_invalid_offsets_after_its_timeout(own_host: str) -> None:
    replies: Replies = {**THREE, PULL: pulled(following=0, code=ResponseCode.PULL_NOT_FOUND)}
    with hostile_server(own_host, replies) as server:
        options = {"nameServer": server.address, "topic": TOPIC, **TIMEOUTS, "startingOffsets": "earliest"}
        reader = TopicSource(options).streamReader(SCHEMA)
        begin = reader.initialOffset()
        reader.prepareForTriggerAvailableNow()
        server.replies[MAX] = lambda _: reply(offset=-5)
        error = error_of(reader.latestOffset, begin, reader.getDefaultReadLimit())
    assert "silent for 600 ms" in error
    assert "the response has offset -5" in error


# ---- the sink --------------------------------------------------------------------------------------------


def write(host: str, replies: Replies) -> dict[str, int]:
    """Write a row; return the outcomes."""
    columns = StructType([StructField("body", StringType())])
    with hostile_server(host, replies) as server:
        given = {"nameServer": server.address, "topic": TOPIC, **TIMEOUTS, "deliveryTimeoutMs": "100"}
        given = {key: value for key, value in given.items() if key != "pollTimeoutMs"}
        writer = TopicSource(given).writer(columns, overwrite=False)
        return write_rows(iter([pa.RecordBatch.from_pylist([{"body": "x"}])]), writer.options, "job-0").outcomes


@pytest.mark.parametrize(
    "answer",
    [
        *NO_FRAMES.values(),
        lambda _: reply(msgId="x", queueId="many", queueOffset="7"),
        lambda _: reply(ResponseCode.SYSTEM_BUSY),
        lambda _: reply(-1),
        lambda _: reply(2**31 - 1),
    ],
    ids=[*NO_FRAMES, "no number", "busy", "a negative code", "an unknown code"],
)
def test_a_row_that_no_broker_confirms_fails_its_task(own_host: str, answer: Callable[[Any], Reply]) -> None:
    assert "1 row could not be written to orders: " in error_of(write, own_host, {SEND: answer})


@pytest.mark.parametrize("nonsense", NO_FRAMES.values(), ids=NO_FRAMES)
def test_a_row_without_a_route_fails_its_task(own_host: str, nonsense: bytes) -> None:
    assert "1 row could not be written to orders: " in error_of(write, own_host, {ROUTE: nonsense})


@pytest.mark.parametrize(
    "body",
    [b"{", b"", route("127.0.0.1:1", queues=2**31 - 1), route("127.0.0.1:1")],
    ids=["no JSON", "nothing", "absurd", "a closed port"],
)
def test_a_row_with_a_route_to_nowhere_fails_its_task(own_host: str, body: bytes) -> None:
    assert "1 row could not be written to orders: " in error_of(write, own_host, {ROUTE: lambda _: reply(0, body)})
