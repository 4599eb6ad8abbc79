"""Odd but legal runs, on simulated machines: no judge finds anything wrong."""

from pathlib import Path

import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.scenario.load import load_scenario
from rmqlab.cluster.scenario.result import Options
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.cluster.simulation.play import play_simulated
from rmqlab.verdict.verdict import Verdict

ODD = Path(__file__).parent / "odd"
EXPLAINED = ("order.delivered", "stored_twice", "offset_rollbacks", "unqueued broker-a-s")
"""Warnings of concurrent consumers, of clients that retry, of a reset, and of the queues that RocketMQ leaves a slave."""


@pytest.mark.parametrize("path", sorted(ODD.glob("*.toml")), ids=lambda path: path.stem)
def test_an_odd_but_legal_run_holds_without_unexplained_warnings(tmp_path: Path, path: Path) -> None:
    options = Options(seed=1, keeps_stores=True)
    run = play_simulated(load_scenario(path), options, directory=RunDirectory(tmp_path))
    assert run.verdict is Verdict.HOLDS, run.reasons()
    judged = judge_directory(tmp_path)
    assert judged.verdict is Verdict.HOLDS, judged.decision.why
    assert [line for line in judged.decision.warnings if not line.startswith(EXPLAINED)] == []
