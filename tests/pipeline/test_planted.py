"""The audit of planted runs agrees with the quick checks and the declarations.

All kinds at all places: `make planted`.
"""

import pathlib
from typing import TYPE_CHECKING

import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.plant.kinds import KINDS
from rmqlab.cluster.plant.planting import plant
from rmqlab.pipeline.audit.audit import audit_run
from tests.cluster.plant.smallrun import made_up_run, write_run
from tests.pipeline.violations import differences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIED = ("queue-entry-wrong", "own-offset-overwritten", "queues-deleted", "index-missing", "delivery-forged", "offsets-forward", "topic-gone",
         "group-gone", "delay-offset-back", "delay-offset-forward", "sys-flag-changed-both", "store-host-changed-both",
         "reconsume-times-changed-both", "prepared-offset-changed-both", "delivered-early-both",
         "store-time-changed-both", "delayed-skipped", "half-skipped",
         "rolled-back-stored", "entered-early-both")  # fmt: skip
"""A kind for each metric of headers, and of the files derived from a log."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return write_run(made_up_run(), tmp_path_factory.mktemp("planted") / "run")


@pytest.mark.parametrize("name", [TRIED[0], *(pytest.param(name, marks=pytest.mark.long) for name in TRIED[1:])])
def test_both_judges_agree_on_a_planted_run(
    spark: "SparkSession", run: pathlib.Path, tmp_path: pathlib.Path, name: str
) -> None:
    planted = plant(run, KINDS[name], tmp_path / "copy")
    summary = audit_run(spark, tmp_path / "copy")
    assert all(summary.findings[report.metric].value for report in planted.reports)
    assert differences(summary, judge_directory(tmp_path / "copy")) == {}
