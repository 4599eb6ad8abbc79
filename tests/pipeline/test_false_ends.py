"""Checkpoints of streams with ends that brokers reported, and queues do not have."""

import json
import pathlib
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from tests.pipeline.test_topicsource import Stream, numbered, texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.conftest import Lab

pytestmark = pytest.mark.long  # a loss is sure after ten seconds


def with_false_end(stream: Stream) -> pathlib.Path:
    """Plan a stopped stream's next batch, up to an end that its queue does not have.

    Returns the file with the true end.
    """
    planned = max((stream.place / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    head, metadata, offsets = planned.read_text().split("\n")
    document = json.loads(offsets)
    document["topics"][stream.topic]["broker-a"]["0"] += 1_000_000
    planned.with_name(str(int(planned.name) + 1)).write_text("\n".join((head, metadata, json.dumps(document))))
    return planned


def test_a_stream_with_a_false_end_fails_at_each_start_and_continues_with_a_new_checkpoint(
    spark: "SparkSession", lab: "Lab", tmp_path: pathlib.Path
) -> None:
    lab.create_topic("false-ends", 1)
    lab.send("false-ends", numbered(0, 10))
    stream = Stream(spark, lab, tmp_path / "first", "false-ends")
    stream.once()
    planned = with_false_end(stream)
    lab.send("false-ends", numbered(10, 10))
    for _ in range(2):
        with pytest.raises(PySparkException, match=r"offsets 20 to 1000009 are lost: no broker that responds has them"):
            stream.once()
    fresh = Stream(spark, lab, tmp_path / "second", "false-ends")
    fresh.once(startingOffsets=planned.read_text().splitlines()[-1])
    assert stream.seen() + fresh.seen() == texts(0, 20)


def test_a_stream_that_may_lose_messages_continues_after_a_false_end(
    spark: "SparkSession", lab: "Lab", tmp_path: pathlib.Path
) -> None:
    lab.create_topic("false-ends-allowed", 1)
    lab.send("false-ends-allowed", numbered(0, 10))
    stream = Stream(spark, lab, tmp_path, "false-ends-allowed")
    stream.once()
    with_false_end(stream)
    lab.send("false-ends-allowed", numbered(10, 10))
    stream.once(failOnDataLoss="false")
    lab.send("false-ends-allowed", numbered(20, 10))
    stream.once(failOnDataLoss="false")
    assert stream.seen() == texts(0, 30)
