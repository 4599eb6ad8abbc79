"""A limit in bytes of micro-batches, with functions as brokers and on a cluster."""

import itertools
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import attrs
import hypothesis
import pytest
import trio
from hypothesis import strategies
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from rmqlab.client.instance import Client
from rmqlab.pipeline.topics import messagesizes
from rmqlab.pipeline.topics.messagesizes import limited_to_bytes, sample_places
from rmqlab.pipeline.topics.queues import Pulled, Reading
from rmqlab.pipeline.topics.topicoffsets import QueueName, QueueRange
from rmqlab.pipeline.topics.topicsource import TopicSource
from rmqlab.remoting.codes import ResponseCode
from rmqlab.runtime.net.remoting_errors import ConnectError
from tests.pipeline.test_topicsource import Stream, numbered, texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.conftest import Lab

QUEUE, OTHER = QueueName("orders", "broker-a", 0), QueueName("orders", "broker-b", 0)
MEMBERS = {"broker-a": {0: "a:1"}, "broker-b": {0: "b:1"}}
MOST_BYTES = 256 * 1024
"""Bytes of one response of a broker from memory."""


@attrs.define(slots=False)
class FakeBroker:
    """Has messages of these sizes from offset `first`.

    Like a broker it ends a response before the message that would make it too large.
    """

    sizes: Sequence[int]
    first: int = 0
    is_away: bool = False
    pulled_bytes: int = 0

    def pull(self, offset: int, count: int) -> Pulled:
        if self.is_away:
            raise ConnectError("away")
        if offset < self.first:
            return Pulled(ResponseCode.PULL_OFFSET_MOVED, self.first, 0, b"")
        totals = itertools.accumulate(self.sizes[offset - self.first :][:count])
        fitting = [total for number, total in enumerate(totals) if number == 0 or total <= MOST_BYTES]
        if not fitting:
            return Pulled(ResponseCode.PULL_NOT_FOUND, offset, 0, b"")
        self.pulled_bytes += fitting[-1]
        return Pulled(ResponseCode.SUCCESS, offset + len(fitting), 0, b"x" * fitting[-1])


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeBroker]:
    """By address."""
    found: dict[str, FakeBroker] = {}

    async def pull(_: Client, address: str, _queue: QueueName, offset: int, *, count: int, reading: Reading) -> Pulled:
        await trio.lowlevel.checkpoint()
        assert reading.message_filter.is_any
        return found[address].pull(offset, count)

    monkeypatch.setattr(messagesizes, "pull", pull)
    return found


async def batches(broker: FakeBroker, limit: int) -> list[int]:
    """Return the bytes of each batch until all messages are read."""
    at, sizes = 0, []
    while at < len(broker.sizes):
        end = await limited(limit, {QUEUE: at}, {QUEUE: len(broker.sizes)})
        sizes.append(sum(broker.sizes[at : end[QUEUE]]))
        at = end[QUEUE]
    return sizes


async def limited(limit: int, start: dict[QueueName, int], end: dict[QueueName, int]) -> dict[QueueName, int]:
    return await limited_to_bytes(cast("Client", None), start, end, limit, members=MEMBERS, reading=Reading())


@hypothesis.given(strategies.integers(0, 1000), strategies.integers(1, 1000))
def test_places_are_within_the_range_and_the_first_is_its_start(start: int, size: int) -> None:
    places = sample_places(QueueRange(QUEUE, start, start + size))
    assert places[0].start == start
    assert all(first.end <= second.start for first, second in itertools.pairwise(places))
    assert all(start <= place.start < place.end <= start + size for place in places)


async def test_batches_of_equal_messages_have_the_size_of_the_limit(brokers: dict[str, FakeBroker]) -> None:
    brokers["a:1"] = FakeBroker([1000] * 10_000)
    assert await batches(brokers["a:1"], 1_000_000) == [1_000_000] * 10


async def test_a_large_message_between_small_ones_counts(brokers: dict[str, FakeBroker]) -> None:
    """A pull ends before it, so one pull at each place would see small ones alone."""
    brokers["a:1"] = FakeBroker([100, 1_000_000] * 200)
    assert max(await batches(brokers["a:1"], 20_000_000)) <= 21_000_000


async def test_large_messages_at_the_start_are_not_hidden_by_many_small_ones(brokers: dict[str, FakeBroker]) -> None:
    brokers["a:1"] = FakeBroker([1_000_000] * 300 + [100] * 1_000_000)
    end = await limited(10_000_000, {QUEUE: 0}, {QUEUE: 1_000_300})
    assert 5 <= end[QUEUE] <= 10


async def test_a_sample_costs_little_beside_the_batch(brokers: dict[str, FakeBroker]) -> None:
    brokers["a:1"] = FakeBroker([4_000_000] * 100)
    assert (await limited(64_000_000, {QUEUE: 0}, {QUEUE: 100}))[QUEUE] == 16
    assert brokers["a:1"].pulled_bytes <= 32_000_000


async def test_a_message_above_the_limit_is_a_batch_of_its_own(brokers: dict[str, FakeBroker]) -> None:
    brokers["a:1"] = FakeBroker([5000] * 4)
    assert await batches(brokers["a:1"], 10) == [5000] * 4


async def test_a_queue_of_a_broker_that_is_away_gets_one_message(brokers: dict[str, FakeBroker]) -> None:
    brokers |= {"a:1": FakeBroker([100] * 50), "b:1": FakeBroker([], is_away=True)}
    assert await limited(10**9, {QUEUE: 0, OTHER: 7}, {QUEUE: 50, OTHER: 90}) == {QUEUE: 50, OTHER: 8}


async def test_deleted_messages_have_no_bytes(brokers: dict[str, FakeBroker]) -> None:
    brokers["a:1"] = FakeBroker([1000] * 5, first=1000)
    assert await limited(20_000, {QUEUE: 0}, {QUEUE: 1005}) == {QUEUE: 1005}


async def test_queues_without_a_start_are_not_sampled(brokers: dict[str, FakeBroker]) -> None:
    brokers["a:1"] = FakeBroker([], is_away=True)
    assert await limited(1, {}, {QUEUE: 90}) == {QUEUE: 90}


# ---- on a cluster ----------------------------------------------------------------------------------------

LIMIT = 200_000


@pytest.fixture(scope="module")
def sized(lab: "Lab") -> str:
    """A topic of two queues: small messages, then large ones, then both in turn."""
    lab.create_topic("sized", 2)
    small, large = 100, 20_000
    sizes = [small] * 200 + [large] * 60 + [small, small, large, large] * 15
    lab.send("sized", [number.ljust(size) for number, size in zip(numbered(0, len(sizes)), sizes, strict=True)])
    return "sized"


def planned(lab: "Lab", topic: str, **options: str) -> list[int]:
    """Plan and read the micro-batches of a stream; return the stored bytes of each.

    Each message has to be in one of them.
    """
    schema = StructType([StructField("queueId", IntegerType()), StructField("queueOffset", LongType()),
                         StructField("storeSize", IntegerType())])  # fmt: skip
    given = {"nameServer": lab.namesrv_addr, "topic": topic, "startingOffsets": "earliest", **options}
    reader = TopicSource(given).streamReader(schema)
    start: dict[str, Any] = reader.initialOffset()
    seen: list[tuple[int, int]] = []
    batch_bytes = []
    while (end := reader.latestOffset(start, ReadAllAvailable())) != start:
        rows = [
            row for part in reader.partitions(start, end) for batch in reader.read(part) for row in batch.to_pylist()
        ]
        seen += [(row["queueId"], row["queueOffset"]) for row in rows]
        batch_bytes.append(sum(row["storeSize"] for row in rows))
        start = end
    assert len(seen) == len(set(seen)) == 320
    return batch_bytes


def test_micro_batches_of_a_cluster_keep_to_the_limit_in_bytes(lab: "Lab", sized: str) -> None:
    sizes = planned(lab, sized, maxBytesPerTrigger=str(LIMIT))
    assert max(sizes) <= 2 * LIMIT
    assert len(sizes) <= 4 * sum(sizes) / LIMIT
    assert len(planned(lab, sized, maxBytesPerTrigger="1g")) == 1
    assert len(planned(lab, sized)) == 1


def test_the_smaller_of_two_limits_counts(lab: "Lab", sized: str) -> None:
    assert len(planned(lab, sized, maxBytesPerTrigger="1g", maxOffsetsPerTrigger="40")) >= 8
    both = planned(lab, sized, maxBytesPerTrigger=str(LIMIT), maxOffsetsPerTrigger="300")
    assert max(both) <= 2 * LIMIT


def test_a_stream_with_a_limit_in_bytes_reads_every_message_once(
    spark: "SparkSession", lab: "Lab", tmp_path: pathlib.Path
) -> None:
    lab.create_topic("limited", 2)
    lab.send("limited", numbered(0, 200))
    stream = Stream(spark, lab, tmp_path, "limited")
    counts = [rows for rows in stream.once(maxBytesPerTrigger="8k") if rows]
    assert len(counts) >= 4
    assert stream.seen() == texts(0, 200)


def test_a_large_queue_is_cut_though_there_are_as_many_queues_as_tasks(lab: "Lab") -> None:
    """issue 15: a queue of ten million messages was one task beside small ones."""
    lab.create_topic("uneven", 1)
    lab.send("uneven", numbered(0, 200))
    lab.create_topic("uneven", 4)
    lab.send("uneven", numbered(200, 8))
    schema = StructType([StructField("queueId", IntegerType()), StructField("queueOffset", LongType())])
    source = TopicSource({"nameServer": lab.namesrv_addr, "topic": "uneven", "minPartitions": "4"})
    reader = source.reader(schema)
    tasks = [[row for batch in reader.read(part) for row in batch.to_pylist()] for part in reader.partitions()]
    assert max(map(len, tasks)) <= 208 // 4
    rows = [(row["queueId"], row["queueOffset"]) for task in tasks for row in task]
    assert len(rows) == len(set(rows)) == 208
