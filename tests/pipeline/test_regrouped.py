"""The audit judges all groups of a consumer, as the quick checks do."""

import pathlib
from typing import TYPE_CHECKING

import pytest

from tests.cluster.checks.test_doubts import regrouped_run
from tests.pipeline.violations import compare, write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
def test_both_judges_know_all_groups_of_a_consumer(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    findings = compare(spark, write_run(regrouped_run(), tmp_path / "run")).findings
    assert findings["offset_rollbacks early"].missing.startswith("the clock of consume-1")
    assert findings["offset_rollbacks late"].missing.startswith("the clock of consume-1")
