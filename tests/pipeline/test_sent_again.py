"""Both judges count a message that was sent several times once."""

import pathlib
from typing import TYPE_CHECKING

import pytest

from rmqlab.cluster.checks.testing import MadeUpRun
from tests.pipeline.violations import compare, write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_an_acknowledgement_counts_whatever_later_sends_of_the_message_return(
    spark: "SparkSession", tmp_path: pathlib.Path
) -> None:
    run = MadeUpRun(nodes=("namesrv-1", "broker-a", "broker-a-s", "broker-b"))
    run.add("", "cluster_starting", role="SYNC_MASTER", profile="4.9")
    for number, again in enumerate(("refused", "indeterminate", "SEND_OK", "FLUSH_DISK_TIMEOUT")):
        run.send(number, at=())
        run.send(number, again, broker="broker-b", at=())
    run.send(10, at=["broker-a"])
    run.send(10, broker="broker-b")
    run.send(11, "refused", at=["broker-a"])
    run.send(11, "refused")
    findings = compare(spark, write_run(run, tmp_path)).findings
    counted = (
        "lost",
        "lost.SEND_OK",
        "missing broker-a",
        "missing broker-b",
        "unreplicated broker-a",
        "stored.refused",
    )
    assert {metric: findings[metric].value for metric in counted} == dict(zip(counted, (4, 4, 4, 2, 5, 1), strict=True))


@pytest.mark.long
def test_a_message_that_is_stored_twice_is_of_all_brokers_that_acknowledged_it(
    spark: "SparkSession", tmp_path: pathlib.Path
) -> None:
    run = MadeUpRun(nodes=("namesrv-1", "broker-a", "broker-b"))
    run.send(1, broker="broker-b", at=())
    run.send(1)
    run.send(1, queue_id=1)
    twice = compare(spark, write_run(run, tmp_path)).findings["stored_twice"]
    assert [brokers for brokers, part in twice.parts.items() if part.value] == [{"broker-a", "broker-b"}]
