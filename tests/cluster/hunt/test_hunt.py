"""Whole hunts, on simulated clusters."""

import json
import os
import signal
import tomllib
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.cli.output.hunt_progress import shown
from rmqlab.cluster.hunt import trial
from rmqlab.cluster.hunt.case import FIRST_FAULT, LOADS, SHORT, Case, draw_case
from rmqlab.cluster.hunt.claims import CLAIMS
from rmqlab.cluster.hunt.faults import Fault, kinds_for
from rmqlab.cluster.hunt.hunt import Hunt, HuntBudget, Progress
from rmqlab.cluster.hunt.trial import Trial, try_case, try_seed
from rmqlab.cluster.scenario.load import load_scenario
from rmqlab.simulation.child import ChildEndedError, run_in_child
from rmqlab.verdict.findings import NO_COMMIT_DUE

SCENARIOS = Path(__file__).parents[3] / "examples" / "scenarios"
WIPE = Fault("wipe", "broker-a-s", FIRST_FAULT, 1.0)


@pytest.fixture
def command() -> CliRunner:
    return CliRunner()


def test_a_wiped_slave_of_4_9_lacks_the_history_and_a_switch_mends_it() -> None:
    hunt = Hunt(
        claims=("slave-complete",),
        kinds=("wipe",),
        budget=HuntBudget(seeds=1),
        switches=("ha_drop_silent_master", "ha_bootstrap_from_first_byte"),
        is_short=True,
    )
    progress = Progress()

    (failure,) = hunt.run(progress)

    assert (failure.claim, failure.case.faults) == ("slave-complete", (WIPE,))
    assert failure.fixed_by == ("ha_bootstrap_from_first_byte",)
    assert (progress.seeds, progress.unknown, progress.problems) == (1, 0, [])


def test_a_switch_that_fixes_a_flaw_is_on_in_later_schedules() -> None:
    hunt = Hunt(
        claims=("slave-complete",),
        kinds=("wipe",),
        budget=HuntBudget(seeds=3, jobs=1),
        switches=("ha_bootstrap_from_first_byte",),
        is_short=True,
    )

    (failure,) = hunt.run(Progress())
    assert (failure.case.switches, failure.fixed_by) == ((), ("ha_bootstrap_from_first_byte",))
    assert list(attrs.evolve(hunt, on=failure.fixed_by).run(Progress())) == []


def test_a_finding_that_no_fault_can_cause_breaks_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that change on their way are a fault that hunts do not draw for it."""
    case = Case(seed=1, faults=(Fault("corruption", "broker-a", FIRST_FAULT, 20.0),), profile="4.9")
    assert not trial.claims_for(case, ["explained"])
    monkeypatch.setitem(CLAIMS, "explained", attrs.evolve(CLAIMS["explained"], applies=lambda _: True))
    found = run_in_child(lambda: try_case(case, ["explained"]))
    assert list(found.broken) == ["explained"], found


def test_a_power_loss_may_lose_consumed_messages_while_syncs_fail() -> None:
    """Seed 1795855214 of the hardened profile."""
    faults = (
        Fault("failing-sync", "broker-a", FIRST_FAULT, 1.0),
        Fault("power-loss", "broker-a", FIRST_FAULT + 1, 1.0),
    )
    case = Case(seed=1, faults=faults, profile="hardened", flush="SYNC_FLUSH")
    assert not trial.claims_for(case, ["explained"])
    assert trial.claims_for(attrs.evolve(case, faults=faults[1:]), ["explained"])


def test_a_seed_has_the_same_outcome_again() -> None:
    case = draw_case(8, "4.9", ("kill", "pause", "consumer"), is_short=True)
    claims = ("nothing-lost", "same-log", "offsets-advance", "all-consumed", "no-crash")

    assert run_in_child(lambda: try_case(case, claims)) == run_in_child(lambda: try_case(case, claims))


@pytest.mark.parametrize("load", LOADS)
def test_a_load_reaches_the_end_of_its_case(load: str) -> None:
    case = Case(seed=1, load=load, profile="hardened", faults=(Fault("kill", "broker-a", FIRST_FAULT, 5.0),))

    trial = run_in_child(lambda: try_case(case, tuple(CLAIMS)))
    assert (trial.broken, trial.unknown, trial.problem) == ({}, {}, "")


@pytest.mark.parametrize(
    ("name", "seed", "broken"),
    [
        ("corrupt-properties", 1, "divergence broker-a-s"),
        ("last-commits-lost", 4841, "offset_rollbacks"),
        ("delayed-copy-lost", 12472, "all is consumed: reached"),
        ("commits-at-slave", 33818, "duplicates.offset_rollback"),
    ],
)
def test_a_limit_of_the_hardened_profile_is_as_documented(name: str, seed: int, broken: str) -> None:
    """docs/hunt.md names these scenarios.

    How many offsets go back depends on when each commit is sent.
    """
    limit = load_scenario(SCENARIOS.parent / "limits" / f"{name}.toml")

    trial = run_in_child(lambda: try_seed(limit, "hardened", seed))
    assert list(trial.broken) == [broken]


def test_a_run_that_ends_at_a_step_which_timed_out_is_judged_as_a_whole() -> None:
    """Seed 22: no claim is about that step, and each of the others can be judged."""
    case = draw_case(22, "hardened", kinds_for("hardened"), is_short=True)

    trial = run_in_child(lambda: try_case(case, CLAIMS))
    assert (trial.broken, trial.unknown, trial.problem) == ({}, {}, "")


def test_offsets_of_a_consumer_that_ends_at_the_slave_are_with_the_master_soon() -> None:
    """Seed 41232: the next consumer asks the master one second later."""
    faults = (Fault("kill", "broker-a", FIRST_FAULT, 3.0), Fault("consumer", "shop", FIRST_FAULT + 13.0, 1.0))
    case = Case(seed=41232, profile="hardened", flush="SYNC_FLUSH", faults=faults)

    trial = run_in_child(lambda: try_case(case, ("progress-kept", "offsets-advance")))
    assert trial.broken == {}


def test_a_case_that_is_killed_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_memory_directory", lambda: str(tmp_path))
    monkeypatch.setattr(trial, "simulate", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    case = Case(seed=1, faults=(WIPE,))

    with trial.scratch():
        with pytest.raises(ChildEndedError):
            run_in_child(lambda: try_case(case, ("no-crash",)))
        assert len([*tmp_path.glob("*/*")]) == 1
    assert [*tmp_path.iterdir()] == []


def test_an_unknown_broker_setting_is_an_error() -> None:
    case = Case(seed=1, faults=(WIPE,), switches=("no_such_switch",))

    with pytest.raises(Exception, match="no_such_switch"):
        run_in_child(lambda: try_case(case, ("no-crash",)))


def test_the_command_writes_what_breaks_a_claim(command: CliRunner, tmp_path: Path) -> None:
    words = ["hunt", "--claims", "slave-complete", "--faults", "wipe", "--seeds", "1", "--profile", "4.9"]
    words += ["--switches", "ha_check_master", "--no-replay", "--short"]
    done = command.invoke(app, [*words, "--json", "--dir", str(tmp_path)])

    assert done.exit_code == 1
    document = json.loads(done.stdout)
    (failure,) = document["failures"]
    assert (document["schedules"], failure["claim"], failure["on_real_processes"]) == (1, "slave-complete", None)
    scenario = tomllib.loads(Path(failure["file"]).read_text())
    assert any(step.get("wipe") == "broker-a-s" for step in scenario["step"])


def test_role_flush_and_length_can_be_chosen() -> None:
    hunt = Hunt(claims=("no-crash",), kinds=("restart",), is_short=True, role="SYNC_MASTER", flush="SYNC_FLUSH")
    cases = list(hunt.draw(Progress(), []))

    assert {(case.role, case.flush) for case in cases} == {("SYNC_MASTER", "SYNC_FLUSH")}
    assert max(fault.at for case in cases for fault in case.faults) <= FIRST_FAULT + SHORT.span + SHORT.longest


def test_a_claim_that_holds_ends_with_status_0(command: CliRunner, tmp_path: Path) -> None:
    words = ["hunt", "--claims", "no-crash", "--faults", "restart", "--seeds", "1"]

    done = command.invoke(app, [*words, "--dir", str(tmp_path / "none")])

    assert (done.exit_code, "nothing broke" in done.stdout) == (0, True)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--claims", "nothing-los"], "no claim 'nothing-los'; did you mean nothing-lost?"),
        (["--faults", "kil"], "no kind of fault 'kil'; did you mean kill?"),
        (["--switches", "ha_check"], "no switch 'ha_check'; did you mean ha_check_master?"),
        (["--role", "SYNC_MASTR"], "no role 'SYNC_MASTR'; did you mean SYNC_MASTER?"),
        (["--mode", "dledgr"], "no mode 'dledgr'; did you mean dledger?"),
        (
            ["--mode", "dledger", "--claims", "slave-complete"],
            "no claim 'slave-complete'; did you mean members-complete?",
        ),
        (
            ["--mode", "dledger", "--role", "SYNC_MASTER"],
            "--role: a DLedger group elects its master; expected no role with --mode dledger",
        ),
        (["--flush", "NO_FLUSH"], "no flush 'NO_FLUSH'; did you mean SYNC_FLUSH?"),
        (["--profile", "5.0"], "no profile '5.0'; profiles: 4.9, hardened"),
        (["--seeds", "1", "--minutes", "1"], "--seeds and --minutes: expected one of them"),
        (
            ["kill-master", "--faults", "kill"],
            "a scenario has its own cluster, faults and claims: expected no options for them",
        ),
        (["--on", "ha_chek_master"], "no switch 'ha_chek_master'; did you mean ha_check_master?"),
        (
            ["--profile", "hardened", "--on", "ha_check_master"],
            "--on: all switches are on in hardened; expected --profile 4.9",
        ),
    ],
)
def test_bad_input_is_one_line(command: CliRunner, words: list[str], text: str) -> None:
    done = command.invoke(app, ["hunt", *words])

    assert (done.exit_code, done.stderr) == (2, f"rmqlab: {text}\n")


def test_a_scenario_is_played_with_many_seeds(command: CliRunner, tmp_path: Path) -> None:
    done = command.invoke(app, ["hunt", "sync-slave-killed", "--seeds", "2", "--json"])

    assert (done.exit_code, json.loads(done.stdout)["schedules"]) == (0, 2)

    never = tmp_path / "never.toml"
    text = (SCENARIOS / "05-sync-slave-killed.toml").read_text()
    never.write_text(text + '\n[[expect]]\nmetric = "sent"\nequals = "0 messages"\n')
    done = command.invoke(app, ["hunt", str(never), "--seeds", "1", "--first-seed", "7"])

    assert done.exit_code == 1
    assert f"rmqlab run {never} --simulated --seed 7 --profile 4.9" in done.stdout


def test_claims_and_faults_are_listed(command: CliRunner) -> None:
    done = command.invoke(app, ["hunt", "--list"])

    assert done.exit_code == 0
    assert "nothing-lost" in done.stdout
    assert "power-loss" in done.stdout


def test_a_claim_about_nothing_is_not_undecided_and_the_reason_of_others_is_reported() -> None:
    claim = CLAIMS["offsets-saved"]
    assert trial._is_empty(claim, f"unknown: {NO_COMMIT_DUE}")
    assert not trial._is_empty(claim, "unknown: consumerOffset.json could not be read")
    assert not trial._is_empty(CLAIMS["nothing-lost"], "unknown: a journal is missing")
    progress = Progress()
    progress.count(7, Trial(unknown={"nothing-lost": "unknown: a journal is missing"}))
    assert (progress.unknown, progress.problems) == (1, ["seed 7: nothing-lost: unknown: a journal is missing"])
    assert progress.exit_status(is_broken=False) == 2


def test_sigterm_ends_a_hunt_as_ctrl_c_does() -> None:
    progress, budget = Progress(), HuntBudget(seeds=1000)
    with shown(progress, budget, as_json=True):
        signal.raise_signal(signal.SIGTERM)
    assert progress.problems == ["interrupted"]
