"""Plays one case on a simulated machine, and returns the claims that it breaks."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from rmqlab.cluster.hunt.case import Case
from rmqlab.cluster.hunt.casefile import scenario_of
from rmqlab.cluster.hunt.claim import Claim
from rmqlab.cluster.hunt.groupclaims import claims_in
from rmqlab.cluster.scenario.binding import bind_scenario
from rmqlab.cluster.scenario.evidence import step_that_timed_out
from rmqlab.cluster.scenario.model import Scenario
from rmqlab.cluster.scenario.result import Options, Run
from rmqlab.cluster.scenario.run import run_scenario
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.cluster.simulation.host import simulate
from rmqlab.cluster.supervisor.host import Host
from rmqlab.runtime.journals.journalfiles import SUPERVISOR
from rmqlab.runtime.journals.journalreader import read_journal
from rmqlab.verdict.verdict import Verdict

NAME = "hunted"


_scratch: Path | None = None
"""Directory of all cases, while `scratch` is open."""


@contextlib.contextmanager
def scratch() -> Iterator[None]:
    """Provide a directory for the cases of the block, and delete it at the end."""
    global _scratch  # noqa: PLW0603 -- processes are forked in between
    directory = _scratch = Path(tempfile.mkdtemp(prefix="rmqlab-hunt-", dir=_memory_directory()))
    try:
        yield
    finally:
        _scratch = None
        shutil.rmtree(directory, ignore_errors=True)


class _NoResultFiles(RunDirectory):
    """A run directory that writes no result files: writing takes longer than judging."""

    def write_json(self, name: str, document: Mapping[str, Any]) -> None:
        """Do nothing."""

    def write_text(self, name: str, text: str) -> None:
        """Do nothing."""


@attrs.frozen(kw_only=True)
class Trial:
    """The result of a case."""

    broken: Mapping[str, str] = attrs.field(factory=dict)
    """Broken claims: the finding by name of the claim."""
    unknown: Mapping[str, str] = attrs.field(factory=dict)
    """Undecided claims: the reason by name of the claim."""
    problem: str = ""
    """Why the case could not be played; empty if it could."""
    seconds: float = 0.0
    """Virtual time."""


MOST_CPU_SECONDS = 30
"""Maximum processor time of a case: 15 times the longest case on an idle machine, 5 times on a busy one."""


def timed_out(names: Iterable[str]) -> Trial:
    """Return the result of a case that used MOST_CPU_SECONDS."""
    found = f"a process still computes after {MOST_CPU_SECONDS} s of processor time"
    return Trial(broken={"no-crash": found}) if "no-crash" in names else Trial(problem=found)


def claims_for(case: Case, names: Iterable[str]) -> list[Claim]:
    """Return the claims of these names that apply to a case."""
    claims = claims_in(case.mode)
    return [claims[name] for name in names if claims[name].applies(case)]


def bind_case(case: Case, claims: Sequence[Claim]) -> Scenario:
    """Return the case as a scenario that expects these claims."""
    text = "; ".join(claim.text for claim in claims) or "the steps can be played"
    expectations = [expectation for claim in claims for expectation in claim.expectations_for(case)]
    return bind_scenario(scenario_of(case, expectations, name=NAME, claim=text))


def try_case(case: Case, names: Iterable[str]) -> Trial:
    """Play a case in this process. Call it in a child: it changes global state."""
    claims = claims_for(case, names)
    options = Options(profile=case.profile, seed=case.seed, keeps_stores=True, accepts_time_outs=True)
    return _simulated(bind_case(case, claims), options, lambda run: _judge(run, case, claims))


def try_seed(scenario: Scenario, profile: str, seed: int) -> Trial:
    """As `try_case`: play a scenario with a seed."""
    options = Options(profile=profile, seed=seed, keeps_stores=True, accepts_time_outs=True)
    return _simulated(scenario, options, _judge_expectations)


def _simulated(scenario: Scenario, options: Options, judge: Callable[[Run], Trial]) -> Trial:
    """Play a scenario in a directory that is deleted afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="rmqlab-hunt-", dir=_scratch or _memory_directory()))

    async def play(host: Host) -> Run:
        return await run_scenario(scenario, options, directory=_NoResultFiles(directory), host=host)

    try:
        return judge(simulate(str(options.seed), play))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _judge_expectations(run: Run) -> Trial:
    return Trial(
        broken={one.expectation.title: one.found for one in run.judged if one.verdict is Verdict.VIOLATED},
        unknown={one.expectation.title: one.found for one in run.judged if one.verdict is Verdict.UNKNOWN},
        problem="; ".join(run.missing),
        seconds=run.seconds,
    )


def _judge(run: Run, case: Case, claims: Sequence[Claim]) -> Trial:
    reached = {
        str(entry.fields["label"])
        for entry in read_journal(run.directory.cluster.journal_path(SUPERVISOR))
        if entry.kind == "step"
    }
    if (problem := _problem(run)) != "":
        return Trial(problem=problem, seconds=run.seconds)
    asked = [claim for claim in claims for _ in claim.expectations_for(case)]
    judged = [
        (claim, found)
        for claim, found in zip(asked, run.judged, strict=True)
        if not claim.since or claim.since in reached
    ]
    return Trial(
        broken={claim.name: found.found for claim, found in judged if found.verdict is Verdict.VIOLATED},
        unknown={
            claim.name: found.found
            for claim, found in judged
            if found.verdict is Verdict.UNKNOWN and not _is_empty(claim, found.found)
        },
        seconds=run.seconds,
    )


def _is_empty(claim: Claim, found: str) -> bool:
    return bool(claim.empty_reason) and claim.empty_reason in found


def _problem(run: Run) -> str:
    """Return why a run ended early.

    A wait that times out is not an error of the trial: claims check it.
    """
    return next((text for text in run.missing if step_that_timed_out(run.scenario, text) is None), "")


def _memory_directory() -> str | None:
    """Return a directory in memory, where files need no disk; None for the usual one."""
    directory = Path("/dev/shm")  # noqa: S108 -- a private directory is created in it
    return str(directory) if directory.is_dir() else None
