"""Writes the directory of a run of a scenario, and judges the run."""

import math
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import attrs
import cattrs

import rmqlab
from rmqlab.cluster.checks import judge_run
from rmqlab.cluster.scenario.evidence import as_far_as_seen, step_that_timed_out
from rmqlab.cluster.scenario.history import history_lines
from rmqlab.cluster.scenario.judge import Allowance, judge_expectation
from rmqlab.cluster.scenario.model import Expectation, Scenario
from rmqlab.cluster.scenario.observation import labels_of, observe
from rmqlab.cluster.scenario.resources import Resources
from rmqlab.cluster.scenario.result import Options, Run
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.cluster.supervisor.plan.topology import brokers_of_run
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalreader import merge_entries
from rmqlab.runtime.journals.journalsurvey import survey_journals
from rmqlab.verdict.findings import Finding, Findings, unknown
from rmqlab.verdict.judgement import Judgement
from rmqlab.verdict.runrecord import read_record
from rmqlab.verdict.verdict import Verdict

ALLOWED_SECONDS = 0.1
"""Real seconds that anything may take on an idle machine: a process start, a sync to disk or a read of the journals
(each 0.1 s), and a few turns of several processes on two cores. The longest standstill of this machine is added."""
ROUNDED_SECONDS = 0.002
"""Real seconds by which a timer may be early, or a time in whole milliseconds too short."""


@attrs.frozen
class RunRecord:
    """Writes the files of a run directory."""

    scenario: Scenario
    options: Options
    seed: int
    directory: RunDirectory
    is_simulated: bool
    own_profile: str = "4.9"
    """The profile of its file."""

    @property
    def command(self) -> str:
        options = self.options
        words = ["rmqlab", "run", options.target or self.scenario.name, "--seed", str(self.seed)]
        words += ["--simulated"] if self.is_simulated else ["--rate", f"{self.scenario.cluster.rate:g}"]
        words += ["--profile", options.profile] if options.profile != self.own_profile else []
        words += ["--mode", options.mode] if options.mode is not None else []
        words += ["--promote-after", f"{options.promote_after:g}"] if options.promote_after is not None else []
        words += ["--allow-commands"] if options.allows_commands else []
        return shlex.join(words)

    def begin(self) -> None:
        if self.options.source:
            self.directory.write_text("scenario.toml", self.options.source)
        self.directory.write_json("scenario", cattrs.unstructure(self.scenario))
        self._write_run()

    def _write_run(self, **more: object) -> None:
        self.directory.write_json(
            "run",
            {
                "scenario": self.scenario.name,
                "profile": self.options.profile,
                "seed": self.seed,
                "rate": self.scenario.cluster.rate,
                "simulated": self.is_simulated,
                "version": rmqlab.__version__,
                "python": sys.version.split()[0],
                "command": self.command,
                **more,
            },
        )

    def _warnings(self, findings: Judgement) -> tuple[str, ...]:
        expectations = self.scenario.expectations
        if not expectations:  # the verdict is that of the findings
            return findings.decision.warnings
        return findings.other_warnings(filter(None, (one.metric for one in expectations)))

    def judge(self, missing: list[str], stood_still: float, seconds: float, resources: Resources) -> Run:
        """Judge the run and write the results. Blocks while stores are read."""
        journals, surveys = survey_journals(self.directory.cluster.journal_dir)
        entries = merge_entries(*journals)
        labels = labels_of(entries)
        findings = judge_run(entries, self._stores(entries), surveys, read_record(self.directory.cluster.path))
        rate = self.scenario.cluster.rate
        allowance = Allowance(late=rate * (ALLOWED_SECONDS + stood_still), rounded=max(rate, 1) * ROUNDED_SECONDS)
        timed_out = [step for text in missing if (step := step_that_timed_out(self.scenario, text))]
        is_whole = self.options.accepts_time_outs and len(timed_out) == len(missing)
        judged = [
            judge_expectation(
                expectation,
                as_far_as_seen(
                    expectation,
                    self._find(expectation, entries, labels, findings),
                    labels,
                    findings.conditions.gaps,
                    ended_early=bool(missing) and not is_whole,
                    late=[step.label for step in timed_out if step.label],
                ),
                allowance,
                findings[expectation.same_as] if expectation.same_as else None,
            )
            for expectation in self.scenario.expectations
        ]
        run = Run(
            scenario=self.scenario,
            directory=self.directory,
            seed=self.seed,
            profile=self.options.profile,
            command=self.command,
            judged=judged,
            missing=missing,
            findings=findings,
            warnings=self._warnings(findings),
            seconds=seconds,
            began_at=labels.get("begin", 0),
            stood_still=stood_still,
            resources=resources,
            is_simulated=self.is_simulated,
        )
        self._write_run(
            began_at=labels.get("begin"),
            ended_at=labels.get("end"),
            stood_still_seconds=math.ceil(stood_still * 1000) / 1000,
        )
        self.directory.write_json("verdict", run.as_json())
        self.directory.write_json("checks", findings.as_json())
        self.directory.write_text("history.txt", "".join(f"{line}\n" for line in history_lines(entries)))
        keeps = self.options.keeps_stores
        if keeps is False or (keeps is None and run.verdict is Verdict.HOLDS):
            self.directory.prune_stores()
        return run

    def _stores(self, entries: Sequence[JournalEntry]) -> dict[str, Any]:
        record = self.directory.cluster.read_record()
        if record is None or not entries:
            return {}
        names = brokers_of_run(record.placement, {entry.node for entry in entries})
        return {name: self.directory.store(name) for name in names}

    @staticmethod
    def _find(
        expectation: Expectation, entries: Sequence[JournalEntry], labels: dict[str, int], findings: Findings
    ) -> Finding:
        if expectation.metric is not None:
            return findings[expectation.metric]
        if not entries:
            return unknown(expectation.title, "", "no journal was written")
        return observe(expectation, entries, labels)
