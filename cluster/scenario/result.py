"""Options and results of a scenario's run."""

import math
from collections.abc import Sequence
from typing import Any

import attrs

from rmqlab.cluster.scenario.judge import Judged
from rmqlab.cluster.scenario.model import Scenario
from rmqlab.cluster.scenario.resources import Resources
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.verdict.judgement import Judgement
from rmqlab.verdict.verdict import Verdict, worst

DISTURBING_SECONDS = 0.5
"""Seconds of the cluster's clock: a sixth of the clients' time-out."""


@attrs.frozen(kw_only=True)
class Options:
    """Options of a run that are not in the scenario's file."""

    profile: str = ""
    """4.9 or hardened; empty for the scenario's own."""
    rate: float | None = None
    """Cluster seconds per real second; None for the scenario's own."""
    seed: int | None = None
    """Random seed; drawn if None."""
    accepts_time_outs: bool = False
    """Judge a run that ends at a step which timed out as a whole run: a hunt's claims are about such steps."""
    keeps_stores: bool | None = None
    """None keeps the stores unless the verdict is `holds`."""
    source: str = ""
    """Text of the scenario's file."""
    target: str = ""
    """Name of the scenario on a command line; its own name if empty."""
    mode: str | None = None
    """`dledger` plays it on DLedger groups of three; None for the scenario's own mode."""
    promote_after: float | None = None
    """Cluster seconds after which an operator promotes a slave of a master that is away; None for no operator."""
    allows_commands: bool = False
    """Whether steps may run external commands."""


@attrs.frozen(kw_only=True)
class Run:
    """A scenario that was run and judged."""

    scenario: Scenario
    directory: RunDirectory
    seed: int
    profile: str
    command: str
    """Command that replays the run."""
    judged: Sequence[Judged]
    missing: Sequence[str]
    """Why the run is incomplete: a failed step, an interruption."""
    findings: Judgement
    warnings: Sequence[str]
    """Warnings and violations of the default verdict, except for metrics with an expectation."""
    seconds: float
    began_at: int
    """Time of the begin, in milliseconds of the cluster's clock; 0 if the cluster did not start."""
    stood_still: float
    """Longest standstill of the machine, in real seconds."""
    resources: Resources
    is_simulated: bool = False
    """True if it was played on virtual time, which `seconds` counts then."""

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on the claim; without expectations that of `rmqlab check`."""
        verdicts = [judged.verdict for judged in self.judged] or [self.findings.verdict]
        return worst([*verdicts, *(Verdict.UNKNOWN for _ in self.missing)])

    @property
    def default_reasons(self) -> tuple[str, ...]:
        """Why the findings of a run without expectations do not hold, one line each."""
        is_needed = not self.judged and self.findings.verdict is not Verdict.HOLDS
        return self.findings.decision.why if is_needed else ()

    @property
    def is_disturbed(self) -> bool:
        """True if the machine paused long enough to expire RocketMQ time-outs of 3 s."""
        return self.stood_still * self.scenario.cluster.rate > DISTURBING_SECONDS

    def reasons(self) -> list[str]:
        """Return why the verdict is not `holds`, one line each."""
        lines = [
            f"{judged.verdict}: {judged.expectation.title}: expected {judged.bound}, found {judged.found}"
            for judged in self.judged
            if judged.verdict is not Verdict.HOLDS
        ]
        return [*lines, *self.default_reasons, *(f"unknown: {text}" for text in self.missing)]

    def as_json(self) -> dict[str, Any]:
        """Return the document that `run --json` prints and verdict.json contains."""
        return {
            "scenario": self.scenario.name,
            "profile": self.profile,
            "verdict": str(self.verdict),
            "claim": self.scenario.claim,
            "why": self.reasons(),
            "expectations": [judged.as_json() for judged in self.judged],
            "missing": list(self.missing),
            "warnings": list(self.warnings),
            "seed": self.seed,
            "rate": self.scenario.cluster.rate,
            "simulated": self.is_simulated,
            "seconds": round(self.seconds, 2),
            "stood_still_seconds": math.ceil(self.stood_still * 1000) / 1000,
            "is_disturbed": self.is_disturbed,
            "resources": attrs.asdict(self.resources),
            "command": self.command,
            "directory": str(self.directory.path),
        }
