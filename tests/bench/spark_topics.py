"""Costs of the source `rocketmq`: batch reads, and micro-batches of a stream.

Both read from a live master. See tests.bench.spark.
"""

import contextlib
import functools
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import trio

from rmqlab.client.config import ClientConfig, ProducerConfig
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer
from tests.interop.ours import OurBroker, OurNameserver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_BATCH = 128
_SENDERS = 8
_QUEUES = 4
_WARM_UP = 20
_TURNS = 2


@contextlib.contextmanager
def live_master(directory: Path) -> Iterator[str]:
    """A nameserver and a master of ours, with files below `directory`.

    Yields the nameserver's address.
    """
    with OurNameserver(directory) as nameserver:
        settings = {"defaultTopicQueueNums": _QUEUES}
        with OurBroker(directory, nameserver.address, role="ASYNC_MASTER", settings=settings):
            yield nameserver.address


def fill(server: str, topic: str, count: int, size: int) -> None:
    """Send `count` messages with bodies of this size, in batches."""

    async def send(producer: Producer, numbers: range) -> None:
        for first in range(0, len(numbers), _BATCH):
            share = numbers[first : first + _BATCH]
            await producer.send_batch([Message(topic=topic, body=b"x" * size, keys=f"n{number}") for number in share])

    async def send_all() -> None:
        async with open_client(ClientConfig(namesrv_addr=server)) as client:
            producer = Producer(client, "bench", ProducerConfig(send_timeout=60.0))
            await producer.send(Message(topic=topic, body=b"x" * size))  # makes the topic
            async with trio.open_nursery() as nursery:
                for number in range(_SENDERS):
                    nursery.start_soon(send, producer, range(1 + number, count, _SENDERS))

    trio.run(send_all)


def topic_frames(
    spark: "SparkSession", server: str, topic: str, slim: str, columns: str
) -> dict[str, Callable[[], "DataFrame"]]:
    """Reads of a topic, by what they are called in the table."""

    def load(schema: str) -> "DataFrame":
        reader = spark.read.format("rocketmq").schema(schema)
        return reader.options(nameServer=server, topic=topic).load()

    return {
        "live, without bodies": functools.partial(load, slim),
        "live, with bodies": functools.partial(load, columns),
    }


@attrs.frozen
class MicroBatches:
    """What the micro-batches of a stream cost: medians in ms, and ms of CPU per batch."""

    rows: float
    trigger: float
    slow: float
    """One trigger of 20 takes longer."""
    latest_offset: float
    add_batch: float
    checkpoint: float
    cpu: float
    """Of the JVM and of its Python processes, without programs that Spark starts for its checkpoint."""


def measure_stream(
    spark: "SparkSession", server: str, directory: Path, spark_cpu: Callable[[], float], *, rows: int, batches: int
) -> None:
    """Measure micro-batches of so many rows, as fast as they go.

    They are measured next to those of sources that only make rows. A topic is written into nothing, and into another
    topic. What is ours of a micro-batch is what it takes more than one of a Python source that makes the same rows;
    Spark's `rate` source has no Python.
    """
    fill(server, "ticks", rows * (3 * batches + _WARM_UP), 100)
    fill(server, "tocks", 1, 100)
    _register_floor(spark)
    topic = {"nameServer": server, "topic": "ticks", "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(rows)}
    sources: dict[str, tuple[str, dict[str, str], str, dict[str, str]]] = {
        "rate": ("rate-micro-batch", {"rowsPerBatch": str(rows), "numPartitions": "1"}, "noop", {}),
        "a Python source": ("floor", {"rows": str(rows)}, "noop", {}),
        "topic": ("rocketmq", topic, "noop", {}),
        "topic into a topic": ("rocketmq", topic, "rocketmq", {"nameServer": server, "topic": "tocks"}),
    }
    costs = {}
    for turn in range(_TURNS):  # the JVM compiles while it runs: the last turn counts
        for number, (name, (source, options, sink, sink_options)) in enumerate(sources.items()):
            frame = spark.readStream.format(source).options(**options).load()
            frame = frame if source == "rate-micro-batch" else frame.select("body")
            writer = frame.writeStream.format(sink).options(**sink_options)
            query = writer.option("checkpointLocation", str(directory / f"checkpoint-{number}-{turn}")).start()
            try:
                costs[name] = _measure(query, batches, spark_cpu)
            finally:
                query.stop()
    for name, cost in costs.items():
        _print_batches(name, cost)
    ours, floor = costs["topic"], costs["a Python source"]
    print(
        f"ours of a micro-batch into nothing: {ours.trigger - floor.trigger:.0f} ms of the trigger,"
        f" {ours.add_batch - floor.add_batch:.0f} of addBatch, {ours.cpu - floor.cpu:.0f} ms of CPU",
        flush=True,
    )


def _register_floor(spark: "SparkSession") -> None:
    from pyspark import cloudpickle

    from tests.bench import floor_source

    cloudpickle.register_pickle_by_value(floor_source)  # planners of streams do not import from here
    spark.dataSource.register(floor_source.FloorSource)


def _measure(query: "StreamingQuery", batches: int, spark_cpu: Callable[[], float]) -> MicroBatches:
    """Return what so many micro-batches cost.

    The first ones, which start processes, are left out.
    """
    _wait_for(query, _WARM_UP)
    before, began = spark_cpu(), len(_with_rows(query))
    _wait_for(query, began + batches)
    seen = _with_rows(query)
    cpu = (spark_cpu() - before) / (len(seen) - began) * 1000
    return _costs(seen[began:], cpu)


def _wait_for(query: "StreamingQuery", count: int) -> None:
    while (found := len(_with_rows(query))) < count:
        if query.awaitTermination(0.1):
            raise SystemExit(f"ended after {found} of {count} micro-batches: {query.exception()}")


def _with_rows(query: "StreamingQuery") -> Sequence[Any]:
    """Return the progress of the micro-batches that had rows.

    Spark keeps the last 100.
    """
    return [progress for progress in query.recentProgress if progress["numInputRows"]]


def _costs(batches: Sequence[Any], cpu: float) -> MicroBatches:
    def millis(part: str) -> float:
        return statistics.median(float(progress["durationMs"].get(part, 0)) for progress in batches)

    triggers = sorted(float(progress["durationMs"]["triggerExecution"]) for progress in batches)
    return MicroBatches(
        rows=statistics.median(float(progress["numInputRows"]) for progress in batches),
        trigger=millis("triggerExecution"),
        slow=triggers[-max(1, len(triggers) // 20)],
        latest_offset=millis("latestOffset"),
        add_batch=millis("addBatch"),
        checkpoint=millis("walCommit") + millis("commitOffsets"),
        cpu=cpu,
    )


def _print_batches(name: str, cost: MicroBatches) -> None:
    print(
        f"{name:20} a micro-batch of {cost.rows:.0f} rows {cost.trigger:4.0f} ms (1 in 20 over {cost.slow:.0f}):"
        f" latestOffset {cost.latest_offset:.0f}, addBatch {cost.add_batch:.0f}, checkpoint {cost.checkpoint:.0f} ms;"
        f" {cost.cpu:.0f} ms of CPU",
        flush=True,
    )
