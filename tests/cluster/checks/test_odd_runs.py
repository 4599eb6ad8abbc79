"""Odd but legal runs, on simulated machines: no judge finds anything wrong."""

from pathlib import Path

import attrs
import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.checks.testing import ADDRESSES
from rmqlab.cluster.scenario.load import load_scenario
from rmqlab.cluster.scenario.result import Options
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.cluster.simulation.play import play_simulated
from rmqlab.verdict.judgement import Judgement
from rmqlab.verdict.verdict import Verdict
from tests.cluster.plant.smallrun import made_up_run, write_run

ODD = Path(__file__).parent / "odd"
EXPLAINED = (
    "order.delivered",
    "stored_twice",
    "offset_rollbacks",
    "unqueued broker-a-s",
    "clock_disagreement broker-a:",
)
"""Warnings of concurrent consumers, of clients that retry, of a reset, of the queues that RocketMQ leaves a slave, and
of the clock that a fault set back."""


def play(path: Path, directory: Path) -> Judgement:
    """Play a scenario, whose own claim holds; return what the quick checks say."""
    options = Options(seed=1, keeps_stores=True)
    run = play_simulated(load_scenario(path), options, directory=RunDirectory(directory))
    assert run.verdict is Verdict.HOLDS, run.reasons()
    return judge_directory(directory)


@pytest.mark.parametrize("path", sorted(ODD.glob("*.toml")), ids=lambda path: path.stem)
def test_an_odd_but_legal_run_holds_without_unexplained_warnings(tmp_path: Path, path: Path) -> None:
    judged = play(path, tmp_path)
    assert judged.verdict is Verdict.HOLDS, judged.decision.why
    assert [line for line in judged.decision.warnings if not line.startswith(EXPLAINED)] == []


def test_a_run_in_which_nothing_was_sent_is_unknown_for_this_reason_alone(tmp_path: Path) -> None:
    decision = play(ODD / "unknown" / "nothing-sent.toml", tmp_path).decision
    assert decision.why == ("lost: no workload of the journal sent anything",)
    assert decision.warnings == ()


def test_the_end_of_a_supervisor_that_was_killed_is_no_finding(tmp_path: Path) -> None:
    """The nodes notice it and end in good order by themselves; nobody records that."""
    run = made_up_run()
    at = next(entry.at_millis for entry in run.entries if entry.kind == "cluster_stopping")
    run.entries = [entry for entry in run.entries if entry.at_millis < at]
    judged = judge_directory(write_run(run, tmp_path / "run"))
    assert [finding.metric for finding in judged if finding.value and not finding.metric.startswith("sent")] == []
    assert judged.verdict is not Verdict.VIOLATED


def test_a_broker_may_have_another_name_in_its_next_life(tmp_path: Path) -> None:
    run = made_up_run()
    begin = next(place for place, entry in enumerate(run.entries) if entry.kind == "cluster_stopping")
    closing, run.entries = run.entries[begin:], run.entries[:begin]
    for node, broker_id in (("broker-a", 0), ("broker-a-s", 1)):
        run.end(node, "stop", "node_stopped")
        run.drop("namesrv-1", node)
        named = {"broker_name": "broker-z", "broker_id": broker_id, "address": ADDRESSES[node]}
        run.add("namesrv-1", "broker_registered", **named)
        run.add(node, "node_ready", **named)
    run.wait(40)
    run.entries += [attrs.evolve(entry, at_millis=run.now) for entry in closing]
    judged = judge_directory(write_run(run, tmp_path / "run"))
    assert judged.verdict is Verdict.HOLDS, judged.decision.why
    assert [line for line in judged.decision.warnings if "role and profile" not in line] == []
