"""The audit names single records with other store times as the quick checks do."""

import pathlib
from typing import TYPE_CHECKING

import attrs
import pytest

from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.testing import SOME_DAY
from tests.cluster.plant.smallrun import made_up_run, write_run
from tests.pipeline.violations import compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3_600_000


@pytest.mark.long
def test_both_judges_name_the_record_of_this_run(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    """A record of an earlier run has another store time, too.

    No clock is blamed, also not in the table of bounds.
    """
    run = made_up_run()
    for node, log in run.logs.items():
        log[9] = attrs.evolve(log[9], stored_at=log[9].stored_at - 60_000)
        times = [SOME_DAY - HOUR + 1000 * nth - (60_000 if nth == 2 else 0) for nth in range(5)]
        queue = Queue("old", "broker-a", 0)
        old = [attrs.evolve(log[0], message_id=f"OLD{nth}", queue=queue, stored_at=at) for nth, at in enumerate(times)]
        run.logs[node] = [*old, *log]
    directory = write_run(run, tmp_path / "run")
    summary = compare(spark, directory)
    found = summary.findings["store_time_disagreement"]
    assert [one.message_ids for one in found.evidence] == [("ID000009",)]
    assert not any(one.value for name, one in summary.findings.items() if name.startswith("clock_disagreement"))
    tables = directory / "audit"
    assert [row.message_id for row in spark.read.parquet(str(tables / "misdated_records")).collect()] == [
        "ID000009"
    ] * 2
    assert all(row.millis <= 1000 for row in spark.read.parquet(str(tables / "clock_bounds")).collect())
