"""Both judges agree about messages that were not committed."""

from pathlib import Path
from typing import TYPE_CHECKING

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.checks.events import Queue
from rmqlab.pipeline.audit.audit import audit_run
from rmqlab.remoting.names import SCHEDULE_TOPIC
from tests.cluster.plant.smallrun import ALL_SENDS, made_up_run, write_run
from tests.pipeline.violations import differences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_both_judges_agree_about_messages_that_were_not_committed(spark: "SparkSession", tmp_path: Path) -> None:
    run = made_up_run()
    first, asked, undelayed = (f"ID{number:06}" for number in range(ALL_SENDS - 3, ALL_SENDS))
    for message_id in (first, asked):
        run.store(message_id, Queue("payments", "broker-a", 0), run.logs)
    run.store(undelayed, Queue(SCHEDULE_TOPIC, "broker-a", 0), run.logs)  # delayed for another topic
    run.add("produce-1", "transaction_asked", message_id=asked, topic="payments")
    directory = write_run(run, tmp_path / "run")

    summary = audit_run(spark, directory)
    assert summary.findings["stored_uncommitted"].value == 1
    assert first in summary.findings["stored_uncommitted"].evidence[0].text
    assert differences(summary, judge_directory(directory)) == {}
