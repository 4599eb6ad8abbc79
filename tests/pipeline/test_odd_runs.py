"""The audit of odd but legal runs agrees with the quick checks."""

import pathlib
from typing import TYPE_CHECKING

import pytest

from rmqlab.cluster.scenario.load import load_scenario
from rmqlab.cluster.scenario.result import Options
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.cluster.simulation.play import play_simulated
from tests.cluster.checks.test_odd_runs import ODD
from tests.pipeline.violations import compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIED = ("clock-back.toml",)
LONG = [str(path.relative_to(ODD)) for path in sorted(ODD.rglob("*.toml")) if str(path.relative_to(ODD)) not in TRIED]


@pytest.mark.parametrize("name", [*TRIED, *(pytest.param(name, marks=pytest.mark.long) for name in LONG)])
def test_both_judges_agree_on_an_odd_run(spark: "SparkSession", tmp_path: pathlib.Path, name: str) -> None:
    run = RunDirectory(tmp_path)
    play_simulated(load_scenario(ODD / name), Options(seed=1, keeps_stores=True), directory=run)
    compare(spark, tmp_path)
