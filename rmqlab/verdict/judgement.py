"""Last step of both judges: derives the verdict from findings and conditions."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from rmqlab.runtime.text.counted import counted
from rmqlab.runtime.text.number_text import plain
from rmqlab.verdict.catalogue.shared import MESSAGES
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.decision import Decision, agreed, decide
from rmqlab.verdict.findings import Finding, Findings
from rmqlab.verdict.gaps import Gap
from rmqlab.verdict.metrics import Metric, Source
from rmqlab.verdict.rules import PROFILES, ROLES
from rmqlab.verdict.verdict import Verdict
from rmqlab.verdict.weakening import weaken


@attrs.frozen(kw_only=True)
class Judgement(Findings):
    """Findings, with the verdict by the table of `rmqlab.verdict.rules`."""

    conditions: Conditions
    decision: Decision

    @property
    def verdict(self) -> Verdict:
        return self.decision.verdict

    def other_warnings(self, expected: Iterable[str]) -> tuple[str, ...]:
        """Return the violations and warnings of the table, without expected metrics.

        `expected` are the metrics that a scenario has expectations on.
        """
        decision = _decide(self, self.conditions, self.conditions.gaps, expected)
        return (*(decision.why if decision.verdict is not Verdict.HOLDS else ()), *decision.warnings)

    def summary(self) -> dict[str, Any]:
        """Return the document of `rmqlab check --json`.

        The document of `rmqlab audit --json` begins with the same members.
        """
        return {
            "verdict": str(self.verdict),
            "why": list(self.decision.why),
            "warnings": list(self.decision.warnings),
            "violating": list(self.decision.violating),
            **self.conditions.as_json(),
            "findings": self.as_json(),
        }


def conclude(
    findings: Iterable[Finding], metrics: tuple[Metric, ...], conditions: Conditions, remarks: Sequence[str] = ()
) -> Judgement:
    """Judge a run by its findings, as far as its journals are complete.

    `remarks` on its stores are added to the warnings.
    """
    measured = {finding.metric: _in_role(finding, conditions) for finding in findings}
    unsent = measured.get("stored_unsent")
    if unsent is not None and unsent.value and not _explains_unsent(conditions):
        conditions = attrs.evolve(conditions, gaps=(*conditions.gaps, _unsent_gap(unsent)))
    weakened = weaken(measured.values(), conditions.gaps, metrics, conditions.broker_names)
    known = {finding.metric: finding for finding in weakened}
    decision = _decide(known.values(), conditions, conditions.gaps)
    return Judgement(
        by_metric=known,
        metrics=metrics,
        conditions=conditions,
        decision=attrs.evolve(decision, warnings=(*decision.warnings, *remarks, *_remarks(conditions, unsent))),
    )


def _decide(
    findings: Iterable[Finding], conditions: Conditions, gaps: Iterable[Gap], expected: Iterable[str] = ()
) -> Decision:
    """Decide by the role and profile of the run, by all of them if unknown."""
    known, texts = list(findings), [gap.text for gap in gaps]
    roles = (conditions.role,) if conditions.role else ROLES
    profiles = (conditions.profile,) if conditions.profile else PROFILES
    decisions = {
        (role, profile): decide(
            known,
            role=role,
            profile=profile,
            gaps=texts,
            orderly=conditions.orderly,
            reset_groups=conditions.reset_groups,
            expected=expected,
        )
        for role, profile in itertools.product(roles, profiles)
    }
    return agreed(decisions)


def _in_role(finding: Finding, conditions: Conditions) -> Finding:
    """Return a finding, unknown if only a role that is not recorded makes it one."""
    if conditions.role or not finding.metric.startswith("unreplicated ") or not finding.value:
        return finding
    messages = counted(plain(finding.value), MESSAGES)
    return finding.withdrawn(f"the journal does not name the run's role, and no slave's store has {messages}")


def _explains_unsent(conditions: Conditions) -> bool:
    return bool(conditions.outside_clients or conditions.killed_workloads)


def _unsent_gap(unsent: Finding) -> Gap:
    return Gap(
        process="",
        sources=frozenset({Source.PRODUCERS}),
        text=f"{unsent.value} messages in the stores were sent by no process of the journal: a journal is missing,"
        " or a client that keeps none took part",
    )


def _remarks(conditions: Conditions, unsent: Finding | None) -> Iterator[str]:
    """Yield remarks that limit the verdict."""
    if not conditions.role:
        yield (
            "the journal does not name the run's role and profile: judged by all roles and profiles, with the warnings of"
            " each"
        )
    if unsent is not None and unsent.value and conditions.outside_clients:
        clients = ", ".join(conditions.outside_clients[:3])
        yield f"{unsent.value} messages are of clients that keep no journal, and are not judged: {clients}"
    elif unsent is not None and unsent.value and conditions.killed_workloads:
        killed = ", ".join(conditions.killed_workloads[:3])
        yield f"{unsent.value} messages are in no journal: {killed} was killed, and its last sends are not recorded"
