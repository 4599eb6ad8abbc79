"""The commit logs of a real RocketMQ, row for row.

And logs with every kind of damage.
"""

import hashlib
import json
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

from rmqlab.pipeline.stores.commitlogs import segments
from rmqlab.pipeline.stores.recordlayout import walk
from rmqlab.store.files import fileimage
from rmqlab.store.files.fileimage import FileImage
from rmqlab.store.offline.scan import LogScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Write = Callable[..., pathlib.Path]
SMALL = "5001"
"""Bytes of a range: records cross the borders."""


def load(spark: "SparkSession", path: pathlib.Path, **options: str) -> "DataFrame":
    return spark.read.format("rocketmq-store").options(**options).load(str(path))


@pytest.mark.parametrize("copy", ["master", "slave", "master-kill9"])
def test_a_real_store_is_read_row_for_row(
    spark: "SparkSession", golden: pathlib.Path, manifest: dict[str, Any], copy: str
) -> None:
    rows = {row.commitLogOffset: row for row in load(spark, golden / copy, maxPartitionBytes="70001").collect()}
    scanned = list(LogScan(golden / copy / "commitlog").messages())
    assert sorted(rows) == [message.physical_offset for message in scanned]
    for message in scanned:
        row = rows[message.physical_offset]
        assert (row.node, row.state, row.topic, row.queueId) == (copy, "ok", message.topic, message.queue_id)
        assert (row.queueOffset, row.sysFlag, row.flag) == (message.queue_offset, message.sys_flag, message.flag)
        assert (row.properties, row.msgId) == (message.properties, message.offset_message_id)
        assert row.bornHost.strip("[").replace("]", "") == f"{message.born_host[0]}:{message.born_host[1]}"
        assert row.storeTimestamp.timestamp() == pytest.approx(message.store_timestamp / 1000)
    sent = manifest["messages"] + manifest["bulk_messages"]
    for sent_message in sent + (manifest["messages_kill9"] if copy == "master-kill9" else []):
        if sent_message["physical_offset"] is not None:
            row = rows[sent_message["physical_offset"]]
            assert (row.uniqKey, row.keys or None, row.tags or None) == (
                sent_message["msgId"], sent_message["keys"] or None, sent_message["tags"] or None,
            )  # fmt: skip
            assert hashlib.sha256(row.body).hexdigest() == sent_message["bodySha256"], sent_message["stored_body"]


def test_several_nodes_are_distinguished_and_selectable(spark: "SparkSession", golden: pathlib.Path) -> None:
    counts = {row.node: row["count"] for row in load(spark, golden).groupBy("node").count().collect()}
    assert counts == {"master": 2161, "slave": 2161, "master-kill9": 2166}
    assert load(spark, golden, nodes="slave", topics="StoreTopic,StoreTx").count() == 28


def test_a_topic_or_node_that_there_is_not_is_refused_with_the_near_miss(
    spark: "SparkSession", golden: pathlib.Path
) -> None:
    with pytest.raises(AnalysisException, match=r"there is no topic StoreTopik; did you mean StoreTopic\?; topics: "):
        load(spark, golden, topics="StoreTopic,StoreTopik")
    with pytest.raises(AnalysisException, match=r"there is no node slav; did you mean slave\?; nodes: "):
        load(spark, golden, nodes="slav")


def test_a_log_without_lists_of_topics_beside_it_may_hold_any_topic(spark: "SparkSession", write_log: Write) -> None:
    store = write_log("a", [b"x"])
    assert load(spark, store, topics="orders").count() == 1
    assert load(spark, store, topics="other").count() == 0


def test_uris_and_patterns_name_stores(spark: "SparkSession", golden: pathlib.Path) -> None:
    assert load(spark, pathlib.Path(f"{golden}/maste[r]")).count() == 2161
    counts = {
        row.node
        for row in spark.read.format("rocketmq-store").load(f"file://{golden}/*").select("node").distinct().collect()
    }
    assert counts == {"master", "slave", "master-kill9"}
    entries = spark.read.format("rocketmq-queues").load(f"file:{golden}/*")
    assert {row.node for row in entries.select("node").distinct().collect()} == counts


def test_a_filter_does_not_leak_into_the_next_count(spark: "SparkSession", golden: pathlib.Path) -> None:
    frame = load(spark, golden / "master").select("topic", "queueId")
    assert frame.filter("queueId > 2").count() < 2161
    assert frame.count() == 2161


def test_a_schema_selects_columns_in_any_order(spark: "SparkSession", golden: pathlib.Path) -> None:
    reader = spark.read.format("rocketmq-store").schema("queueOffset bigint, topic string, body binary")
    frame = reader.load(str(golden / "master"))
    assert frame.columns == ["queueOffset", "topic", "body"]
    assert frame.filter("topic = 'StoreBulk'").agg({"queueOffset": "max"}).collect()[0][0] == 2099


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("quueId int", "no column quueId; did you mean queueId?"),
        ("queueId bigint", "column queueId is int, not bigint"),
    ],
)
def test_a_column_that_there_is_not_is_an_error_before_anything_runs(
    spark: "SparkSession", golden: pathlib.Path, schema: str, said: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("rocketmq-store").schema(schema).load(str(golden / "master")).count()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "/nowhere"}, "/nowhere is not a directory"),
        ({}, "option path is needed"),
        ({"topcs": "a", "path": "/"}, "no option topcs; did you mean topics?"),
        ({"path": "/nowhere/*/store"}, "nothing matches /nowhere/*/store"),
        ({"path": "nosuch://far/store"}, "nosuch://far/store"),
    ],
)
def test_a_wrong_option_is_an_error_at_load(spark: "SparkSession", options: dict[str, str], said: str) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("rocketmq-store").options(**options).load()
    assert said in str(caught.value)


def test_a_directory_without_a_log_says_what_was_expected(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    with pytest.raises(AnalysisException, match="holds no commit log: expected commitlog/"):
        load(spark, tmp_path)


def states(spark: "SparkSession", store: pathlib.Path) -> list[tuple[int, str, int]]:
    rows = load(spark, store, maxPartitionBytes=SMALL).select("commitLogOffset", "state", "storeSize").collect()
    return sorted((row.commitLogOffset, row.state, row.storeSize) for row in rows)


def test_a_changed_body_has_state_bad_crc(spark: "SparkSession", write_log: Write) -> None:
    store = write_log("a", [b"body-%d" % number * 5 for number in range(100)])
    path = store / "commitlog" / f"{0:020d}"
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"body-50body-50", b"BODY-50body-50", 1))
    assert [state for _, state, _ in states(spark, store)].count("badCrc") == 1


@pytest.mark.parametrize("cut", [3, 40, 95])
def test_a_torn_tail_is_a_row_and_not_an_exception(spark: "SparkSession", write_log: Write, cut: int) -> None:
    store = write_log("a", [b"x" * 200 for _ in range(100)])
    path = store / "commitlog" / f"{0:020d}"
    whole = states(spark, store)
    last_offset, _, _ = whole[-1]
    raw = path.read_bytes()
    path.write_bytes(raw[: last_offset + cut].ljust(len(raw), b"\0"))
    found = states(spark, store)
    assert found[:-1] == whole[:-1]
    assert found[-1][:2] == (last_offset, "torn")


def test_bytes_of_others_in_the_middle_are_one_torn_stretch(spark: "SparkSession", write_log: Write) -> None:
    store = write_log("a", [b"x" * 200 for _ in range(100)])
    path = store / "commitlog" / f"{0:020d}"
    whole = states(spark, store)
    begin, end = whole[40][0], whole[60][0]
    raw = bytearray(path.read_bytes())
    raw[begin:end] = b"\xda\xa3\x20\xa7" * ((end - begin) // 4) + b"!" * ((end - begin) % 4)
    path.write_bytes(raw)
    assert states(spark, store) == [*whole[:40], (begin, "torn", end - begin), *whole[60:]]


def test_inner_lengths_that_disagree_tear_one_record_only(spark: "SparkSession", write_log: Write) -> None:
    store = write_log("a", [b"x" * 200 for _ in range(100)])
    path = store / "commitlog" / f"{0:020d}"
    whole = states(spark, store)
    raw = bytearray(path.read_bytes())
    raw[whole[7][0] + 84 + 3] ^= 0xFF  # the body's length
    path.write_bytes(raw)
    offset, _, size = whole[7]
    assert states(spark, store) == [*whole[:7], (offset, "torn", size), *whole[8:]]


def test_an_empty_log_has_no_rows(spark: "SparkSession", write_log: Write) -> None:
    assert states(spark, write_log("a", [])) == []


def test_the_schema_is_what_was_declared(spark: "SparkSession", golden: pathlib.Path) -> None:
    declared = StructType.fromJson(json.loads(load(spark, golden / "master").schema.json()))
    assert [field.name for field in declared.fields][:4] == ["node", "file", "state", "topic"]
    assert all(field.nullable for field in declared.fields)


def test_a_record_that_is_written_while_the_log_is_read_is_no_torn_segment(write_log: Write) -> None:
    path = write_log("broker-a", [b"x", b"y", b"z"]) / "commitlog" / f"{0:020d}"
    raw = path.read_bytes()
    (_, second, third), end = walk(memoryview(raw), 0, len(raw), 0)
    with path.open("r+b", buffering=0) as file, FileImage.open(path) as image:
        file.seek(second)
        file.write(bytes(end - second))

        def walk_and_write(data: memoryview, at: int, until: int, base: int | None, most: int) -> tuple[list[int], int]:
            found = walk(data, at, until, base, most)
            if at == second:  # the broker appends once the reader found no record there
                file.seek(second)
                file.write(raw[second:end])
                image.forget()
                image.load(at, until)
            return found

        starts = [segment.starts for segment in segments(image, 0, 0, end, find=walk_and_write)]
    assert starts == [[0], [second, third]]


@pytest.mark.parametrize("step", [1, 500, 2**23])
def test_bytes_that_are_no_record_are_torn(write_log: Write, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    path = write_log("broker-a", [b"x", b"y" * 5000, b"z"]) / "commitlog" / f"{0:020d}"
    raw = path.read_bytes()
    monkeypatch.setattr(fileimage, "_STEP", step)
    found = []
    for tail in (bytes(100), b"\1" * 100):
        path.write_bytes(raw[:-100] + tail)
        with FileImage.open(path) as image:
            found.append([len(segment.starts) for segment in segments(image, 0, 0, len(raw))])
    assert found == [[3], [3, 0]]
