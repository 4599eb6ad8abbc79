"""Both judges know of each absent message which brokers may have stored it."""

import pathlib
from typing import TYPE_CHECKING

import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.checks.testing import ADDRESSES, MadeUpRun
from tests.pipeline.violations import compare, write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NODES = ("namesrv-1", "broker-a", "broker-a-s", "broker-b", "broker-b-s", "broker-c")


def made_up_run() -> MadeUpRun:
    """Return a run with messages that only brokers whose stores are missing may have."""
    run = MadeUpRun(nodes=NODES)
    run.unread = {"broker-b-s", "broker-b"}
    run.fail(1, broker="broker-b")
    run.send(1, at=())
    run.fail(2, broker="broker-b", outcome="refused")
    run.send(2, at=())
    run.send(3, broker="broker-b", at=())
    run.send(3, broker="broker-c", at=())
    run.send(4, at=())
    run.deliver(4, 0, broker="broker-b", times=1)
    run.deliver(5, 0)
    run.deliver(5, 1, broker="broker-b")
    run.deliver(6, 6)
    run.send(7, "FLUSH_DISK_TIMEOUT", at=())
    run.deliver(7, 7)
    return run


def test_both_count_only_what_no_missing_store_can_have(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    directory = write_run(made_up_run(), tmp_path)
    findings = compare(spark, directory).findings
    lost = findings["lost"]
    assert (lost.value, lost.is_at_least) == (2, True)
    assert judge_directory(directory)["lost"].message_ids == ("ID000002", "ID000007")
    assert {piece.text[:8] for piece in lost.evidence} == {"ID000002", "ID000007"}
    unstored = findings["delivered_unstored"]
    assert {piece.message_ids for piece in unstored.evidence} == {("ID000006",), ("ID000007",)}


@pytest.mark.long
def test_both_give_the_same_reasons_in_the_same_order(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = MadeUpRun(nodes=NODES)
    run.unread = {"broker-b-s", "broker-b", "broker-c"}
    for broker in ("broker-c", "broker-b"):
        run.send(1, broker=broker, at=())
    run.deliver(1, 0, broker="broker-c")
    directory = write_run(run, tmp_path)
    audited, checked = compare(spark, directory).findings, judge_directory(directory)
    for metric in ("lost", "lost.SEND_OK", "delivered_unstored"):
        assert audited[metric].missing == checked[metric].missing
        assert [part[:8] for part in checked[metric].missing.split("; ")[:3]] == ["broker-b", "broker-b", "broker-c"]


def test_both_count_a_message_as_expired_if_all_its_acknowledged_records_are(
    spark: "SparkSession", tmp_path: pathlib.Path
) -> None:
    run = MadeUpRun(nodes=NODES)
    for number in (1, 2, 3):
        run.send(number, broker="broker-b", at=())
        run.send(number, broker="broker-c" if number == 2 else "broker-a", at=())
    run.send(4, at=())
    run.change_last(queue=None)
    run.send(5)
    run.wait(5)
    run.send(6, queue_id=1, at=())
    for node in ("broker-a", "broker-a-s", "broker-b"):
        run.add(node, "file_deleted", file="commitlog/00000000000000000000")
    findings = compare(spark, write_run(run, tmp_path)).findings
    assert (findings["expired"].value, findings["lost"].value) == (2, 3)


@pytest.mark.long
def test_both_know_former_names_and_deliveries_without_an_id(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = MadeUpRun(nodes=("namesrv-1", "broker-a", "broker-b"))
    run.send(1)
    run.fail(2, broker="broker-x")
    for offset in (0, 0):
        run.deliver(1, offset)
        run.change_last(message_id=None)
    run.add("consume-1", "pull_failed", queue="orders@broker-y:0", took=5, held=0)
    run.add("broker-b", "node_ready", broker_name="broker-z", broker_id=0, address=ADDRESSES["broker-b"])
    findings = compare(spark, write_run(run, tmp_path)).findings
    names = {f"{each}_unavailable broker-{letter}" for each in ("read", "write") for letter in "abxyz"}
    assert {metric for metric in findings if "_unavailable broker-" in metric} == names
    for metric in ("duplicates", "delivered_unstored"):
        assert findings[metric].missing == "2 deliveries carry no message id"
