"""The audit and the quick checks agree on clean runs and on planted ones.

They share no code for that.
"""

import os
import pathlib
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.pipeline.audit.audit import Summary, audit_run
from rmqlab.pipeline.audit.relations import Relations
from rmqlab.pipeline.audit.size import Scale
from rmqlab.pipeline.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from tests.pipeline.audited import Audited
from tests.pipeline.violations import (
    PLANTED,
    check_agreement,
    clean_run,
    compare,
    correct,
    cut_off_pull,
    hold_pulls,
    leave_attempts,
    move_clock,
    planted_run,
    reassign_at_once,
    stop,
    write_run,
)


def test_both_find_nothing_in_a_clean_run(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    summary = compare(spark, write_run(clean_run(), tmp_path))
    assert summary.verdict == "holds"
    clean = (
        "lost",
        "duplicates",
        "order.stored",
        "stored_twice",
        "offset_rollbacks",
        "stored_unsent",
        "divergence broker-a-s",
    )
    assert [summary.findings[metric].value for metric in clean] == [0] * len(clean)


def check_everything_is_found(summary: Summary, directory: pathlib.Path) -> None:
    assert summary.verdict == "violated"
    (unsent,) = judge_directory(directory)["stored_unsent"].evidence
    assert summary.findings["stored_unsent"].evidence[0].text == f"STRANGE: {unsent.text}"
    assert [metric for _, metric in PLANTED if not summary.findings[metric].value] == []


def test_both_find_everything_that_was_planted(planted_audit: Audited) -> None:
    check_agreement(planted_audit.summary, planted_audit.directory)
    check_everything_is_found(planted_audit.summary, planted_audit.directory)


@pytest.mark.long
@pytest.mark.parametrize(
    "scale",
    [
        pytest.param(Scale.MEDIUM, id="with one partition per table"),
        pytest.param(Scale.LARGE, id="by Spark's workers"),
    ],
)
def test_both_find_everything_in_a_larger_run(spark: "SparkSession", tmp_path: pathlib.Path, scale: Scale) -> None:
    directory = write_run(planted_run(), tmp_path)
    check_everything_is_found(compare(spark, directory, scale=scale), directory)


DAMAGES: dict[str, Callable[[pathlib.Path], object]] = {
    "end cut": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "garbled": lambda path: path.write_bytes(path.read_bytes()[:700] + b"\xc1" * 90 + path.read_bytes()[790:]),
    "deleted": pathlib.Path.unlink,
}


def run_with_gaps(directory: pathlib.Path, damages: Mapping[str, str]) -> pathlib.Path:
    """Write a run, and damage the journals of some processes."""
    run = clean_run()
    run.add("", "cluster_starting", role="SYNC_MASTER", profile="4.9")
    run.send(20, at=["broker-a"])
    run.add("produce-1", "node_stopped")
    for number in range(10):
        run.add("", "step", number=number)
    write_run(run, directory)
    for process, damage in damages.items():
        DAMAGES[damage](directory / "journal" / f"{process}.msgpack")
    return directory


def check_gaps(summary: Summary, *processes: str) -> None:
    assert [gap.process for gap in summary.judgement.conditions.gaps if gap.process] == [*processes]
    assert not summary.findings["lost"].is_known


def test_both_notice_incomplete_journals(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    """Issue 14.2: the same sends and gaps, and `unknown` for what needs missing data."""
    damages = {"broker-a-s": "deleted", "consume-1": "garbled", "produce-1": "end cut"}
    check_gaps(compare(spark, run_with_gaps(tmp_path, damages)), *damages)


@pytest.mark.long
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("process", ["produce-1", "cluster"])
def test_both_notice_an_incomplete_journal(
    spark: "SparkSession", tmp_path: pathlib.Path, process: str, damage: str
) -> None:
    check_gaps(compare(spark, run_with_gaps(tmp_path, {process: damage})), process)


@pytest.mark.long
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
    for plant in (reassign_at_once, move_clock, hold_pulls, cut_off_pull, correct, leave_attempts, stop):
        plant(run)
    findings = compare(spark, write_run(run, tmp_path)).findings
    expected = {
        "read_unavailable broker-a": pytest.approx(5.0, abs=0.1),
        "group_read_unavailable shop": pytest.approx(6.03, abs=0.1),
        "group_read_unavailable other": pytest.approx(20.06, abs=0.1),
        "group_read_unavailable cut-1": pytest.approx(7.03, abs=0.1),
        "duplicates.rebalance": 1,
        "duplicates.unexplained": 1,
        "offset_rollbacks": 2,
        "rolled_back shop": 50,
        "clock_disagreement late-1": pytest.approx(20, abs=0.1),
        "clock_disagreement broker-a": 0,
        "clock_disagreement produce-1": 0,
        "stored_unsent": 0,
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


def expire_held(run: MadeUpRun) -> None:
    """A half message that was deleted, and a delayed one whose first record was."""
    run.send(220, at=(), queue_id=1, held_in="RMQ_SYS_TRANS_HALF_TOPIC:0")
    run.send(221, at=(), held_in="SCHEDULE_TOPIC_XXXX:2")
    run.send(222)
    run.store("ID000221", run.logs["broker-a"][-1].queue, ("broker-a", "broker-a-s"))
    run.add("broker-a", "file_deleted", file="commitlog/00000000000000000000")


def store_in_doubt(run: MadeUpRun) -> None:
    run.send(210, "indeterminate", at=("broker-a",))
    run.send(211, "refused", at=("broker-a",))
    run.unread.add("broker-a-s")


def run_ahead(run: MadeUpRun) -> None:
    run.store("ONLYTHERE", run.logs["broker-a-s"][-1].queue, ("broker-a-s",))


def deliver_again_without_a_cause(run: MadeUpRun) -> None:
    run.entries = [entry for entry in run.entries if entry.kind != "committed"]
    run.deliver(9, 4, queue_id=1)


@pytest.mark.parametrize(
    ("plants", "expected"),
    [
        ((expire, expire_held, deliver_again_without_a_cause), {"expired": 4, "duplicates.unexplained": 1}),
        pytest.param((overwrite, run_ahead), {"lost": 1, "ahead broker-a-s": 116}, marks=pytest.mark.long),
        pytest.param((store_in_doubt,), {"stored.refused": 1}, marks=pytest.mark.long),
    ],
)
def test_both_find_what_does_not_go_with_the_rest(
    spark: "SparkSession",
    tmp_path: pathlib.Path,
    plants: Sequence[Callable[[MadeUpRun], None]],
    expected: dict[str, int],
) -> None:
    """Those of one run do not touch each other's messages."""
    run = clean_run()
    for plant in plants:
        plant(run)
    findings = compare(spark, write_run(run, tmp_path)).findings
    assert {metric: findings[metric].value for metric in expected} == expected


@pytest.mark.long
def test_two_nameservers_that_differ_are_found(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = MadeUpRun(nodes=("namesrv-1", "namesrv-2", "broker-a", "broker-a-s"))
    run.drop("namesrv-1", "broker-a")
    run.wait(9)
    run.drop("namesrv-2", "broker-a")
    summary = compare(spark, write_run(run, tmp_path))
    assert summary.findings["route_disagreement"].value == pytest.approx(9.01)


def test_an_audit_refuses_a_session_of_spark_connect(tmp_path: pathlib.Path) -> None:
    connected = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(UserError, match="cannot use a session of Spark Connect; expected one of open_session"):
        audit_run(connected, tmp_path)


@pytest.mark.parametrize("scale", [Scale.SMALL, Scale.MEDIUM])
def test_ctrl_c_ends_an_audit_without_its_other_queries(
    spark: "SparkSession", tmp_path: pathlib.Path, scale: Scale, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    cancelled = threading.Event()

    def interrupt_at_the_second(step: str) -> None:
        """The main thread reports the first, threads of the questions the others."""
        steps.append(step)
        if len(steps) == 2:
            os.kill(os.getpid(), signal.SIGINT)
            assert cancelled.wait(timeout=300)

    def cancel(relations: Relations) -> None:
        relations_cancel(relations)
        cancelled.set()

    relations_cancel = Relations.cancel
    monkeypatch.setattr(Relations, "cancel", cancel)
    directory = write_run(clean_run(), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        audit_run(spark, directory, scale=scale, on_progress=interrupt_at_the_second)
    assert len(steps) == 2
    assert spark.range(3).count() == 3
