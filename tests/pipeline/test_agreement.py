"""The audit of each canonical scenario's last run agrees with the quick checks.

`make scenarios` plays them all, and keeps their stores. A scenario without such a run is played here.
"""

import json
import pathlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.scenario.catalogue import list_scenarios
from rmqlab.pipeline.audit.audit import audit_run
from rmqlab.verdict.runs import home
from tests.pipeline.violations import differences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORE = {
    ("kill-master", "4.9"),
    ("offset-rollback", "hardened"),
}
"""A death and a rollback. Each takes CI some 15 s."""


RUNS = [
    pytest.param(
        listed.scenario.name,
        profile,
        id=f"{listed.scenario.name} ({profile})",
        marks=[] if (listed.scenario.name, profile) in CORE else pytest.mark.long,
    )
    for listed in list_scenarios()
    for profile in (("4.9", "hardened") if listed.scenario.differs_hardened else ("4.9",))
]
"""What `make scenarios` plays: name and profile."""


def last_run(scenario: str, profile: str) -> pathlib.Path | None:
    """Return the latest judged run of a scenario and profile with its stores."""
    judged = sorted((home() / "runs" / scenario).glob("[0-9]*/verdict.json"), reverse=True)
    return next((path.parent for path in judged if _profile(path.parent) == profile and _has_stores(path.parent)), None)


def _profile(run: pathlib.Path) -> str:
    return str(json.loads((run / "run.json").read_text())["profile"])


def _has_stores(run: pathlib.Path) -> bool:
    return any(run.glob("*/store"))


def play(scenario: str, profile: str) -> pathlib.Path:
    """Play a scenario and return its run; both judges must agree on any verdict."""
    options = ["--profile", profile, "--keep-stores", "--json"]
    program = [sys.executable, "-m", "rmqlab.cluster", "run", scenario, *options]
    done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=600)
    run = last_run(scenario, profile)
    assert run is not None, (done.returncode, done.stdout, done.stderr)
    return run


def test_the_core_is_part_of_what_is_played() -> None:
    assert {param.values for param in RUNS} >= CORE


@pytest.mark.parametrize(("scenario", "profile"), RUNS)
def test_the_audit_of_a_scenario_agrees_with_the_quick_checks(
    spark: "SparkSession", tmp_path: pathlib.Path, scenario: str, profile: str
) -> None:
    run = last_run(scenario, profile) or play(scenario, profile)
    summary = audit_run(spark, run, tmp_path / "audit")
    assert differences(summary, judge_directory(run)) == {}
