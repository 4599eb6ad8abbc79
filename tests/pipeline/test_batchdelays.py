"""A live stream waits for enough messages, but no longer than it may."""

import datetime as dt
import itertools
import json
import pathlib
import time
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.test_topicsource import Stream, numbered, texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tests.pipeline.conftest import Lab

IDLE_PROGRESS = "spark.sql.streaming.noDataProgressEventInterval"


@pytest.mark.long
def test_a_stream_waits_for_enough_messages_or_long_enough(
    spark: "SparkSession", lab: "Lab", tmp_path: pathlib.Path
) -> None:
    lab.create_topic("awaited", 2)
    lab.send("awaited", numbered(0, 10))
    stream = Stream(spark, lab, tmp_path, "awaited")
    spark.conf.set(IDLE_PROGRESS, "100ms")
    try:
        query = stream.start(minOffsetsPerTrigger="50", maxTriggerDelay="1h")
        stream.wait_seen(texts(0, 10))  # the first batch does not wait
        lab.send("awaited", numbered(10, 20))
        wait_until_behind(query, 20)
        assert stream.seen() == texts(0, 10)
        lab.send("awaited", numbered(30, 30))
        stream.wait_seen(texts(0, 60))
        query.stop()
        assert [size for _, size in batches(query)] == [10, 50]

        query = stream.start(minOffsetsPerTrigger="50", maxTriggerDelay="3s")
        lab.send("awaited", numbered(60, 5))
        stream.wait_seen(texts(0, 65))
        lab.send("awaited", numbered(65, 5))
        stream.wait_seen(texts(0, 70))
        query.stop()
    finally:
        spark.conf.unset(IDLE_PROGRESS)
    begins = [begin for begin, _ in batches(query)]
    assert all(later - earlier > 2.5 for earlier, later in itertools.pairwise(begins))
    assert len(begins) > 1


def wait_until_behind(query: "StreamingQuery", messages: int) -> None:
    """Return when the stream has seen so many messages that it does not read."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        progress = query.lastProgress
        behind = json.loads((progress and progress["sources"][0]["latestOffset"]) or "{}")
        if 2 * behind.get("avgOffsetsBehindLatest", 0) == messages:
            return
        time.sleep(0.1)
    raise AssertionError(query.lastProgress)


def batches(query: "StreamingQuery") -> list[tuple[float, int]]:
    """Return when each micro-batch with messages began, in seconds, and its size."""
    return [
        (dt.datetime.fromisoformat(progress["timestamp"]).timestamp(), progress["numInputRows"])
        for progress in query.recentProgress
        if progress["numInputRows"]
    ]
