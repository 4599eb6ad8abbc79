"""Random faults of a scenario: effect of the seed, and runs on real processes."""

import pathlib
from collections.abc import Sequence

import attrs

from rmqlab.cluster.faults.schedule import RandomFaults, plan_actions
from rmqlab.cluster.scenario.load import parse_scenario
from rmqlab.cluster.scenario.model import Action, Scenario, Step
from rmqlab.cluster.scenario.random_faults import seed_faults
from rmqlab.cluster.scenario.result import Options, Run
from rmqlab.cluster.scenario.run import run_scenario
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalreader import read_journals

BAD_DAY = """\
name = "bad-day"
claim = "what is struck comes back"

[cluster]
slaves = 0
groups = 2
rate = 30

[[step]]
random-faults = { count = 3, every = "30 s", heal_after = "20 s", of = ["kill", "pause", "isolate"] }
label = "bad day"

[[step]]
wait = "over bad day"
mark = "evening"

[[step]]
wait = "ready"

[[expect]]
name = "strikes"
event = "random_fault"
where = { undoes = false }
equals = "3 events"

[[expect]]
name = "comebacks"
event = "random_fault"
where = { undoes = true }
before = "evening"
equals = "3 events"
"""


def drawn(scenario: Scenario, seed: int) -> list[RandomFaults]:
    steps = seed_faults(scenario, seed).steps
    return [step.action.argument for step in steps if step.action and isinstance(step.action.argument, RandomFaults)]


def test_each_seed_and_each_step_has_draws_of_its_own() -> None:
    plain = parse_scenario(BAD_DAY)
    step = plain.steps[0]
    twice = attrs.evolve(plain, steps=(step, Step(at=500, action=step.action)))
    one, other = drawn(twice, 7)
    assert one.seed != other.seed
    assert drawn(twice, 7) == [one, other]
    assert not {faults.seed for faults in drawn(twice, 8)} & {one.seed, other.seed}
    assert seed_faults(attrs.evolve(plain, steps=(Step(action=Action("heal", "all")),)), 7).steps == (
        Step(action=Action("heal", "all")),
    )


async def bad_day(root: pathlib.Path, seed: int) -> tuple[Run, list[JournalEntry]]:
    where = RunDirectory.create("bad-day", root)
    run = await run_scenario(parse_scenario(BAD_DAY), Options(seed=seed), directory=where)
    return run, [entry for entry in read_journals(where.cluster.journal_dir) if entry.kind.startswith("random_fault")]


def plans(entries: Sequence[JournalEntry]) -> list[tuple[object, ...]]:
    """Return action, node and planned time of each fault."""
    keys = ("planned", "action", "target", "undoes", "error")
    return [tuple(entry.fields[key] for key in keys) for entry in entries if entry.kind == "random_fault"]


async def test_a_seed_plays_the_same_faults_again_and_the_journal_lists_them(tmp_path: pathlib.Path) -> None:
    run, events = await bad_day(tmp_path, 7)
    assert run.verdict == "holds", run.reasons()
    (faults,) = drawn(parse_scenario(BAD_DAY), 7)
    planned = list(plan_actions(faults, ["broker-a", "broker-b"]))
    assert events[0].fields["drawn"] == [str(strike) for strike in planned]
    assert (events[0].fields["seed"], events[0].fields["label"]) == (faults.seed, "bad day")
    assert plans(events) == [(round(it.at * 1000), it.action, it.target, it.undoes, None) for it in planned]
    _, again = await bad_day(tmp_path, 7)
    assert plans(again) == plans(events)
