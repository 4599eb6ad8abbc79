"""The audit leaves out stores of no process of the run, as the quick checks do."""

import pathlib
import shutil
from typing import TYPE_CHECKING

import pytest

from rmqlab.pipeline.audit.size import Scale
from rmqlab.pipeline.stores.commitlogs import find_logs
from tests.cluster.plant.smallrun import made_up_run, write_run
from tests.pipeline.violations import compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("scale", [Scale.SMALL, pytest.param(Scale.LARGE, marks=pytest.mark.long)])
def test_both_judges_leave_out_a_copy_of_a_store(spark: "SparkSession", tmp_path: pathlib.Path, scale: Scale) -> None:
    run = made_up_run()
    for copies in run.logs.values():
        copies.pop(0)
    directory = write_run(run, tmp_path / "run")
    whole = write_run(made_up_run(), tmp_path / "whole")
    shutil.copytree(whole / "broker-a" / "store", directory / "broker-a.bak" / "store")
    summary = compare(spark, directory, scale)
    assert summary.findings["lost"].value == 1
    assert "missing broker-a.bak" not in summary.findings
    assert [one for one in summary.judgement.decision.warnings if one.startswith("broker-a.bak/store: ")]


def test_a_copy_of_a_store_does_not_hide_the_stores_of_a_run(tmp_path: pathlib.Path) -> None:
    for directory in ("broker-a/store", "broker-b/store", "backup"):
        (tmp_path / directory / "commitlog").mkdir(parents=True)
    assert [log.node for log in find_logs(tmp_path)] == ["broker-a", "broker-b"]
