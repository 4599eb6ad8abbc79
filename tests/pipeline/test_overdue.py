"""The audit counts overdue messages as the quick checks do."""

import pathlib
from typing import TYPE_CHECKING

import pytest

from tests.cluster.checks.heldruns import HELD_RUNS
from tests.pipeline.violations import compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORE = {"delayed and passed by", "half, checked and rolled back"}


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[] if one in CORE else pytest.mark.long) for one in HELD_RUNS]
)
def test_both_judges_count_overdue_messages(spark: "SparkSession", tmp_path: pathlib.Path, name: str) -> None:
    held = HELD_RUNS[name]
    found = compare(spark, held.write(tmp_path / "run")).findings["overdue"]
    assert found.value == held.value
    assert held.words in (found.missing or "".join(piece.text for piece in found.evidence))
