"""The audit of stores: logs that differ, damaged records, queues, tables.

Both judges agree.
"""

import pathlib
import shutil
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Row

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.testing import ADDRESSES, MadeUpRun, with_offset
from rmqlab.pipeline.audit.audit import audit_run
from rmqlab.pipeline.audit.storefacts import KEEPS_CONTENT
from rmqlab.remoting.contentcrc import keeps_content
from rmqlab.remoting.names import HALF_TOPIC
from rmqlab.store.queue.consumequeue import ENTRY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.conftest import Lab
from tests.cluster.checks.test_offsetfiles import consumed_run, set_back, target_of
from tests.pipeline.violations import MAGIC, clean_run, compare, lose, wipe_and_start, write_run
from tests.remoting.test_contentcrc import RECORDS


def test_a_log_that_differs_is_found_at_its_first_byte(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    directory = write_run(clean_run(), tmp_path)
    path = directory / "broker-a-s" / "store" / "commitlog" / f"{0:020d}"
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"UNIQ_KEY\x01ID000007") + 16] ^= 1
    path.write_bytes(raw)
    summary = compare(spark, directory)
    assert summary.verdict == "violated"
    assert summary.findings["divergence broker-a-s"].value


def overwrite_record(directory: pathlib.Path, node: str, message_id: str, at: int, raw: bytes) -> None:
    """Change bytes of a message's record in one log, `at` bytes behind its begin."""
    path = directory / node / "store" / "commitlog" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    begin = content.rindex(MAGIC, 0, content.index(f"UNIQ_KEY\x01{message_id}".encode())) - 4
    content[begin + at : begin + at + len(raw)] = raw
    path.write_bytes(content)


CRC, SIZES = (8, b"\0\0\0\7"), (0, bytes(40))
"""Bytes of a record, and what is written there."""


@pytest.mark.parametrize(
    "damages",
    [
        pytest.param({"ID000004": CRC, "ID000008": SIZES}, id="another CRC, and zeros"),
        pytest.param({"ID000004": CRC}, id="another CRC", marks=pytest.mark.long),
        pytest.param({"ID000004": SIZES}, id="zeros", marks=pytest.mark.long),
        pytest.param({"ID000004": (0, b"\0\0\3\xff")}, id="another size", marks=pytest.mark.long),
        pytest.param({"ID000004": (28, b"\0\0\0\0\0\0\0\7")}, id="another place", marks=pytest.mark.long),
        pytest.param({"ID000004": (84, b"\0\0\0\7")}, id="another body length", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("nodes", [("broker-a", "broker-a-s"), pytest.param(("broker-a",), marks=pytest.mark.long)])
def test_a_damaged_record_is_no_copy_and_ends_no_log(
    spark: "SparkSession", tmp_path: pathlib.Path, nodes: tuple[str, ...], damages: dict[str, tuple[int, bytes]]
) -> None:
    """Issue 14.4: it counted as stored, or everything behind it as lost."""
    directory = write_run(clean_run(), tmp_path)
    for node in nodes:
        for message_id, (at, raw) in damages.items():
            overwrite_record(directory, node, message_id, at, raw)
    findings = compare(spark, directory).findings
    damaged, lost = len(damages), len(damages) if len(nodes) == 2 else 0
    counted = ("lost", "unreadable", "corrupt broker-a", "missing broker-a", "corrupt broker-a-s", "dangling broker-a")
    assert [findings[metric].value for metric in counted] == [lost, lost, damaged, damaged, lost, 0]
    assert findings["behind broker-a-s"].value == 0
    quick = judge_directory(directory)
    assert quick["corrupt broker-a"].message_ids == (*damages,)
    for metric in ("lost", "unreadable") if lost else ():
        assert quick[metric].message_ids == (*damages,)
        assert all("broker-a, commit log offset " in piece.text for piece in findings[metric].evidence)


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(bytes(20), marks=pytest.mark.long),
        ENTRY.pack(7, 300, 0),
        pytest.param(ENTRY.pack(10**6, 300, 0), marks=pytest.mark.long),
        pytest.param(None, marks=pytest.mark.long),
    ],
    ids=["zeros", "between records", "behind the log", "the next record"],
)
def test_an_entry_to_nowhere_and_one_to_a_record_with_another_queue_offset_are_found(
    spark: "SparkSession", tmp_path: pathlib.Path, entry: bytes | None
) -> None:
    directory = write_run(clean_run(), tmp_path)
    path = directory / "broker-a" / "store" / "consumequeue" / "orders" / "1" / f"{0:020d}"
    entries = bytearray(path.read_bytes())
    entries[40:60] = entries[60:80] if entry is None else entry
    path.write_bytes(entries)
    overwrite_record(directory, "broker-a", "ID000004", 20, b"\0\0\0\0\0\0\0\x09")
    findings = compare(spark, directory).findings
    assert [findings[f"dangling {node}"].value for node in ("broker-a", "broker-a-s")] == [2, 0]
    assert findings["corrupt broker-a"].value == 0
    assert sorted(judge_directory(directory)["dangling broker-a"].message_ids) == ["ID000004", "ID000005"]


@pytest.mark.long
def test_a_store_without_queues_is_not_judged_by_them_and_entries_below_a_log_without_records_are_expired(
    spark: "SparkSession", tmp_path: pathlib.Path
) -> None:
    run = clean_run()
    run.add("broker-a-s", "file_deleted", file=f"commitlog/{0:020d}")
    directory = write_run(run, tmp_path)
    shutil.rmtree(directory / "broker-a" / "store" / "consumequeue")
    log = directory / "broker-a-s" / "store" / "commitlog"
    (first,) = log.iterdir()
    size = first.stat().st_size
    first.unlink()
    (log / f"{size:020d}").write_bytes(bytes(size))
    findings = compare(spark, directory).findings
    assert findings["dangling broker-a"].missing == "the store has no consume queues"
    assert findings["dangling broker-a-s"].value == 0


def test_a_run_without_workloads_and_stores_is_judged(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = MadeUpRun()
    run.unread |= {"broker-a", "broker-a-s"}
    assert compare(spark, write_run(run, tmp_path)).verdict == "unknown"


def test_a_finding_without_its_store_is_unknown(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = clean_run()
    lose(run)
    run.unread.add("broker-a-s")
    summary = compare(spark, write_run(run, tmp_path))
    assert summary.verdict == "unknown"
    assert "its store was not given" in summary.findings["lost"].missing


def test_a_file_of_offsets_that_was_set_back_is_found(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    """The master stopped with the cluster.

    It refused a pull with an offset. The slave was killed after a pause, and had time to save one commit.
    """
    run = MadeUpRun()
    run.add("", "cluster_starting", rate=1.0)
    run.wait(60)
    run.commit(500, queue_id=2)
    run.add("consume-1", "pull_failed", queue="orders@broker-a:2", address="", error="code 24", took=100)
    for offset in (50, 100):
        run.commit(offset)
        run.add("consume-1", "committed", group="shop", topic="orders", broker="broker-a", queue=1, offset=offset,
                broker_id=1)  # fmt: skip
        run.wait(30)
    run.add("", "fault_applied", id="f1", fault="link")
    run.commit(400)
    run.add("", "fault_healed", id="f1", fault="link")
    run.wait(30)
    run.end("broker-a-s", "pause", "node_paused")
    run.add("consume-1", "committed", group="shop", topic="orders", broker="broker-a", queue=1, offset=200, broker_id=1)
    run.end("broker-a-s")
    run.commit(110)
    run.add("broker-a", "offset_moved_back", group="shop", topic="orders", queue_id=0, before=110, after=105, peer="p")
    run.wait(2)
    run.add("", "cluster_stopping")
    run.end("broker-a", "stop", "node_stopped")
    run.offset_files = {"broker-a": {"orders@shop": {0: 75}}, "broker-a-s": {"orders@shop": {1: 93}}}
    findings = compare(spark, write_run(run, tmp_path)).findings
    assert findings["offset_file_behind broker-a"].value == 30
    assert "offset 75 in the file, and must be 105" in findings["offset_file_behind broker-a"].evidence[0].text
    assert findings["offset_file_behind broker-a-s"].value == 7


@pytest.mark.long
def test_a_node_that_started_again_after_its_store_was_wiped_is_unread(
    spark: "SparkSession", tmp_path: pathlib.Path
) -> None:
    run = clean_run()
    wipe_and_start(run)
    assert "broker-a: its store was not given" in compare(spark, write_run(run, tmp_path)).findings["lost"].missing


@pytest.mark.long
def test_a_slave_that_deleted_what_it_lacks_says_so(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = clean_run()
    run.wait(3600)
    run.add("broker-a-s", "file_deleted", file="commitlog/00000000000000000000")
    del run.logs["broker-a-s"][:1]
    (piece,) = compare(spark, write_run(run, tmp_path)).findings["missing broker-a-s"].evidence
    assert "; then broker-a-s: file_deleted at 360" in piece.text


def test_a_torn_journal_makes_the_verdict_unknown(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    directory = write_run(clean_run(), tmp_path)
    path = directory / "journal" / "produce-1.msgpack"
    path.write_bytes(path.read_bytes() + b"\x85\xa1v\x01\xa2at")
    assert audit_run(spark, directory).verdict == "unknown"


@pytest.mark.long
def test_a_real_run_in_which_a_master_is_killed(spark: "SparkSession", own_lab: "Lab") -> None:
    own_lab.create_topic("rmqlab", 4)
    produced = own_lab.start("produce", "--name", "broken", "--rate-per-second", "20", "--count", "600")
    consumed = own_lab.start("consume", "--name", "broken", "--count", "100")
    consumed.wait(timeout=200)
    own_lab.run("kill", "broker-a:master", "--name", "broken")
    produced.wait(timeout=300)
    own_lab.run("start", "broker-a:master", "--name", "broken")
    own_lab.run("down", "--name", "broken")
    summary = compare(spark, own_lab.home / "broken")
    assert summary.findings["sent"].value == 600
    assert summary.findings["sent.refused"].value
    own_lab.run("up", "--detach", "--name", "broken")


def test_records_that_keep_their_content_are_the_same_for_both_judges(spark: "SparkSession") -> None:
    rows = [(topic, real_topic) for topic, real_topic, _ in RECORDS]
    records = spark.createDataFrame([Row(topic=topic, realTopic=real_topic or None) for topic, real_topic in rows])
    found = records.alias("r").selectExpr(f"{KEEPS_CONTENT} found").collect()
    assert [row.found for row in found] == [keeps_content(topic, real_topic) for topic, real_topic in rows]


def store_again(run: MadeUpRun, number: int, halves: int) -> None:
    """Store a message whose content differs from what was sent.

    Before that, so many records of it are stored in the half topic.
    """
    message_id = f"ID{number:06d}"
    queue = Queue(HALF_TOPIC, "broker-a", 0)
    first = len([copy for copy in run.logs["broker-a"] if copy.queue == queue])
    for _ in range(halves):
        run.store(message_id, queue, run.members("broker-a"))
    run.store(message_id, Queue("orders", "broker-a", 0), run.members("broker-a"))
    run.send(number, at=(), crc=1, held_in=f"{HALF_TOPIC}:0")
    run.entries[-1] = with_offset(run.entries[-1], first)


def test_only_a_half_message_that_is_stored_again_may_change_its_content(
    spark: "SparkSession", tmp_path: pathlib.Path
) -> None:
    """A record in the half topic hides no altered message that was not sent there."""
    run = clean_run()
    for number, halves in ((100, 1), (101, 2), (102, 0)):
        store_again(run, number, halves)
    run.send(103, crc=1)
    run.store("ID000103", Queue(HALF_TOPIC, "broker-a", 0), run.members("broker-a"))
    directory = write_run(run, tmp_path)
    assert compare(spark, directory).findings["content_disagreement"].value == 2
    assert judge_directory(directory)["content_disagreement"].message_ids == ("ID000100", "ID000103")


@pytest.mark.long
def test_commits_to_a_former_master_are_not_expected_in_the_file_of_the_present_one(
    spark: "SparkSession", tmp_path: pathlib.Path
) -> None:
    run = consumed_run()
    run.entries.insert(-2, target_of(run, ADDRESSES["broker-a-s"]))
    set_back(run)
    assert not compare(spark, write_run(run, tmp_path)).findings["offset_file_behind broker-a"].is_known
