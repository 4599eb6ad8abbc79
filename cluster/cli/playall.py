"""Plays many scenarios, several at a time, each in its own process."""

import collections
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import trio

from rmqlab.cluster.cli.output.line_output import LineOutput
from rmqlab.cluster.scenario.catalogue import Listed
from rmqlab.cluster.supervisor.fork.ownmodules import module_command
from rmqlab.cluster.supervisor.plan.topology import PROFILES

SLOWER = 4
"""A run that a busy machine disturbed is repeated at a rate divided by this."""
MAX_RETRIED = 5
"""Maximum number of runs that `retry` repeats; more failures have a common cause."""


@attrs.frozen(eq=False)
class PlannedRun:
    """A scenario under one profile."""

    listed: Listed
    profile: str

    @property
    def title(self) -> str:
        return f"{self.listed.scenario.name} ({self.profile})"

    def line(self, done: dict[str, Any], note: str = "") -> str:
        """Return a line of progress: verdict, seconds, and the reason of a repetition."""
        rate = f"; {note}: at rate {done.get('rate', 1):g}" if note else ""
        return f"{done['verdict']:9} {done['seconds']:6.1f} s  {self.listed.scenario.name} ({self.profile}{rate})"


@attrs.define(eq=False)
class PlayAll:
    """The runs of a list of scenarios, and their documents as in `rmqlab run --json`."""

    runs: Sequence[PlannedRun]
    output: LineOutput
    options: Sequence[str] = ()
    """Further options of `rmqlab run`."""
    playing: list[str] = attrs.field(factory=list, init=False)
    """Titles of the runs under way."""
    documents: dict[PlannedRun, dict[str, Any]] = attrs.field(factory=dict, init=False)
    flaky: list[PlannedRun] = attrs.field(factory=list, init=False)
    """Runs that failed beside others and held alone."""

    @classmethod
    def of(cls, listed: Sequence[Listed], output: LineOutput, options: Sequence[str], *, both: bool) -> "PlayAll":
        """Plan every scenario under 4.9.

        Those whose outcome differs run under hardened as well; with `both`, all do.
        """
        runs = [
            PlannedRun(it, profile)
            for it in listed
            for profile in PROFILES
            if profile == "4.9" or both or it.scenario.differs_hardened
        ]
        return cls(runs, output, options)

    async def play(self, jobs: int) -> None:
        """Play all, `jobs` at a time."""
        free = trio.Semaphore(jobs)

        async def one(run: PlannedRun) -> None:
            async with free:
                await self._play_patiently(run)

        async with trio.open_nursery() as nursery:
            for run in self.runs:
                nursery.start_soon(one, run)

    async def retry(self) -> None:
        """Repeat failed runs, each alone, unless they are more than MAX_RETRIED."""
        failed = [run for run in self.runs if self.documents[run]["verdict"] != "holds"]
        if len(failed) > MAX_RETRIED:
            return
        for run in failed:
            done = await self._play(run, note="again, alone")
            if done["verdict"] == "holds":
                self.flaky.append(run)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each scenario: its name, and its documents by profile."""
        rows: dict[Path, dict[str, Any]] = {}
        for run in self.runs:
            row = rows.setdefault(run.listed.path, {"scenario": run.listed.scenario.name})
            row[run.profile] = self.documents[run]
        return [*rows.values()]

    def verdicts(self) -> collections.Counter[str]:
        return collections.Counter(document["verdict"] for document in self.documents.values())

    def closing_lines(self) -> list[str]:
        """Return the lines that CI reads."""
        held = self.verdicts()["holds"]
        return [
            *(f"FLAKY {run.title}" for run in self.flaky),
            f"scenarios: {held} passed, {len(self.runs) - held} failed, 0 skipped",
        ]

    async def _play_patiently(self, run: PlannedRun) -> None:
        done = await self._play(run)
        if done["verdict"] != "holds" and done.get("is_disturbed") and done["rate"] > 1:
            slower = max(done["rate"] / SLOWER, 1.0)
            await self._play(run, "--rate", f"{slower:g}", note="played again: the machine had stalled")

    async def _play(self, run: PlannedRun, *options: str, note: str = "") -> dict[str, Any]:
        self.playing.append(run.title)
        done = await run_subprocess(run.listed.path, run.profile, [*self.options, *options])
        self.playing.remove(run.title)
        self.output.line(run.line(done, note))
        self.documents[run] = done
        return done


async def run_subprocess(path: Path, profile: str, more: Sequence[str]) -> dict[str, Any]:
    """Run a scenario in its own process.

    Return its JSON document, or one with the verdict unknown and the reason.
    """
    command = module_command("rmqlab.cluster", "run", str(path), "--profile", profile, "--json", *more)
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        text = done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}"
        reason = text.splitlines()[-1].removeprefix("rmqlab: ")
        return {"verdict": "unknown", "seconds": 0.0, "expectations": [], "missing": [reason]}
    return document
