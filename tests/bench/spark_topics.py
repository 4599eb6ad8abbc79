"""Costs of the source `rocketmq`: batch reads, and micro-batches of a stream.

Both read from a live master. See tests.bench.spark.
"""

import contextlib
import functools
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
_WARM_UP = 5


@contextlib.contextmanager
def live_master(place: Path) -> Iterator[str]:
    """A nameserver and a master of ours, with files below `place`.

    Gives the nameserver's address.
    """
    with OurNameserver(place) as nameserver:
        settings = {"defaultTopicQueueNums": _QUEUES}
        with OurBroker(place, nameserver.address, role="ASYNC_MASTER", settings=settings):
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


def measure_stream(spark: "SparkSession", server: str, place: Path, *, rate: int, batches: int) -> None:
    """Measure micro-batches at full speed while a producer sends.

    They write into nothing, and into another topic.
    """
    fill(server, "ticks", 100, 100)
    fill(server, "tocks", 1, 100)
    with _sending(server, "ticks", rate) as sender:
        for name, sink, options in (
            ("to nothing", "noop", {}),
            ("to a topic", "rocketmq", {"nameServer": server, "topic": "tocks"}),
        ):
            source = spark.readStream.format("rocketmq").options(nameServer=server, topic="ticks").load()
            writer = source.select("body").writeStream.format(sink).options(**options)
            query = writer.option("checkpointLocation", str(place / f"checkpoint-{sink}")).start()
            try:
                _print_batches(f"stream, {name}", rate, _some(query, batches, sender))
            finally:
                query.stop()


@contextlib.contextmanager
def _sending(server: str, topic: str, rate: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that sends so many messages a second."""
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.steady_sender", server, topic, str(rate)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _some(query: "StreamingQuery", count: int, sender: subprocess.Popen[bytes]) -> Sequence[Any]:
    """So many micro-batches that held rows.

    The first ones, which start processes, are left out.
    """
    seen: dict[int, Any] = {}
    while len(seen) < count + _WARM_UP:
        if query.awaitTermination(0.5) or sender.poll() is not None:
            raise SystemExit(f"ended before {count} micro-batches: query {query.status}, sender {sender.poll()}")
        seen |= {progress["batchId"]: progress for progress in query.recentProgress if progress["numInputRows"]}
    return [seen[batch] for batch in sorted(seen)][_WARM_UP:]


def _print_batches(name: str, rate: int, batches: Sequence[Any]) -> None:
    def millis(part: str) -> float:
        return statistics.median(float(progress["durationMs"].get(part, 0)) for progress in batches)

    slow = sorted(float(progress["durationMs"]["triggerExecution"]) for progress in batches)[
        -max(1, len(batches) // 20)
    ]
    rows = statistics.median(float(progress["numInputRows"]) for progress in batches)
    print(
        f"{rate:5}/s  {name:22} a micro-batch {millis('triggerExecution'):4.0f} ms (1 in 20 over {slow:.0f}), {rows:.0f} rows:"
        f" latestOffset {millis('latestOffset'):.0f}, addBatch {millis('addBatch'):.0f}, checkpoint"
        f" {millis('walCommit') + millis('commitOffsets'):.0f} ms"
    )
