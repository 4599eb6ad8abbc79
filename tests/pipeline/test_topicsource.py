"""Topics of a live cluster: batch and stream reads and writes with dying brokers."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tests.pipeline.conftest import Lab


def read(spark: "SparkSession", lab: "Lab", topic: str, /, **options: str) -> "DataFrame":
    server = {"nameServer": lab.namesrv_addr, "topic": topic}
    return spark.read.format("rocketmq").options(**{**server, **options}).load()


def bodies(frame: "DataFrame") -> list[str]:
    return sorted(row.body for row in frame.selectExpr("cast(body as string) body").collect())


def numbered(first: int, count: int) -> list[bytes]:
    return [b"%05d" % number for number in range(first, first + count)]


def texts(first: int, count: int) -> list[str]:
    return [body.decode() for body in numbered(first, count)]


def offsets_of_orders(*offsets: int) -> str:
    """Return an offset for each of the four queues; the last one given repeats."""
    found = [offsets[min(queue, len(offsets) - 1)] for queue in range(4)]
    return json.dumps({"orders": {"broker-a": {str(queue): offset for queue, offset in enumerate(found)}}})


@pytest.fixture(scope="module")
def orders(lab: "Lab") -> str:
    """A topic with 200 messages in four queues, every other one with tag a."""
    lab.create_topic("orders", 4)
    lab.send("orders", numbered(0, 100), tags="a", keys="k", properties={"color": "red"})
    lab.send("orders", numbered(100, 100), tags="b")
    lab.run("wait", "slave-caught-up", "broker-a")
    return "orders"


@pytest.mark.parametrize("where", ["master", "slave", "suggested"])
def test_a_batch_reads_every_message_once(spark: "SparkSession", lab: "Lab", orders: str, where: str) -> None:
    frame = read(spark, lab, orders, readFrom=where, minPartitions="6")
    assert bodies(frame) == texts(0, 200)
    row = frame.filter("cast(body as string) = '00000'").collect()[0]
    assert (row.topic, row.broker, row.tags, row.keys) == ("orders", "broker-a", "a", "k")
    assert row.properties["color"] == "red"
    assert row.msgId.startswith("7F")
    assert row.storeTimestamp >= row.bornTimestamp
    offsets = frame.groupBy("queueId").agg({"queueOffset": "count", "queueOffset": "max"}).collect()  # noqa: F601
    assert {row["max(queueOffset)"] for row in offsets} == {49}


def test_filters_go_to_the_broker(spark: "SparkSession", lab: "Lab", orders: str) -> None:
    assert bodies(read(spark, lab, orders, tags="b")) == texts(100, 100)
    assert bodies(read(spark, lab, orders, tags="a || b")) == texts(0, 200)
    assert bodies(read(spark, lab, orders, tags="*")) == texts(0, 200)
    assert bodies(read(spark, lab, orders, tags="b||c")) == texts(100, 100)
    assert bodies(read(spark, lab, orders, tags="c")) == []


def test_tags_with_equal_hashes_are_distinguished(spark: "SparkSession", lab: "Lab") -> None:
    """Brokers compare hashes, and Java's hash of Aa is that of BB."""
    lab.create_topic("collided", 1)
    lab.send("collided", [b"Aa"] * 3, tags="Aa")
    lab.send("collided", [b"BB"] * 4, tags="BB")
    assert bodies(read(spark, lab, "collided", tags="Aa || other")) == ["Aa"] * 3
    assert len(bodies(read(spark, lab, "collided", tags="Aa || BB"))) == 7


def test_a_frame_that_was_filtered_still_counts_whole(spark: "SparkSession", lab: "Lab", orders: str) -> None:
    frame = read(spark, lab, orders)
    assert frame.filter("queueOffset > 40").count() == 36
    assert frame.count() == 200


def test_ranges_are_by_offset_or_by_time(spark: "SparkSession", lab: "Lab", orders: str) -> None:
    starts = json.dumps({orders: {"broker-a": {"0": 10, "1": -2, "2": -1, "3": 49}}})
    counts = Counter(row.queueId for row in read(spark, lab, orders, startingOffsets=starts).collect())
    assert counts == {0: 40, 1: 50, 3: 1}
    times = sorted(int(row.storeTimestamp.timestamp() * 1000) for row in read(spark, lab, orders).collect())
    late = [time for time in times if time >= times[120]]
    assert read(spark, lab, orders, startingTimestamp=str(times[120])).count() == len(late)
    assert read(spark, lab, orders, endingTimestamp=str(times[120])).count() == 200 - len(late)
    assert read(spark, lab, orders, startingTimestamp=str(times[-1] + 1)).count() == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": "ordres"}, "there is no topic ordres; did you mean orders?"),
        ({"readFrom": "slav"}, "expected master, slave or suggested; did you mean slave?"),
        ({"maxOffsetsPerTrigger": "3"}, "option maxOffsetsPerTrigger is for a stream only"),
        ({"startingOffsets": "latest"}, "a batch would read nothing"),
        ({"topics": "a,b"}, "one of the options topic, topics, topicPattern and assign is needed"),
        ({"nameServer": "127.0.0.1:1"}, "no nameserver can be reached"),
        ({"nameServer": "somewhere"}, "expected host:port"),
        ({"failOnDatalos": "true"}, "no option failondatalos; did you mean failOnDataLoss?"),
        (
            {"startingOffsets": '{"orders": {"broker-b": {"0": 1}}}'},
            "there is no queue orders@broker-b:0 to read (option startingOffsets); did you mean orders@broker-a:0?",
        ),
        (
            {"startingOffsets": offsets_of_orders(0, 51, 0)},
            "orders@broker-a:1 ends at offset 50, but the requested offset is 51",
        ),
        (
            {"endingOffsets": offsets_of_orders(0, 51, 0)},
            "orders@broker-a:1 ends at offset 50, but the requested offset is 51",
        ),
        (
            {"startingOffsets": offsets_of_orders(9), "endingOffsets": offsets_of_orders(8)},
            "orders@broker-a:0 would begin at offset 9 and end at 8 before it",
        ),
        ({"topic": "or ders"}, "topic 'or ders' has a character other than letters"),
        ({"groupId": "a/b"}, "group 'a/b' has a character other than letters"),
        ({"startingTimestamp": "9", "endingTimestamp": "8"}, "endingTimestamp is before startingTimestamp"),
        ({"endingOffsets": offsets_of_orders(-2)}, "endingOffsets is 'earliest', or -2: nothing would be read"),
        ({"sqlExpression": "a ="}, "cannot be read: "),
        ({"accessKey": "me"}, "options accessKey and secretKey belong together"),
        ({"batchSize": "9"}, "option batchSize is for writing only"),
        ({"tags": "a, b"}, "expected tags separated by `||`"),
        ({"nameServer": "127.0.0.1:1,127.0.0.1:2"}, "did you mean 127.0.0.1:1;127.0.0.1:2?"),
        (
            {"brokers": "broker-aa"},
            "no route has broker-aa of option brokers; did you mean broker-a?",
        ),
    ],
)
def test_invalid_options_are_reported_while_spark_plans(
    spark: "SparkSession", lab: "Lab", orders: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        read(spark, lab, orders, **options).count()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topicPattern": "or("}, "option topicPattern is 'or(': expected a regular expression"),
        ({"topicPattern": "none-.*"}, "no topic matches 'none-.*'; topics: "),
        ({}, "one of the options topic, topics, topicPattern and assign is needed"),
        ({"topic": "orders", "waitStore": "false"}, "option waitStore is for writing only"),
        ({"topic": "orders", "endingTimestamp": "9"}, "option endingTimestamp is for a batch read only"),
    ],
)
def test_a_stream_with_invalid_options_is_rejected_before_its_query_starts(
    spark: "SparkSession", lab: "Lab", orders: str, options: dict[str, str], said: str
) -> None:
    assert orders == "orders"
    reader = spark.readStream.format("rocketmq").options(nameServer=lab.namesrv_addr, **options)
    with pytest.raises(PySparkException) as caught:
        reader.load().writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()
    assert said in str(caught.value)
    assert "another exception" not in str(caught.value)


def test_several_topics_are_named_or_matched(spark: "SparkSession", lab: "Lab") -> None:
    for topic in ("many-a", "many-b", "any-c"):
        lab.create_topic(topic, 2)
        lab.send(topic, [topic.encode()] * 3)
    server = spark.read.format("rocketmq").option("nameServer", lab.namesrv_addr)
    assert bodies(server.option("topics", "many-a, any-c").load()) == ["any-c"] * 3 + ["many-a"] * 3
    matched = spark.read.format("rocketmq").options(nameServer=lab.namesrv_addr, topicPattern="many-[a-z]").load()
    assert bodies(matched) == ["many-a"] * 3 + ["many-b"] * 3


# ---- streams ---------------------------------------------------------------------------------------------


class Stream:
    """A stream from a topic to files of JSON lines, with a restart."""

    def __init__(self, spark: "SparkSession", lab: "Lab", place: pathlib.Path, topic: str) -> None:
        self.spark, self.lab, self.place, self.topic = spark, lab, place, topic

    def start(self, *, is_once: bool = False, **options: str) -> "StreamingQuery":
        server = {"nameServer": self.lab.namesrv_addr, "startingOffsets": "earliest"}
        chosen = {} if "assign" in options else {"topic": self.topic}
        frame = self.spark.readStream.format("rocketmq").options(**{**server, **chosen, **options}).load()
        writer = (
            frame.selectExpr("cast(body as string) body", "broker", "queueId", "queueOffset")
            .writeStream.format("json")
            .option("path", str(self.place / "out"))
            .option("checkpointLocation", str(self.place / "checkpoint"))
        )
        return (
            writer.trigger(availableNow=True) if is_once else writer.trigger(processingTime="200 milliseconds")
        ).start()

    def once(self, **options: str) -> list[int]:
        """Read what there is; the rows of each micro-batch."""
        query = self.start(is_once=True, **options)
        query.awaitTermination()
        return [progress["numInputRows"] for progress in query.recentProgress]

    def seen(self) -> list[str]:
        """Return all bodies so far, sorted, with duplicates."""
        if not list((self.place / "out").glob("*.json")):
            return []
        return sorted(row.body for row in self.spark.read.schema("body string").json(str(self.place / "out")).collect())

    def written(self) -> int:
        """Return the number of lines so far, without Spark.

        It includes those of a micro-batch that is not complete.
        """
        return sum(path.read_bytes().count(b"\n") for path in (self.place / "out").glob("*.json"))

    def wait_seen(self, wanted: list[str]) -> None:
        deadline = time.monotonic() + 240
        while self.written() < len(wanted) or self.seen() != wanted:
            assert time.monotonic() < deadline, (self.written(), len(wanted))
            time.sleep(0.2)


def test_a_stream_resumes_at_its_offsets_without_duplicates(
    spark: "SparkSession", lab: "Lab", tmp_path: pathlib.Path
) -> None:
    lab.create_topic("steps", 2)
    lab.send("steps", numbered(0, 50))
    stream = Stream(spark, lab, tmp_path, "steps")
    sizes = stream.once(maxOffsetsPerTrigger="20")
    assert len([size for size in sizes if size]) == 3
    assert stream.seen() == texts(0, 50)
    assert stream.once() in ([], [0])
    lab.send("steps", numbered(50, 30))
    stream.once()
    assert stream.seen() == texts(0, 80)


def test_a_stream_reads_queues_added_while_it_runs(spark: "SparkSession", lab: "Lab", tmp_path: pathlib.Path) -> None:
    lab.create_topic("growing", 1)
    lab.send("growing", numbered(0, 10))
    stream = Stream(spark, lab, tmp_path, "growing")
    stream.once()
    lab.create_topic("growing", 3)
    lab.send("growing", numbered(10, 30))
    stream.once()
    assert stream.seen() == texts(0, 40)


def test_latest_means_the_same_at_every_start_of_a_stream_that_keeps_it(
    spark: "SparkSession", lab: "Lab", tmp_path: pathlib.Path
) -> None:
    lab.create_topic("late", 2)
    lab.send("late", numbered(0, 10))
    stream = Stream(spark, lab, tmp_path, "late")
    options = {"startingOffsets": "latest", "startingOffsetsFile": str(tmp_path / "start.json")}
    stream.once(**options)
    lab.send("late", numbered(10, 10))
    stream.once(**options)
    assert stream.seen() == texts(10, 10)
    assert set(json.loads((tmp_path / "start.json").read_text())["topics"]) == {"late"}


class Copier:
    """A separate driver that copies a topic, 20 messages at a time, and can be killed."""

    PROGRAM = """
import sys
from rmqlab.pipeline.session import open_session
server, checkpoint = sys.argv[1:]
with open_session("local[2]") as spark:
    source = {"nameServer": server, "topic": "copied-from", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    frame = spark.readStream.format("rocketmq").options(**source).load().select("body")
    writer = frame.writeStream.format("rocketmq").options(nameServer=server, topic="copied-to", batchSize="4")
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
"""

    def __init__(self, lab: "Lab", checkpoint: pathlib.Path) -> None:
        self.lab = lab
        self.arguments = [sys.executable, "-c", self.PROGRAM, lab.namesrv_addr, str(checkpoint)]

    def run(self) -> None:
        done = subprocess.run(self.arguments, check=False, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr

    def run_and_kill(self, after: int) -> None:
        """Kill the driver, its JVM and its workers when so many messages have arrived."""
        driver = subprocess.Popen(self.arguments, start_new_session=True)
        try:
            deadline = time.monotonic() + 400
            while len(self.lab.bodies("copied-to")) < after:
                assert driver.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()


@pytest.mark.long
def test_a_driver_that_is_killed_leaves_nothing_out_and_repeats_rows_only_under_their_names(
    lab: "Lab", tmp_path: pathlib.Path
) -> None:
    lab.create_topic("copied-from", 3)
    lab.create_topic("copied-to", 3)
    lab.send("copied-from", numbered(0, 400))
    copier = Copier(lab, tmp_path / "checkpoint")
    copier.run_and_kill(1)
    copier.run_and_kill(130)
    copier.run()
    arrived = [(message.properties["SPARK_ID"], message.body.decode()) for message in lab.messages("copied-to")]
    assert sorted(dict(arrived).values()) == texts(0, 400)
    assert len(set(arrived)) == 400


# ---- writing ---------------------------------------------------------------------------------------------


# ---- brokers that die ------------------------------------------------------------------------------------


def wait_until_known(node: pathlib.Path, topic: str) -> None:
    """Wait until a slave has a topic of its master: some ten seconds after creation."""
    deadline = time.monotonic() + 60
    topics = node / "store" / "config" / "topics.json"
    while not (topics.exists() and f'"{topic}"' in topics.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_stream_resumes_from_the_slave_after_the_master_is_killed(
    spark: "SparkSession", own_lab: "Lab", tmp_path: pathlib.Path
) -> None:
    own_lab.create_topic("orders", 4)
    own_lab.send("orders", numbered(0, 300))
    own_lab.run("wait", "slave-caught-up", "broker-a", "--name", "broken")
    wait_until_known(own_lab.home / "broken" / "broker-a-s", "orders")
    stream = Stream(spark, own_lab, tmp_path, "orders")
    query = stream.start(maxOffsetsPerTrigger="40")
    try:
        deadline = time.monotonic() + 240
        while not stream.written():
            assert time.monotonic() < deadline
            time.sleep(0.2)
        own_lab.run("kill", "broker-a:master", "--name", "broken")
        stream.wait_seen(texts(0, 300))
        own_lab.run("start", "broker-a:master", "--name", "broken")
        own_lab.send("orders", numbered(300, 50))
        stream.wait_seen(texts(0, 350))
    finally:
        query.stop()
    assert stream.seen() == texts(0, 350)


def test_a_queue_that_shrank_is_a_loss_unless_that_is_allowed(
    spark: "SparkSession", own_lab: "Lab", tmp_path: pathlib.Path
) -> None:
    own_lab.create_topic("orders", 1)
    own_lab.send("orders", numbered(0, 50))
    stream = Stream(spark, own_lab, tmp_path, "orders")
    stream.once()
    for node in ("broker-a-s", "broker-a"):
        own_lab.run("stop", node, "--name", "broken")
        own_lab.run("wipe", node, "--name", "broken")
    own_lab.run("start", "broker-a", "--name", "broken")
    own_lab.create_topic("orders", 1)
    own_lab.send("orders", numbered(100, 10))
    with pytest.raises(PySparkException, match="its master has lost messages"):
        stream.once()
    stream.once(failOnDataLoss="false")
    own_lab.send("orders", numbered(200, 10))
    stream.once(failOnDataLoss="false")
    assert stream.seen() == texts(0, 50) + texts(200, 10)
