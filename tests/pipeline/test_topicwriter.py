"""The sink `rocketmq`: rows become messages of a live cluster."""

import time
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException

from rmqlab.pipeline.topics.topicoptions import TopicOptions
from rmqlab.pipeline.topics.topicsends import SendFailedError
from rmqlab.pipeline.topics.topicwriter import _letter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rmqlab.pipeline.topics.topicsends import OutgoingMessage
    from tests.pipeline.conftest import Lab
from tests.pipeline.test_topicsource import read, texts


def write(lab: "Lab", frame: "DataFrame", **options: str) -> None:
    frame.write.format("rocketmq").mode("append").options(nameServer=lab.namesrv_addr, **options).save()


def test_rows_become_messages_and_a_key_keeps_their_order(spark: "SparkSession", lab: "Lab") -> None:
    lab.create_topic("sorted", 4)
    frame = spark.range(0, 300, 1, 1).selectExpr(
        "format_string('%05d', id) body", "concat('k', id) keys", "if(id % 2 = 0, 'even', 'odd') tags",
        "cast(id % 5 as string) shardingKey", "map('n', cast(id as string)) properties",
    )  # fmt: skip
    write(lab, frame, topic="sorted")
    rows = (
        read(spark, lab, "sorted")
        .selectExpr("*", "cast(body as string) text")
        .orderBy("queueId", "queueOffset")
        .collect()
    )
    assert sorted(row.text for row in rows) == texts(0, 300)
    for shard in range(5):
        mine = [row for row in rows if int(row.text) % 5 == shard]
        assert len({row.queueId for row in mine}) == 1
        assert [row.text for row in mine] == sorted(row.text for row in mine)
    assert all(row.keys == f"k{int(row.text)}" and row.properties["n"] == str(int(row.text)) for row in rows)
    assert len({row.properties["SPARK_ID"] for row in rows}) == 300


def test_a_task_that_fails_is_repeated_under_the_same_names(spark: "SparkSession", lab: "Lab") -> None:
    from pyspark import TaskContext
    from pyspark.sql.functions import udf

    server = lab.namesrv_addr

    def fail_once(number: int) -> str:
        context = TaskContext.get()
        assert context is not None
        if number == 900 and context.attemptNumber() == 0:
            wait_for_a_message(server, "repeated")
            raise RuntimeError("injected")
        return f"{number:05d}" + "." * 2000  # so that no buffer on the way holds all rows back

    lab.create_topic("repeated", 2)
    settings = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(settings, "50")
    try:
        rows = spark.range(0, 1000, 1, 1).select(udf(fail_once, useArrow=False)("id").alias("body"))
        write(lab, rows, topic="repeated")
    finally:
        spark.conf.unset(settings)
    found = read(spark, lab, "repeated").selectExpr("cast(left(body, 5) as string) body", "properties['SPARK_ID'] id")
    pairs = [(row.id, row.body) for row in found.collect()]
    assert sorted(dict(pairs).values()) == texts(0, 1000)
    assert len(pairs) > 1000
    assert len(set(pairs)) == 1000


def wait_for_a_message(server: str, topic: str) -> None:
    """Return when a topic has a message. Runs in a worker of Spark's."""
    from rmqlab.pipeline.topics.topicbounds import Bounds
    from rmqlab.pipeline.topics.topicoffsets import LATEST
    from rmqlab.pipeline.topics.topicoptions import TopicOptions

    bounds = Bounds(TopicOptions(name_server=server, topic=topic))
    bounds.look()
    deadline = time.monotonic() + 240
    while not any(bounds.resolve(dict.fromkeys(bounds.queues, LATEST)).values()):
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.parametrize(
    ("select", "options", "said"),
    [
        ("id body", {"topic": "t"}, "column body is bigint, expected string or binary"),
        ("'x' value", {"topic": "t"}, "a message has no column value"),
        ("'x' body", {}, "a message needs a topic: the option, or a column"),
        ("'x' body, 'y' tag", {"topic": "t"}, "no column tag; did you mean tags?"),
        ("'x' body, 'a' broker", {"topic": "t"}, "column broker needs column queueId too"),
        ("'x' body", {"topic": "t", "startingOffsets": "earliest"}, "option startingOffsets is for reading only"),
    ],
)
def test_rows_of_which_no_message_can_be_made_are_reported_before_anything_is_sent(
    spark: "SparkSession", lab: "Lab", select: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        write(lab, spark.range(1).selectExpr(*select.split(", ")), **options)
    assert said in str(caught.value)


def letter(**row: object) -> "OutgoingMessage":
    return _letter({"body": b"x", **row}, TopicOptions(name_server="a:1", topic="t"), "job-0-0-0")


def test_a_copied_message_is_not_delayed_retried_or_prepared_again() -> None:
    """The column properties of a message that was read has all of its properties."""
    read = {"DELAY": "3", "REAL_TOPIC": "t", "REAL_QID": "0", "TRAN_MSG": "true", "RETRY_TOPIC": "t", "KEYS": "k"}
    sent = letter(properties=list({**read, "color": "red", "none": None}.items()), delayLevel=None).message
    assert sent.properties == {"KEYS": "k", "color": "red", "SPARK_ID": "job-0-0-0"}
    assert letter(properties=list(read.items()), delayLevel=2).message.wire_properties(None)["DELAY"] == "2"


@pytest.mark.parametrize(
    "row", [{"properties": [("a", "b\x01")]}, {"properties": [("a\x02", "b")]}, {"keys": "a\x01"}, {"tags": "\x02"}]
)
def test_characters_that_separate_properties_are_refused(row: dict[str, object]) -> None:
    with pytest.raises(SendFailedError, match=r"^row job-0-0-0 has \\x01 or \\x02 in keys, tags or properties"):
        letter(**row)


def test_overwriting_a_topic_is_refused(spark: "SparkSession", lab: "Lab") -> None:
    frame = spark.range(1).selectExpr("'x' body").write.format("rocketmq").mode("overwrite")
    with pytest.raises(PySparkException, match="use the mode append"):
        frame.options(nameServer=lab.namesrv_addr, topic="t").save()


def test_large_rows_share_a_request_up_to_the_limit_of_a_broker(spark: "SparkSession", lab: "Lab") -> None:
    lab.create_topic("large", 1)
    sizes = [900_000, 3_900_000, 10, 900_000, 900_000]
    frame = spark.createDataFrame([(size, number) for number, size in enumerate(sizes)], "size int, number int")
    rows = frame.coalesce(1).selectExpr(
        "repeat('x', size) body", "0 queueId", "map('n', cast(number as string), 'none', null) properties"
    )
    write(lab, rows, topic="large")
    found = read(spark, lab, "large").orderBy("queueOffset").selectExpr("length(body) size", "properties").collect()
    assert [row.size for row in found] == sizes
    assert [row.properties["n"] for row in found] == ["0", "1", "2", "3", "4"]
    assert not any("none" in row.properties for row in found)


def test_a_write_to_no_name_server_fails_before_anything_runs(spark: "SparkSession") -> None:
    frame = spark.range(1).selectExpr("'x' body").write.format("rocketmq").mode("append")
    with pytest.raises(AnalysisException, match="no nameserver can be reached"):
        frame.options(nameServer="127.0.0.1:1", topic="t").save()
