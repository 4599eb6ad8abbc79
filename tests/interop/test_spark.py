"""Our data sources with real RocketMQ: producers, consumers, and broker files.

The producers and consumers are Java's.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.interop import rawrequest
from tests.interop.java import Java
from tests.interop.realrocketmq import real_cluster
from tests.interop.topology import Cluster
from tests.interop.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(1500)]

COUNT = 300
EXAMPLES = Path(__file__).parents[2] / "examples"
COLUMNS = (
    "topic", "queueId", "queueOffset", "commitLogOffset", "msgId", "uniqKey", "keys", "tags", "propertiesText", "body",
    "flag", "sysFlag", "bodyCrc", "bornTimestamp", "bornHost", "storeTimestamp", "storeHost", "reconsumeTimes",
)  # fmt: skip


@pytest.fixture(scope="module")
def spark() -> Iterator["SparkSession"]:
    from rmqlab.pipeline.session import open_session

    with open_session("local[2,4]", settings={"spark.sql.shuffle.partitions": "2"}) as session:
        yield session


@pytest.fixture(params=["real", "ours"])
def either(request: pytest.FixtureRequest) -> Cluster:
    """A running cluster that other tests use too: always a real one.

    The sources are clients: they are tested with real servers.
    """
    cluster: Cluster = request.getfixturevalue("real_shared" if request.param == "real" else "our_shared")
    return cluster


def load(spark: "SparkSession", cluster: Cluster, topic: str, **options: str) -> "DataFrame":
    return spark.read.format("rocketmq").options(nameServer=cluster.namesrv, topic=topic, **options).load()


def produce(java: Java, cluster: Cluster, topic: str, count: int = COUNT) -> list[list[str]]:
    """Messages m-0, m-1, ... by a Java producer.

    What it was told of each: the words of its line.
    """
    with java.start("Producer", f"namesrv={cluster.namesrv}", f"topic={topic}", f"count={count}") as producer:
        sent = [line.split() for line in producer.finish()]
    assert Counter(words[0] for words in sent) == {"SEND_OK": count}
    return sent


def consume(java: Java, cluster: Cluster, topic: str, count: int, *more: str) -> list[list[str]]:
    """Messages that a Java consumer got: the words of its lines."""
    target = [f"namesrv={cluster.namesrv}", f"topic={topic}", f"group=Group{topic}", f"count={count}"]
    with java.start("Consumer", *target, "lingerMillis=500", *more) as consumer:
        _, *lines = consumer.finish()
    return [line.split(" ", 5) for line in lines]


def rows(frame: "DataFrame") -> list[dict[str, Any]]:
    found = frame.select(*COLUMNS).orderBy("queueId", "queueOffset").collect()
    return [row.asDict() for row in found]


def test_spark_reads_what_a_java_producer_wrote(spark: "SparkSession", java: Java, either: Cluster) -> None:
    sent = produce(java, either, "SparkReads")
    told = {words[1]: (words[2], int(words[3]), int(words[4]), words[5], f"m-{i}") for i, words in enumerate(sent)}
    wait_until(lambda: rawrequest.knows_topic(either.slave.address, "SparkReads"), "the slave knows the topic")
    for where in ("master", "slave", "suggested"):
        found = load(spark, either, "SparkReads", readFrom=where, minPartitions="6").collect()
        got = {row.uniqKey: (row.broker, row.queueId, row.queueOffset, row.msgId, row.body.decode()) for row in found}
        assert len(found) == COUNT
        assert got == told
        assert {(row.tags, row.keys == row.body.decode()) for row in found} == {("TagA", True)}
    assert load(spark, either, "SparkReads", tags="TagA || TagC").count() == COUNT
    assert load(spark, either, "SparkReads", tags="TagB").count() == 0


def test_the_files_of_a_broker_hold_what_its_clients_saw(spark: "SparkSession", java: Java, either: Cluster) -> None:
    sent = produce(java, either, "SparkFiles")
    live = rows(load(spark, either, "SparkFiles"))
    assert [(row["uniqKey"], row["msgId"]) for row in live] == [
        (words[1], words[5]) for words in sorted(sent, key=lambda words: (int(words[3]), int(words[4])))
    ]
    for broker in (either.master, either.slave):
        stored = spark.read.format("rocketmq-store").option("maxPartitionBytes", "16384").load(str(broker.store))
        assert rows(stored.filter("topic = 'SparkFiles'")) == live
        assert {row.state for row in stored.select("state").distinct().collect()} == {"ok"}
    program = [sys.executable, str(EXAMPLES / "spark_store.py"), str(either.master.store)]
    told = subprocess.run(program, check=True, capture_output=True, text=True, timeout=900).stdout
    (line,) = [line for line in told.splitlines() if "|SparkFiles" in line]
    assert [cell.strip() for cell in line.split("|")[2:5]][:2] == ["SparkFiles", str(COUNT)]


def test_a_java_consumer_gets_what_spark_wrote(spark: "SparkSession", java: Java, either: Cluster) -> None:
    frame = spark.range(0, COUNT, 1, 3).selectExpr(
        "concat('row-', id) body", "concat('key-', id) keys", "if(id % 3 = 0, 'third', 'other') tags",
        "cast(id % 7 as string) shardingKey",
    )  # fmt: skip
    frame.write.format("rocketmq").mode("append").options(nameServer=either.namesrv, topic="SparkWrote").save()
    got = consume(java, either, "SparkWrote", COUNT)
    assert sorted(words[5] for words in got) == sorted(f"row-{number}" for number in range(COUNT))
    assert {words[4] for words in got} == {"0"}
    seen = {row.uniqKey: (row.queueId, row.queueOffset) for row in load(spark, either, "SparkWrote").collect()}
    assert {words[0]: (int(words[1]), int(words[2])) for words in got} == seen
    third = consume(java, either, "SparkWrote", COUNT // 3, "tags=third", "group=GroupThird")
    assert sorted(words[5] for words in third) == sorted(f"row-{number}" for number in range(0, COUNT, 3))


def test_a_stream_carries_messages_from_a_java_producer_to_a_java_consumer(
    spark: "SparkSession", java: Java, either: Cluster, tmp_path: Path
) -> None:
    """Two runs from one checkpoint: no message is delivered twice."""
    for first in (0, 1):
        produce(java, either, "SparkFrom", 100)
        source = {"nameServer": either.namesrv, "topic": "SparkFrom", "startingOffsets": "earliest"}
        frame = spark.readStream.format("rocketmq").options(**source, maxOffsetsPerTrigger="30").load()
        query = (
            frame.selectExpr("body", "tags", "keys")
            .writeStream.format("rocketmq")
            .options(nameServer=either.namesrv, topic="SparkTo", checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert len([progress for progress in query.recentProgress if progress["numInputRows"]]) > 2
        # Each time as a group of its own: one that goes on may receive again what it had not committed.
        got = consume(java, either, "SparkTo", 100 * (first + 1), "tags=TagA", f"group=GroupSparkTo{first}")
        expected = [f"m-{number}" for number in range(100)] * (first + 1)
        assert sorted(words[5] for words in got) == sorted(expected)


def test_a_stream_from_a_real_cluster_resumes_from_the_slave(spark: "SparkSession", java: Java, tmp_path: Path) -> None:
    with real_cluster(java, tmp_path / "cluster") as cluster:
        produce(java, cluster, "SparkKilled")
        wait_until(lambda: rawrequest.knows_topic(cluster.slave.address, "SparkKilled"), "the slave knows the topic")
        source = {"nameServer": cluster.namesrv, "topic": "SparkKilled", "startingOffsets": "earliest"}
        frame = spark.readStream.format("rocketmq").options(**source, maxOffsetsPerTrigger="20").load()
        writer = frame.selectExpr("cast(body as string) body").writeStream.format("json")
        query = writer.options(path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint")).start()
        try:
            wait_until(lambda: bodies(tmp_path / "out"), "the first batch", 300)
            cluster.kill_master()
            wait_until(lambda: len(bodies(tmp_path / "out")) >= COUNT, "all messages", 300, period=0.5)
        finally:
            query.stop()
    assert sorted(bodies(tmp_path / "out")) == sorted(f"m-{number}" for number in range(COUNT))


def bodies(directory: Path) -> list[str]:
    """Return rows of batches that a stream has written, by its sink's log."""
    files: set[str] = set()
    for entry in (directory / "_spark_metadata").glob("[0-9]*"):
        files |= {Path(json.loads(line)["path"]).name for line in entry.read_text().splitlines() if line[0] == "{"}
    lines = [line for name in sorted(files) for line in (directory / name).read_text().splitlines()]
    return [json.loads(line)["body"] for line in lines]


def places(sent: list[list[str]]) -> dict[tuple[str, int], list[int]]:
    """Return the offsets of sent messages by broker name and queue id."""
    found: dict[tuple[str, int], list[int]] = {}
    for words in sent:
        found.setdefault((words[2], int(words[3])), []).append(int(words[4]))
    return found


def read_places(frame: "DataFrame") -> dict[tuple[str, int], list[int]]:
    found: dict[tuple[str, int], list[int]] = {}
    for row in frame.select("broker", "queueId", "queueOffset").orderBy("queueOffset").collect():
        found.setdefault((row.broker, row.queueId), []).append(row.queueOffset)
    return found


def of_queues(topic: str, numbers: Mapping[tuple[str, int], int]) -> str:
    """JSON with a number for each queue."""
    brokers: dict[str, dict[str, int]] = {}
    for (broker, queue), number in numbers.items():
        brokers.setdefault(broker, {})[str(queue)] = number
    return json.dumps({topic: brokers})


def test_assigned_queues_are_read_alone(spark: "SparkSession", java: Java, either: Cluster) -> None:
    from pyspark.errors import AnalysisException

    sent = places(produce(java, either, "SparkAssign", 40))
    (broker, first), *_, (_, last) = sorted(sent)
    reader = spark.read.format("rocketmq").option("nameServer", either.namesrv)
    frame = reader.option("assign", json.dumps({"SparkAssign": {broker: [first, last]}})).load()
    assert read_places(frame) == {(broker, queue): sent[broker, queue] for queue in (first, last)}
    with pytest.raises(AnalysisException, match=f"there is no queue SparkAssign@{broker}:99 of option assign"):
        reader.option("assign", json.dumps({"SparkAssign": {broker: [99]}})).load().count()


def test_a_read_begins_at_the_commits_of_a_java_consumer(spark: "SparkSession", java: Java, either: Cluster) -> None:
    from pyspark.errors import AnalysisException

    first = places(produce(java, either, "SparkGroup", 40))
    consume(java, either, "SparkGroup", 40)
    address = either.master.address
    wait_until(
        lambda: all(
            rawrequest.committed_offset(address, "GroupSparkGroup", "SparkGroup", queue) == offsets[-1] + 1
            for (_, queue), offsets in first.items()
        ),
        "the commits of all queues",
    )
    later = places(produce(java, either, "SparkGroup", 12))
    assert read_places(load(spark, either, "SparkGroup", startingGroup="GroupSparkGroup")) == later
    with pytest.raises(AnalysisException, match=r"GroupSparkGruop .*did you mean GroupSparkGroup"):
        load(spark, either, "SparkGroup", startingGroup="GroupSparkGruop").count()


def test_each_queue_begins_at_its_own_time(spark: "SparkSession", java: Java, either: Cluster) -> None:
    """A queue without later messages begins at its end, or is an error."""
    from pyspark.errors import AnalysisException

    sent = places(produce(java, either, "SparkTimes", 40))
    stored = load(spark, either, "SparkTimes").select("queueId", "queueOffset", "storeTimestamp").collect()
    at = {(row.queueId, row.queueOffset): int(row.storeTimestamp.timestamp() * 1000) for row in stored}
    early, late, *_ = sorted(sent)
    times = {early: at[early[1], sent[early][5]], late: at[late[1], sent[late][-1]] + 60_000}
    options = {"startingOffsetsByTimestamp": of_queues("SparkTimes", times)}
    expected = sent | {early: [one for one in sent[early] if at[early[1], one] >= times[early]]}
    del expected[late]
    assert read_places(load(spark, either, "SparkTimes", **options)) == expected
    with pytest.raises(AnalysisException, match=f"SparkTimes@{late[0]}:{late[1]} has no message stored at"):
        load(spark, either, "SparkTimes", **options, startingOffsetsByTimestampStrategy="error").count()


def test_a_stream_waits_for_messages_or_for_its_delay(
    spark: "SparkSession", java: Java, either: Cluster, tmp_path: Path
) -> None:
    produce(java, either, "SparkDelay", 20)
    source = {"nameServer": either.namesrv, "topic": "SparkDelay", "startingOffsets": "earliest"}

    def start(delay: str) -> "StreamingQuery":
        frame = spark.readStream.format("rocketmq").options(**source, minOffsetsPerTrigger="10", maxTriggerDelay=delay)
        writer = frame.load().selectExpr("cast(body as string) body").writeStream.format("json")
        return writer.options(path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint")).start()

    query = start("1h")
    try:
        wait_until(lambda: len(bodies(tmp_path / "out")) == 20, "the first batch", 300)
        produce(java, either, "SparkDelay", 9)
        wait_until(lambda: behind_latest(query) > 0, "a backlog that waits", 300)
        assert len(bodies(tmp_path / "out")) == 20
        produce(java, either, "SparkDelay", 1)
        wait_until(lambda: len(bodies(tmp_path / "out")) == 30, "ten messages", 300)
    finally:
        query.stop()
    query = start("2s")
    try:
        wait_until(lambda: query.lastProgress is not None, "the first trigger", 300)
        produce(java, either, "SparkDelay", 3)
        wait_until(lambda: len(bodies(tmp_path / "out")) == 33, "three messages after the delay", 300)
    finally:
        query.stop()


def behind_latest(query: "StreamingQuery") -> float:
    """Return how many messages the stream is behind on its furthest queue."""
    progress = query.lastProgress
    if progress is None:
        return 0
    found: float = json.loads(progress["sources"][0]["latestOffset"])["maxOffsetsBehindLatest"]
    return found


def test_a_namespace_is_that_of_java_clients(spark: "SparkSession", java: Java, either: Cluster) -> None:
    target = [f"namesrv={either.namesrv}", "topic=SparkBills", "namespace=NS", "count=20"]
    with java.start("Producer", *target) as producer:
        assert Counter(line.split()[0] for line in producer.finish()) == {"SEND_OK": 20}
    found = load(spark, either, "SparkBills", namespace="NS").collect()
    assert sorted(row.body.decode() for row in found) == sorted(f"m-{number}" for number in range(20))
    assert {row.topic for row in found} == {"SparkBills"}
    assert load(spark, either, "NS%SparkBills").count() == 20
    frame = spark.range(0, 10).selectExpr("concat('row-', id) body")
    options = {"nameServer": either.namesrv, "topic": "SparkBills", "namespace": "NS"}
    frame.write.format("rocketmq").mode("append").options(**options).save()
    got = consume(java, either, "SparkBills", 30, "namespace=NS", "group=GroupBills")
    assert sorted(words[5] for words in got if words[5].startswith("row")) == sorted(f"row-{n}" for n in range(10))
