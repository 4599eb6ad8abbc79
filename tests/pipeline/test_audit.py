"""The audit against the quick checks: other code, the same answers, in clean runs and in those with something planted."""

import pathlib
import shutil
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.checks.testing import ADDRESSES, MadeUpRun, write_journals
from rmqlab.pipeline.audit.audit import Summary, audit_run
from rmqlab.remoting.bodies.offset import ConsumerOffsets
from rmqlab.remoting.message import MESSAGE_MAGIC, StoredMessage, body_crc, encode_message
from rmqlab.store.consumequeue import ENTRY, PRE_BLANK_SIZE
from rmqlab.verdict.findings import Finding, Findings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rmqlab.cluster.checks.history import Queue
    from tests.pipeline.conftest import Lab

MAGIC = struct.pack(">i", MESSAGE_MAGIC)


def write_run(run: MadeUpRun, directory: pathlib.Path) -> pathlib.Path:
    """Lay a made-up run down as files: a journal for each node, a commit log for each store."""
    write_journals(run.entries, directory / "journal")
    for node, table in run.offset_files.items():
        config = directory / node / "store" / "config"
        config.mkdir(parents=True)
        (config / "consumerOffset.json").write_bytes(ConsumerOffsets(offset_table=table).encode())
    for node, copies in run.logs.items():
        if node in run.unread:
            continue
        log = directory / node / "store" / "commitlog"
        log.mkdir(parents=True)
        raw = b""
        queues: dict[Queue, bytes] = {}
        for copy in copies:
            properties = f"UNIQ_KEY\x01{copy.message_id}"
            message = StoredMessage(
                0, body_crc(b"x"), copy.queue.queue_id, 0, copy.offset, len(raw), 0, copy.stored_at, ("127.0.0.1", 1),
                copy.stored_at, ("127.0.0.1", 2), 0, 0, b"x", copy.queue.topic, properties, {},
            )  # fmt: skip
            record = encode_message(message)
            points_at = ENTRY.pack(len(raw), len(record), 0)
            queues[copy.queue] = _with_entry(queues.get(copy.queue, b""), copy.offset, points_at)
            raw += record
        (log / f"{0:020d}").write_bytes(raw.ljust(64 * 1024, b"\0"))
        for queue, entries in queues.items():
            folder = log.parent / "consumequeue" / queue.topic / str(queue.queue_id)
            folder.mkdir(parents=True)
            (folder / f"{0:020d}").write_bytes(entries)
    return directory


def _with_entry(entries: bytes, offset: int, entry: bytes) -> bytes:
    """Put an entry at a queue offset; places that no record of the run has are declared empty."""
    missing = offset - len(entries) // len(entry)
    entries += ENTRY.pack(0, PRE_BLANK_SIZE, 0) * max(0, missing)
    return entries[: offset * len(entry)] + entry + entries[(offset + 1) * len(entry) :]


def compare(spark: "SparkSession", directory: pathlib.Path, *, is_small: bool | None = None) -> Summary:
    """Both judge a run; they must agree on every metric that the quick checks measure. Gives the audit's."""
    summary, quick = audit_run(spark, directory, is_small=is_small), judge_directory(directory)
    assert differences(summary, quick) == {}
    assert summary.verdict is quick.verdict
    assert summary.judgement.conditions == quick.conditions
    return summary


def differences(summary: Summary, quick: Findings) -> dict[str, str]:
    """Where the audit says something else than the quick checks, metric by metric."""
    return {
        one.metric: f"quick {_said(one)}, audit {_said(found)}"
        for one in quick
        if (found := summary.findings.get(one.metric)) is None
        or found.value != (pytest.approx(one.value) if one.value is not None else None)
        or found.is_at_least != one.is_at_least
    }


def _said(one: Finding | None) -> str:
    if one is None:
        return "nothing"
    return f"{one.value} {'or more' if one.is_at_least else ''} {one.missing}".strip()


def clean_run() -> MadeUpRun:
    run = MadeUpRun()
    for number in range(12):
        run.send(number, queue_id=number % 2)
    for number in range(12):
        run.deliver(number, number // 2, queue_id=number % 2)
    run.commit(6)
    run.commit(6, queue_id=1)
    return run


def lose(run: MadeUpRun) -> None:
    run.send(100, at=())
    run.send(101, "SLAVE_NOT_AVAILABLE", at=())
    run.send(102, at=("broker-a",))


def store_twice(run: MadeUpRun) -> None:
    message = run.send(110)
    copy = run.logs["broker-a"][-1]
    run.store(message, copy.queue, ("broker-a", "broker-a-s"))
    run.deliver(110, copy.offset)
    run.deliver(110, copy.offset + 1)


def doubt(run: MadeUpRun) -> None:
    run.send(120, "indeterminate", at=("broker-a", "broker-a-s"))
    run.send(121, "refused", at=("broker-a", "broker-a-s"))
    run.send(122, "indeterminate")


def redeliver(run: MadeUpRun) -> None:
    run.deliver(0, 0, times=1)
    run.deliver(2, 1)
    run.deliver(4, 2, node="consume-2")
    run.deliver(11, 5, queue_id=1, node="consume-2")
    run.send(125, queue_id=2)
    run.deliver(125, 0, queue_id=2)
    run.deliver(125, 0, queue_id=2, node="consume-2")


def roll_back(run: MadeUpRun) -> None:
    run.commit(2)
    run.deliver(4, 2)
    run.add("broker-a-s", "consumer_offsets_overwritten", key="orders@shop", queues={"1": [6, 3]})
    run.deliver(9, 4, queue_id=1)
    run.add("consume-1", "offset_illegal", queue="orders@broker-a:0", asked=9, offered=3)


def reorder(run: MadeUpRun) -> None:
    for number in range(130, 134):
        run.send(number, queue_id=3)
    for log in run.logs.values():
        first, second = log[-2:]
        log[-2:] = [attrs.evolve(second, offset=first.offset), attrs.evolve(first, offset=second.offset)]


def outage(run: MadeUpRun) -> None:
    run.send(140)
    run.end("broker-a")
    run.drop("namesrv-1", "broker-a")
    run.wait(3)
    run.fail(141)
    run.wait(2)
    run.fail(142)
    run.add("consume-1", "pull_failed", queue="orders@broker-a:0", address="x", error="y", took=20)
    run.wait(4)
    run.ready("broker-a")
    run.send(143)
    run.deliver(143, 7)
    run.fail(144)


def lag(run: MadeUpRun) -> None:
    for second in range(5):
        run.add("broker-a", "log_sampled", max_offset=1000 * second, confirm_offset=0)
        run.add("broker-a-s", "log_sampled", max_offset=700 * second, confirm_offset=0)
        run.wait(1)


def claim_nothing(run: MadeUpRun) -> None:
    """A client that keeps no journal, and that the broker heard of: else the journals would be incomplete."""
    run.add("broker-a", "producer_joined", group="guests", client_id="10.0.0.9@1#2")
    copy = run.logs["broker-a"][-1]
    run.store("STRANGE", copy.queue, ("broker-a", "broker-a-s"))


def believe(run: MadeUpRun) -> None:
    both = {"0": ADDRESSES["broker-a"], "1": ADDRESSES["broker-a-s"]}
    run.add("produce-1", "route_believed", topic="orders", brokers={"broker-a": both})
    run.end("broker-a-s", "pause", "node_paused")
    run.wait(7)
    run.end("broker-a-s")
    run.wait(2)
    run.drop("namesrv-1", "broker-a-s")
    run.add("produce-1", "route_believed", topic="orders", brokers={"broker-a": {"0": ADDRESSES["broker-a"]}})
    run.ready("broker-a-s")
    run.drop("namesrv-1", "broker-a-s", "broker_expired")
    run.wait(11)
    run.ready("broker-a-s")
    run.add("", "fault_applied", id="f1", fault="isolate", target="broker-a:slave")
    run.wait(3)
    run.add("", "fault_healed", id="f1", fault="isolate", target="broker-a:slave")


def come_late(run: MadeUpRun) -> None:
    for number in (150, 151):
        run.send(number, queue_id=4)
    run.deliver(151, 1, queue_id=4)
    run.deliver(150, 0, queue_id=4)


def hold_pulls(run: MadeUpRun) -> None:
    """Two groups, held pulls that are answered and cut off; a broker that only held is readable."""
    queue = "orders@broker-a:1"
    run.add("consume-1", "pull_failed", queue=queue, took=9000, held=9000)
    run.wait(1)
    run.deliver(7, 3, node="other-1", group="other", queue_id=1)
    run.add("other-1", "pull_failed", queue=queue, took=40, held=0)
    run.wait(20)
    run.add("consume-1", "pull_resumed", queue=queue, took=15_010, held=15_000, stored_at=None)
    run.add("other-1", "pull_failed", queue=queue, took=30, held=0)


def cut_off_pull(run: MadeUpRun) -> None:
    """A pull that breaks while it is held, though a message has been waiting for 3 s."""
    run.wait(14)
    queue, stored_at = "orders@broker-b:0", run.now - 3000
    for took in (14_000, 2000):
        run.add("cut-1", "pull_failed", queue=queue, took=took, held=took)
    run.wait(4)
    run.add("cut-1", "pull_resumed", queue=queue, took=5, held=0, stored_at=stored_at)


def correct(run: MadeUpRun) -> None:
    """One correction: asked for, committed, and reported by the broker; and one to the same offset."""
    run.commit(90, queue_id=7)
    run.add("consume-1", "offset_illegal", queue="orders@broker-a:7", asked=90, offered=40)
    run.commit(40, queue_id=7)
    fields = {"group": "shop", "topic": "orders", "queue_id": 7, "before": 90, "after": 40, "peer": "p"}
    run.add("broker-a", "offset_moved_back", **fields)
    run.commit(90, queue_id=7)
    run.commit(40, queue_id=7)
    run.add("consume-1", "offset_illegal", queue="orders@broker-a:7", asked=40, offered=40)


def move_clock(run: MadeUpRun) -> None:
    """A consumer's journal is 20 s behind."""
    for number in range(160, 163):
        run.send(number, queue_id=5)
        run.now -= 20_000
        run.deliver(number, number - 160, node="late-1", group="late", queue_id=5)
        run.now += 20_000


def repeat_after_commits(run: MadeUpRun) -> None:
    """The highest commit counts, not the last; a rollback does not reach the offset that it left."""
    for offset in (10, 5):
        run.commit(offset, queue_id=8)
    for _ in range(2):
        run.deliver(170, 7, queue_id=8)
    run.deliver(171, 9, queue_id=9)
    run.add("broker-a-s", "consumer_offsets_overwritten", key="orders@shop", queues={"9": [9, 2]})
    run.deliver(171, 9, queue_id=9)


def leave_attempts(run: MadeUpRun) -> None:
    """A send that came to no end, but is stored; and an old kill before a crash."""
    run.fail(180)
    run.store("ID000180", run.logs["broker-a"][-1].queue, ("broker-a",))
    run.add("broker-a-s", "command", command="kill")
    run.ready("broker-a-s")
    run.wait(300)
    run.add("broker-a-s", "node_crashed")
    run.wait(2)
    run.drop("namesrv-1", "broker-a-s")
    run.ready("broker-a-s")


def stop(run: MadeUpRun) -> None:
    """Messages count while the cluster stops, and ends of nodes do not."""
    run.add("", "cluster_stopping")
    run.send(190, at=())
    run.end("broker-a", "stop", "node_stopped")


def cut_off(run: MadeUpRun) -> None:
    run.logs["broker-a-s"].pop()


PLANTED: list[tuple[Callable[[MadeUpRun], None], str]] = [
    (lose, "lost"),
    (lose, "lost.SLAVE_NOT_AVAILABLE"),
    (lose, "missing broker-a-s"),
    (store_twice, "stored_twice"),
    (store_twice, "duplicates.client_retry"),
    (doubt, "stored.indeterminate"),
    (doubt, "stored.refused"),
    (redeliver, "duplicates.redelivery"),
    (redeliver, "duplicates.rebalance"),
    (roll_back, "offset_rollbacks"),
    (roll_back, "duplicates.offset_rollback"),
    (roll_back, "rolled_back shop"),
    (outage, "write_unavailable broker-a"),
    (outage, "read_unavailable broker-a"),
    (outage, "detection namesrv-1"),
    (outage, "stale_route namesrv-1"),
    (believe, "stale_route produce-1"),
    (believe, "detection produce-1"),
    (believe, "missing_route namesrv-1"),
    (come_late, "order.delivered shop"),
    (lag, "replication_lag broker-a-s"),
    (claim_nothing, "unclaimed"),
    (reorder, "order.stored"),
    (hold_pulls, "group_read_unavailable shop"),
    (correct, "offset_rollbacks shop"),
    (move_clock, "clock_disagreement late-1"),
    (repeat_after_commits, "duplicates.unexplained"),
    (leave_attempts, "detection namesrv-1"),
    (stop, "lost.SEND_OK"),
    (cut_off, "behind broker-a-s"),
]


def test_both_find_nothing_in_a_clean_run(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    summary = compare(spark, write_run(clean_run(), tmp_path))
    assert summary.verdict == "holds"
    clean = (
        "lost",
        "duplicates",
        "order.stored",
        "stored_twice",
        "offset_rollbacks",
        "unclaimed",
        "divergence broker-a-s",
    )
    assert [summary.findings[metric].value for metric in clean] == [0] * len(clean)


@pytest.mark.parametrize(
    "is_small",
    [
        pytest.param(True, id="within one process"),
        pytest.param(False, id="by Spark's workers", marks=pytest.mark.long),
    ],
)
def test_both_find_everything_that_was_planted(
    spark: "SparkSession", tmp_path: pathlib.Path, *, is_small: bool
) -> None:
    run = clean_run()
    for plant in dict(PLANTED):
        plant(run)
    summary = compare(spark, write_run(run, tmp_path), is_small=is_small)
    assert summary.verdict == "violated"
    assert [metric for _, metric in PLANTED if not summary.findings[metric].value] == []


DAMAGES: dict[str, Callable[[pathlib.Path], object]] = {
    "end cut": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "garbled": lambda path: path.write_bytes(path.read_bytes()[:700] + b"\xc1" * 90 + path.read_bytes()[790:]),
    "deleted": pathlib.Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("process", ["produce-1", "cluster"])
def test_both_notice_an_incomplete_journal(
    spark: "SparkSession", tmp_path: pathlib.Path, process: str, damage: str
) -> None:
    """Issue 14.2: the same sends, the same gaps, and no verdict that rests on what is missing."""
    run = clean_run()
    run.add("", "cluster_starting", role="SYNC_MASTER", profile="4.9")
    run.send(20, at=["broker-a"])
    run.add("produce-1", "node_stopped")
    for number in range(10):
        run.add("", "step", number=number)
    directory = write_run(run, tmp_path)
    DAMAGES[damage](directory / "journal" / f"{process}.msgpack")
    summary = compare(spark, directory)
    (gap,) = [gap for gap in summary.judgement.conditions.gaps if gap.process]
    assert gap.process == process
    assert not summary.findings["lost"].is_known


def test_both_count_what_no_slave_has(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = clean_run()
    run.add("", "cluster_starting", role="SYNC_MASTER", profile="4.9")
    run.send(20, at=["broker-a"])
    run.add("broker-a-s", "file_deleted", file="0")
    run.send(21, at=["broker-a"])
    run.send(22, "FLUSH_SLAVE_TIMEOUT", at=["broker-a"])
    assert compare(spark, write_run(run, tmp_path)).findings["unreplicated broker-a"].value == 1


def test_each_planted_violation_is_counted_once(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = clean_run()
    for plant in (move_clock, hold_pulls, cut_off_pull, correct, leave_attempts, stop):
        plant(run)
    findings = compare(spark, write_run(run, tmp_path)).findings
    expected = {
        "read_unavailable broker-a": pytest.approx(5.0, abs=0.1),
        "group_read_unavailable shop": pytest.approx(6.03, abs=0.1),
        "group_read_unavailable other": pytest.approx(20.06, abs=0.1),
        "group_read_unavailable cut-1": pytest.approx(7.03, abs=0.1),
        "offset_rollbacks": 2,
        "rolled_back shop": 50,
        "clock_disagreement late-1": pytest.approx(20, abs=0.1),
        "clock_disagreement broker-a": 0,
        "clock_disagreement produce-1": 0,
        "unclaimed": 0,
        "lost": 1,
        "detection namesrv-1": pytest.approx(2.0, abs=0.1),
    }
    assert {metric: findings[metric].value for metric in expected} == expected


def expire(run: MadeUpRun) -> None:
    """The first messages of two queues, and all of a third."""
    run.send(200, queue_id=6)
    run.add("broker-a", "file_deleted", file="commitlog/00000000000000000000")
    for log in run.logs.values():
        del log[:2], log[-1:]


def overwrite(run: MadeUpRun) -> None:
    """The first message that is left is another one: that is a loss."""
    run.add("broker-a", "file_deleted", file="commitlog/00000000000000000000")
    run.add("broker-a-s", "file_deleted", file="commitlog/00000000000000000000")
    run.logs = {node: [attrs.evolve(log[0], message_id="OTHERS001"), *log[1:]] for node, log in run.logs.items()}


def store_in_doubt(run: MadeUpRun) -> None:
    run.send(210, "indeterminate", at=("broker-a",))
    run.send(211, "refused", at=("broker-a",))
    run.unread.add("broker-a-s")


def wipe_and_start(run: MadeUpRun) -> None:
    """What a node stored since it was wiped is not there to be read."""
    run.send(220, at=())
    run.add("broker-a", "store_wiped", files=3)
    run.ready("broker-a")
    run.unread.add("broker-a")


def run_ahead(run: MadeUpRun) -> None:
    run.store("ONLYTHERE", run.logs["broker-a-s"][-1].queue, ("broker-a-s",))


def deliver_again_without_a_cause(run: MadeUpRun) -> None:
    run.entries = [entry for entry in run.entries if entry.kind != "committed"]
    run.deliver(9, 4, queue_id=1)


@pytest.mark.parametrize(
    ("plant", "metric"),
    [
        (expire, "expired"),
        (overwrite, "lost"),
        (store_in_doubt, "stored.refused"),
        (run_ahead, "ahead broker-a-s"),
        (deliver_again_without_a_cause, "duplicates.unexplained"),
    ],
)
def test_both_find_what_does_not_go_with_the_rest(
    spark: "SparkSession", tmp_path: pathlib.Path, plant: Callable[[MadeUpRun], None], metric: str
) -> None:
    run = clean_run()
    plant(run)
    assert compare(spark, write_run(run, tmp_path)).findings[metric].value


def test_two_nameservers_that_differ_are_found(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = MadeUpRun(nodes=("namesrv-1", "namesrv-2", "broker-a", "broker-a-s"))
    run.drop("namesrv-1", "broker-a")
    run.wait(9)
    run.drop("namesrv-2", "broker-a")
    summary = compare(spark, write_run(run, tmp_path))
    assert summary.findings["route_disagreement"].value == pytest.approx(9.01)


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


@pytest.mark.parametrize(
    ("at", "raw"),
    [
        pytest.param(8, b"\0\0\0\7", id="another CRC"),
        pytest.param(0, bytes(40), id="zeros"),
        pytest.param(0, b"\0\0\3\xff", id="another size"),
        pytest.param(28, b"\0\0\0\0\0\0\0\7", id="another place"),
        pytest.param(84, b"\0\0\0\7", id="another body length"),
    ],
)
@pytest.mark.parametrize("nodes", [("broker-a", "broker-a-s"), ("broker-a",)])
def test_a_damaged_record_is_no_copy_and_ends_no_log(
    spark: "SparkSession", tmp_path: pathlib.Path, nodes: tuple[str, ...], at: int, raw: bytes
) -> None:
    """Issue 14.4: it counted as stored, or everything behind it as lost."""
    directory = write_run(clean_run(), tmp_path)
    for node in nodes:
        overwrite_record(directory, node, "ID000004", at, raw)
    findings = compare(spark, directory).findings
    is_lost = len(nodes) == 2
    counted = ("lost", "unreadable", "corrupt broker-a", "missing broker-a", "corrupt broker-a-s", "dangling broker-a")
    assert [findings[metric].value for metric in counted] == [is_lost, is_lost, 1, 1, is_lost, 0]
    assert findings["behind broker-a-s"].value == 0
    quick = judge_directory(directory)
    assert quick["corrupt broker-a"].message_ids == ("ID000004",)
    for metric in ("lost", "unreadable") if is_lost else ():
        assert quick[metric].message_ids == ("ID000004",)
        assert "broker-a, commit log offset " in findings[metric].evidence[0].says


@pytest.mark.parametrize("entry", [bytes(20), ENTRY.pack(7, 300, 0), ENTRY.pack(10**6, 300, 0), None])
def test_a_queue_entry_to_nowhere_is_found(spark: "SparkSession", tmp_path: pathlib.Path, entry: bytes | None) -> None:
    directory = write_run(clean_run(), tmp_path)
    path = directory / "broker-a" / "store" / "consumequeue" / "orders" / "1" / f"{0:020d}"
    entries = bytearray(path.read_bytes())
    entries[40:60] = entries[60:80] if entry is None else entry
    path.write_bytes(entries)
    findings = compare(spark, directory).findings
    assert [findings[f"dangling {node}"].value for node in ("broker-a", "broker-a-s")] == [1, 0]
    assert findings["corrupt broker-a"].value == 0
    assert judge_directory(directory)["dangling broker-a"].message_ids == ("ID000005",)


def test_a_record_with_another_queue_offset_is_not_what_its_queue_points_at(
    spark: "SparkSession", tmp_path: pathlib.Path
) -> None:
    directory = write_run(clean_run(), tmp_path)
    overwrite_record(directory, "broker-a", "ID000004", 20, b"\0\0\0\0\0\0\0\x09")
    assert compare(spark, directory).findings["dangling broker-a"].value == 1
    assert judge_directory(directory)["dangling broker-a"].message_ids == ("ID000004",)


def test_a_store_without_its_queues_is_not_judged_by_them(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    directory = write_run(clean_run(), tmp_path)
    shutil.rmtree(directory / "broker-a" / "store" / "consumequeue")
    assert compare(spark, directory).findings["dangling broker-a"].missing == "the store has no consume queues"


def test_a_run_without_workloads_and_stores_is_judged(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = MadeUpRun()
    run.unread |= {"broker-a", "broker-a-s"}
    assert compare(spark, write_run(run, tmp_path)).verdict == "unknown"


def test_what_cannot_be_known_is_unknown(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = clean_run()
    lose(run)
    run.unread.add("broker-a-s")
    summary = compare(spark, write_run(run, tmp_path))
    assert summary.verdict == "unknown"
    assert "its store was not given" in summary.findings["lost"].missing


def test_a_file_of_offsets_that_was_set_back_is_found(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    """The master stopped with the cluster; the slave was killed after a pause, and had time to save one commit."""
    run = MadeUpRun()
    run.add("", "cluster_starting", rate=1.0)
    run.wait(60)
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
    assert "offset 75 in the file, and must be 105" in findings["offset_file_behind broker-a"].evidence[0].says
    assert findings["offset_file_behind broker-a-s"].value == 7


def test_a_node_that_started_again_after_its_store_was_wiped_is_unread(
    spark: "SparkSession", tmp_path: pathlib.Path
) -> None:
    run = clean_run()
    wipe_and_start(run)
    assert "broker-a: its store was not given" in compare(spark, write_run(run, tmp_path)).findings["lost"].missing


def test_a_slave_that_deleted_what_it_lacks_says_so(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = clean_run()
    run.wait(3600)
    run.add("broker-a-s", "file_deleted", file="commitlog/00000000000000000000")
    del run.logs["broker-a-s"][:1]
    (told,) = compare(spark, write_run(run, tmp_path)).findings["missing broker-a-s"].evidence
    assert "; then broker-a-s: file_deleted at 360" in told.says


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
