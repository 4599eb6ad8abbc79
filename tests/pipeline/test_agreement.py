"""Every canonical scenario that was played here: the audit of its last run says what the quick checks say.

`make scenarios` plays them, and keeps their stores. What was not played is skipped, and named.
"""

import json
import pathlib
from typing import TYPE_CHECKING

import pytest

from cluster.checks import judge_directory
from cluster.scenario.catalogue import list_scenarios
from pipeline.audit.audit import audit_run
from pipeline.runs import home
from tests.pipeline.test_audit import differences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAYED = [
    pytest.param(listed.scenario.name, profile, id=f"{listed.scenario.name} ({profile})")
    for listed in list_scenarios()
    for profile in ("4.9", "hardened")
    if profile == "4.9" or listed.scenario.hardened is not None
]


def last_run(scenario: str, profile: str) -> pathlib.Path | None:
    """The newest run of a scenario under a profile that was judged."""
    judged = sorted((home() / "runs" / scenario).glob("[0-9]*/verdict.json"), reverse=True)
    return next((path.parent for path in judged if _profile(path.parent) == profile), None)


def _profile(run: pathlib.Path) -> str:
    return str(json.loads((run / "run.json").read_text())["profile"])


@pytest.mark.parametrize(("scenario", "profile"), PLAYED)
def test_the_audit_of_a_scenario_agrees_with_the_quick_checks(
    spark: "SparkSession", tmp_path: pathlib.Path, scenario: str, profile: str
) -> None:
    run = last_run(scenario, profile)
    if run is None:
        pytest.skip(f"{scenario} was not played under {profile} below {home()}: `make scenarios` plays it")
    summary = audit_run(spark, run, tmp_path / "audit")
    assert differences(summary, judge_directory(run)) == {}
