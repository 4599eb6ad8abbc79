"""Selections by options of `rocketmq`, read from a live cluster.

They are queues, beginnings and amounts.
"""

import json
import pathlib
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import trio
from pyspark.errors import AnalysisException, PySparkException

from rmqlab.client.config import ClientConfig
from rmqlab.client.instance import open_client
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.headers.offset import UpdateConsumerOffsetRequestHeader
from rmqlab.remoting.names import MASTER_ID
from tests.pipeline.conftest import Lab
from tests.pipeline.test_topicsource import Stream, numbered, read, texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def topic(lab: Lab) -> str:
    """A topic with 20 messages in each of four queues."""
    lab.create_topic("selected", 4)
    lab.send("selected", numbered(0, 80))
    return "selected"


def by_queue(frame: "DataFrame") -> dict[int, int]:
    """The number of messages by queue."""
    return dict(Counter(row.queueId for row in frame.select("queueId").collect()))


def of_queues(topic: str, **numbers: int) -> str:
    """JSON with a number for queues named `q0` to `q3`."""
    return json.dumps({topic: {"broker-a": {name[1:]: number for name, number in numbers.items()}}})


def assigning(topic: str, *queue_ids: int) -> dict[str, str]:
    """Options that replace the topic by some of its queues."""
    return {"assign": json.dumps({topic: {"broker-a": list(queue_ids)}})}


def test_a_batch_reads_the_assigned_queues_alone(spark: "SparkSession", lab: Lab, topic: str) -> None:
    reader = spark.read.format("rocketmq").option("nameServer", lab.namesrv_addr)
    assert by_queue(reader.options(**assigning(topic, 1, 3)).load()) == {1: 20, 3: 20}
    for options, said in (
        (assigning(topic, 9), f"there is no queue {topic}@broker-a:9 of option assign; queues in routes: {topic}@"),
        (assigning("selcted", 1), "there is no topic selcted; did you mean selected?"),
        (
            {"assign": json.dumps({topic: {"brokr-a": [1]}})},
            f"no route has {topic}@brokr-a:1 of option assign; did you mean {topic}@broker-a:1?",
        ),
    ):
        with pytest.raises(AnalysisException) as caught:
            spark.read.format("rocketmq").options(nameServer=lab.namesrv_addr, **options).load().count()
        assert said in str(caught.value)


def test_a_batch_reads_queues_that_json_omits_from_end_to_end(spark: "SparkSession", lab: Lab, topic: str) -> None:
    ranges = {"startingOffsets": of_queues(topic, q0=15), "endingOffsets": of_queues(topic, q1=3)}
    assert by_queue(read(spark, lab, topic, **ranges)) == {0: 5, 1: 3, 2: 20, 3: 20}


def commit(lab: Lab, group: str, topic: str, queue_id: int, offset: int) -> None:
    """Commit an offset of a group, as a consumer does, and wait for the reply."""
    header = UpdateConsumerOffsetRequestHeader(
        consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
    )

    async def commit_one() -> None:
        async with open_client(ClientConfig(namesrv_addr=lab.namesrv_addr)) as client:
            (broker,) = (await client.fetch_route(topic)).broker_datas
            await client.ask(broker.broker_addrs[MASTER_ID], RequestCode.UPDATE_CONSUMER_OFFSET, header)

    trio.run(commit_one)


def test_a_read_begins_where_a_group_has_committed(spark: "SparkSession", lab: Lab, topic: str) -> None:
    for queue_id, offset in enumerate((0, 5, 20, 19)):
        commit(lab, "billing", topic, queue_id, offset)
    lab.create_topic("unread", 1)
    lab.send("unread", numbered(0, 6))
    frame = read(spark, lab, topic, startingGroup="billing")
    assert by_queue(frame) == {0: 20, 1: 15, 3: 1}
    both = spark.read.format("rocketmq").options(nameServer=lab.namesrv_addr, topics=f"{topic},unread")
    assert both.option("startingGroup", "billing").load().count() == 36 + 6
    assert both.option("startingOffsets", "latest").load().count() == 36
    with pytest.raises(AnalysisException, match=r"group biling .* did you mean billing"):
        read(spark, lab, topic, startingGroup="biling").count()
    commit(lab, "ahead", topic, 0, 21)
    with pytest.raises(AnalysisException, match="ends at offset 20, but the requested offset is 21"):
        read(spark, lab, topic, startingGroup="ahead").count()


def test_each_queue_has_its_own_time(spark: "SparkSession", lab: Lab, topic: str) -> None:
    stored = read(spark, lab, topic).select("queueId", "queueOffset", "storeTimestamp").collect()
    at = {(row.queueId, row.queueOffset): int(row.storeTimestamp.timestamp() * 1000) for row in stored}
    times = {"q0": at[0, 12], "q1": at[1, 19] + 1}
    first = {queue: sum(at[queue, offset] < times[f"q{queue}"] for offset in range(20)) for queue in (0, 1)}
    late = {"startingOffsetsByTimestamp": of_queues(topic, **times)}
    assert by_queue(read(spark, lab, topic, **late)) == {0: 20 - first[0], 2: 20, 3: 20}
    early = {"endingOffsetsByTimestamp": of_queues(topic, **times)}
    assert by_queue(read(spark, lab, topic, **early)) == {0: first[0], 1: 20, 2: 20, 3: 20}
    with pytest.raises(AnalysisException, match=f"{topic}@broker-a:1 has no message stored at {times['q1']} ms"):
        read(spark, lab, topic, **late, startingOffsetsByTimestampStrategy="error").count()


@pytest.mark.long
def test_a_namespace_is_on_the_wire_alone(spark: "SparkSession", lab: Lab, tmp_path: pathlib.Path) -> None:
    lab.create_topic("NS%bills", 2)
    server = {"nameServer": lab.namesrv_addr, "namespace": "NS"}
    rows = spark.createDataFrame([(body,) for body in texts(0, 8)], "body string").repartition(2)
    rows.write.format("rocketmq").mode("append").options(**server, topic="bills").save()
    assert sorted(message.body for message in lab.messages("NS%bills")) == numbered(0, 8)
    commit(lab, "NS%billing", "NS%bills", 0, 1)
    by_name = read(spark, lab, "bills", namespace="NS", startingGroup="billing")
    assert {row.topic for row in by_name.collect()} == {"bills"}
    assert by_name.count() == 7
    matched = spark.read.format("rocketmq").options(**server, topicPattern=".*").load()
    assert {row.topic for row in matched.collect()} == {"bills"}
    stream = Stream(spark, lab, tmp_path, "bills")
    stream.once(namespace="NS", commitGroup="billing")
    assert stream.seen() == texts(0, 8)
    with pytest.raises(AnalysisException, match="there is no topic bill; did you mean bills"):
        read(spark, lab, "bill", namespace="NS").count()


@pytest.mark.long
def test_a_stream_reads_the_assigned_queues_alone_and_keeps_to_them(
    spark: "SparkSession", lab: Lab, topic: str, tmp_path: pathlib.Path
) -> None:
    stream = Stream(spark, lab, tmp_path, topic)
    stream.once(**assigning(topic, 2))
    assert seen_by_queue(stream) == {2: 20}
    stream.once(**assigning(topic, 2, 3))
    assert seen_by_queue(stream) == {2: 20, 3: 20}
    with pytest.raises(PySparkException, match=f"checkpoint has {topic}@broker-a:2, which option assign does not name"):
        stream.once(**assigning(topic, 3))


def seen_by_queue(stream: Stream) -> dict[int, int]:
    """The number of messages that a stream wrote so far, by queue."""
    return by_queue(stream.spark.read.schema("queueId int").json(str(stream.place / "out")))


@pytest.mark.long
def test_a_stream_waits_for_enough_messages_and_says_how_far_it_is_behind(
    spark: "SparkSession", lab: Lab, tmp_path: pathlib.Path
) -> None:
    lab.create_topic("slow", 2)
    lab.send("slow", numbered(0, 30))
    stream = Stream(spark, lab, tmp_path, "slow")
    query = stream.start(minOffsetsPerTrigger="10", maxOffsetsPerTrigger="20", maxTriggerDelay="1h")
    try:
        stream.wait_seen(texts(0, 30))
        (behind, none) = [behind_latest(progress) for progress in query.recentProgress if progress["numInputRows"]]
        assert (behind["minOffsetsBehindLatest"], none["maxOffsetsBehindLatest"]) == (5, 0)
        lab.send("slow", numbered(30, 9))
        wait_until(lambda: behind_latest(query.lastProgress)["avgOffsetsBehindLatest"] == 4.5)
        assert stream.seen() == texts(0, 30)
        lab.send("slow", numbered(39, 1))
        stream.wait_seen(texts(0, 40))
    finally:
        query.stop()


def behind_latest(progress: Any) -> dict[str, float]:
    """Return the members of a progress's latest offsets that describe the backlog."""
    latest = json.loads(progress["sources"][0]["latestOffset"])
    return {name: number for name, number in latest.items() if name.endswith("BehindLatest")}


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)
