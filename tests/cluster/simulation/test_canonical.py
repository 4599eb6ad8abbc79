"""Every canonical scenario holds on a simulated machine (issue 17)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqlab.cluster.scenario.catalogue import list_scenarios
from rmqlab.cluster.scenario.model import Scenario
from rmqlab.cluster.scenario.result import Options
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.cluster.simulation.play import play_simulated
from rmqlab.verdict.verdict import Verdict

pytestmark = pytest.mark.timeout(400)  # up to 5 s of processor time: long on a busy machine

SLOW = {"random-faults", "dledger-isolated-leader", "dledger-random-faults"}
"""Scenarios of more than 5 s of processor time each."""


def runs() -> Iterator[Any]:
    """Each scenario under 4.9, and under hardened where that differs."""
    for listed in list_scenarios():
        scenario = listed.scenario
        marks = [pytest.mark.simulated] if scenario.name in SLOW else []
        for profile in ("4.9", "hardened") if scenario.differs_hardened else ("4.9",):
            yield pytest.param(scenario, profile, id=f"{scenario.name}-{profile}", marks=marks)


@pytest.mark.parametrize(("scenario", "profile"), list(runs()))
def test_it_holds(tmp_path: Path, scenario: Scenario, profile: str) -> None:
    run = play_simulated(scenario, Options(profile=profile, seed=1), directory=RunDirectory(tmp_path))
    assert (run.verdict, run.reasons()) == (Verdict.HOLDS, [])
