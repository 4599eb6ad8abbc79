"""The verdict on a run: each expectation against what was found. Pure.

A claim *holds* when every expectation does, is *violated* when one is, and else is *unknown*: what is missing is
said. Times have an allowance: what a machine needs for itself, times the rate, is none of the protocol's doing. It makes
things late, and never early: only between two moments that different processes noticed may less have passed than did.
"""

from typing import Any

import attrs

from rmqlab.cluster.scenario.model import Expectation
from rmqlab.cluster.scenario.quantity import Quantity
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.verdict import Verdict, worst


@attrs.frozen(kw_only=True)
class Judged:
    """One expectation and what became of it."""

    expectation: Expectation
    finding: Finding
    verdict: Verdict
    late: float = 0.0
    """Seconds of the cluster's clock that times may be longer than they should."""
    early: float = 0.0
    """And shorter."""

    @property
    def bound(self) -> str:
        """The bound in words."""
        expectation = self.expectation
        parts = [
            f"{word} {bound}"
            for word, bound in (
                ("at least", expectation.at_least),
                ("at most", expectation.at_most),
                ("exactly", expectation.equals),
                ("the same as", expectation.same_as),
            )
            if bound is not None
        ]
        return " and ".join(parts) + self._slack()

    def _slack(self) -> str:
        if self.finding.unit != "s" or not self.late:
            return ""
        if self.early == self.late:
            return f" (± {self.late:.1f} s)"
        is_bound_above = self.expectation.at_most is not None or self.expectation.equals is not None
        return f" (+ {self.late:.1f} s)" if is_bound_above else ""

    @property
    def found(self) -> str:
        """What was found, in words."""
        finding = self.finding
        if finding.value is None:
            return f"unknown: {finding.missing}"
        if isinstance(self.expectation.equals, str):
            return finding.says or f"{finding.value:g}"
        least = "at least " if finding.is_at_least else ""
        return f"{least}{finding.value:g} {finding.unit}".rstrip()

    def as_json(self) -> dict[str, Any]:
        """Plain values, evidence included where it does not hold."""
        document: dict[str, Any] = {
            "expectation": self.expectation.title,
            "verdict": str(self.verdict),
            "bound": self.bound,
            "found": self.found,
            "source": self.expectation.source,
        }
        if self.verdict is not Verdict.HOLDS:
            document |= {
                "missing": self.finding.missing,
                "message_ids": list(self.finding.message_ids),
                "evidence": [piece.as_json() for piece in self.finding.evidence],
            }
        return document


@attrs.frozen(kw_only=True)
class Allowance:
    """Seconds of the cluster's clock."""

    late: float = 0.0
    """What everything may take beside what the protocol says."""
    rounded: float = 0.0
    """What one process may lack in what it measured by itself: timers and time stamps are rounded."""

    def early(self, expectation: Expectation) -> float:
        """How much too short a time may seem."""
        is_of_one_process = expectation.event is not None and expectation.take != "delay"
        return self.rounded if is_of_one_process else self.late


def judge_expectation(
    expectation: Expectation, finding: Finding, allowance: Allowance, same: Finding | None = None
) -> Judged:
    """Hold one expectation against what was found; `same` is what was found of the metric that it names."""
    is_time = finding.unit == "s"
    late, early = (allowance.late, allowance.early(expectation)) if is_time else (0.0, 0.0)
    verdict = _judge(expectation, finding, late, early)
    if same is not None:
        exact = attrs.evolve(expectation, at_least=None, at_most=None, equals=Quantity(same.value or 0.0, same.unit))
        verdict = worst([verdict, Verdict.UNKNOWN if same.value is None else _judge(exact, finding, late, late)])
    return Judged(expectation=expectation, finding=finding, verdict=verdict, late=late, early=early)


def _judge(expectation: Expectation, finding: Finding, late: float, early: float) -> Verdict:
    if finding.value is None:
        return Verdict.UNKNOWN
    if isinstance(expectation.equals, str):
        return Verdict.HOLDS if finding.says == expectation.equals else Verdict.VIOLATED
    verdicts = []
    if (most := _value(expectation.at_most)) is not None:
        verdicts.append(_not_above(finding, most + late))
    if (least := _value(expectation.at_least)) is not None:
        verdicts.append(_not_below(finding, least - early))
    if (exact := _value(expectation.equals)) is not None:
        verdicts += [_not_above(finding, exact + late), _not_below(finding, exact - early)]
    return worst(verdicts)


def _value(bound: Quantity | str | None) -> float | None:
    return bound.value if isinstance(bound, Quantity) else None


def _not_above(finding: Finding, most: float) -> Verdict:
    assert finding.value is not None
    if finding.value > most:
        return Verdict.VIOLATED
    return Verdict.UNKNOWN if finding.is_at_least else Verdict.HOLDS


def _not_below(finding: Finding, least: float) -> Verdict:
    assert finding.value is not None
    if finding.value >= least:
        return Verdict.HOLDS
    return Verdict.UNKNOWN if finding.is_at_least else Verdict.VIOLATED
