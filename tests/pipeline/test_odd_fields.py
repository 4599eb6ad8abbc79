"""Odd values in journals: the audit has the gaps of the quick checks."""

import itertools
import pathlib
from typing import TYPE_CHECKING

import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.pipeline.audit.audit import audit_run
from rmqlab.verdict.verdict import Verdict
from tests.cluster.checks.oddfields import VALUES, add_entries, odd_entries
from tests.cluster.checks.oddnames import named_entries
from tests.cluster.plant.smallrun import made_up_run, write_run
from tests.pipeline.violations import compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_any_value_in_any_field_is_audited(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = write_run(made_up_run(), tmp_path / "run")
    add_entries(run, itertools.chain.from_iterable(map(odd_entries, VALUES)))
    summary, quick = audit_run(spark, run), judge_directory(run)
    assert summary.verdict is quick.verdict is not Verdict.HOLDS
    assert summary.judgement.conditions == quick.conditions


@pytest.mark.long
def test_any_name_is_audited(spark: "SparkSession", tmp_path: pathlib.Path) -> None:
    run = write_run(made_up_run(), tmp_path / "run")
    add_entries(run, named_entries())
    summary = compare(spark, run)
    assert summary.findings.keys() == judge_directory(run).by_metric.keys()
