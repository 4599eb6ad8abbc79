"""Both judges list the same records of a message with too many to list all."""

import pathlib
from typing import TYPE_CHECKING

import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.verdict.findings import PLACES_LIMIT
from tests.cluster.checks.manyrecords import METRIC, many_records
from tests.pipeline.violations import compare, write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
def test_both_judges_list_the_same_records(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = many_records()
    summary = compare(spark, write_run(run, tmp_path))
    (found,), (quick,) = summary.findings[METRIC].evidence, judge_directory(tmp_path)[METRIC].evidence
    assert found.text == quick.text
    assert found.text.count(" at commit log offset ") == PLACES_LIMIT
