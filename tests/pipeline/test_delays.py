"""The audit counts delivered records of delay levels as the quick checks do."""

import pathlib
from typing import TYPE_CHECKING

import pytest

from tests.cluster.checks.test_tablefiles import store_delayed
from tests.cluster.plant.smallrun import made_up_run, write_run
from tests.pipeline.violations import compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_LEVELS: dict[str, list[tuple[int, float]]] = {
    "ID999991": [(3, 10), (2, 10), (2, 10), (0, 10), (0, 1)],
    "ID999992": [(4, 10), (3, 10), (0, 10)],
    "ID999993": [(5, 10), (5, 9.5), (0, 0.5), (0, 0.2)],
    "ID999994": [(6, 10), (6, 10), (6, 10), (0, 10), (0, 1)],
}


@pytest.mark.long
def test_both_judges_count_records_of_several_delay_levels(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = made_up_run()
    for message_id, steps in OF_LEVELS.items():
        store_delayed(run, message_id, *steps)
    summary = compare(spark, write_run(run, tmp_path / "run"))
    found = summary.findings["delay_offset_behind broker-a"]
    assert [one.text.partition(":")[0] for one in found.evidence] == ["level 2", "level 5", "level 6"]
    assert found.value == 2
