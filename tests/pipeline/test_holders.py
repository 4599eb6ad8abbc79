"""Both judges agree about holders of queues, and commits beyond their ends."""

from pathlib import Path
from typing import TYPE_CHECKING

from rmqlab.cluster.checks import judge_directory
from rmqlab.pipeline.audit.audit import audit_run
from tests.cluster.checks.test_holders import CONSUMERS, assign, go_on, run_of_two
from tests.pipeline.violations import differences, write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rmqlab.cluster.checks.testing import MadeUpRun

UNHELD, UNDER_WAY, RELEASED, RETRIED, SHARED, AGAIN = range(6)
"""Queues, each with a message of the same number."""
EXPECTED = {"redelivery": 2, "rebalance": 6, "unexplained": 3, "offset_rollback": 1, "client_retry": 0}


def deliver_to_both(run: "MadeUpRun", queue: int, times: int = 0) -> None:
    for node in CONSUMERS:
        run.deliver(queue, 0, node, queue_id=queue, times=times)


def odd_run() -> "MadeUpRun":
    """One duplicate of each kind of queue."""
    run = run_of_two([UNHELD, RELEASED, RETRIED, SHARED, AGAIN], [RELEASED, RETRIED, SHARED])
    for queue in (UNDER_WAY, RELEASED, RETRIED, SHARED, AGAIN):
        run.send(queue, queue_id=queue)
    deliver_to_both(run, UNHELD)
    assign(run, "consume-2", removed=[RELEASED])
    deliver_to_both(run, RELEASED)
    deliver_to_both(run, UNDER_WAY)
    assign(run, "consume-1", [UNDER_WAY])
    assign(run, "consume-2", [UNDER_WAY])
    assign(run, "consume-1", [AGAIN], removed=[AGAIN])
    for _ in range(2):
        run.deliver(AGAIN, 0, queue_id=AGAIN)
    for times in (0, 1, 2, 2):
        run.deliver(RETRIED, 0, queue_id=RETRIED, times=times)
    assign(run, "consume-2", [RETRIED], topic="%RETRY%shop")
    run.deliver(RETRIED, 0, "consume-2", queue_id=RETRIED, times=2)
    run.add("broker-a-s", "consumer_offsets_overwritten", key="%RETRY%shop@shop", queues={RETRIED: [5, 0]})
    run.deliver(RETRIED, 0, "consume-2", queue_id=RETRIED, times=2)
    run.commit(700, queue_id=9)
    deliver_to_both(run, SHARED)
    run.wait(200)
    run.deliver(SHARED, 0, queue_id=SHARED)
    run.commit(1, queue_id=SHARED)
    run.deliver(SHARED, 0, "consume-2", queue_id=SHARED)
    go_on(run)
    return run


def test_both_judges_agree_about_holders_of_queues(spark: "SparkSession", tmp_path: Path) -> None:
    directory = write_run(odd_run(), tmp_path / "run")
    summary, quick = audit_run(spark, directory), judge_directory(directory)
    found = odd_run().judge()
    assert {cause: found[f"duplicates.{cause}"].value for cause in EXPECTED} == EXPECTED
    assert differences(summary, quick) == {}
    far = [line for line in quick.decision.warnings if "the queue ends at" in line]
    assert far == ["consume-1: shop committed offset 700 in orders@broker-a:9, and the queue ends at 0"]
    assert far == [line for line in summary.judgement.decision.warnings if "the queue ends at" in line]
