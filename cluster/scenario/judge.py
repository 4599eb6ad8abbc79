"""The verdict on a run: compares each expectation with its finding. Pure.

A claim *holds* if every expectation holds, is *violated* if one is, and otherwise *unknown*, with what is missing.
Times have an allowance for the machine (process starts, disk syncs), multiplied by the rate. It makes times longer;
shorter ones are possible only between two moments that different processes noticed.
"""

from typing import Any

import attrs

from rmqlab.cluster.scenario.model import Expectation
from rmqlab.cluster.scenario.quantity import Quantity
from rmqlab.runtime.text.counted import counted
from rmqlab.runtime.text.number_text import plain
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.verdict import Verdict, worst


@attrs.frozen(kw_only=True)
class Judged:
    """One expectation, its finding and its verdict."""

    expectation: Expectation
    finding: Finding
    verdict: Verdict
    late: float = 0.0
    """Seconds of the cluster's clock by which times may be too long."""
    early: float = 0.0
    """Seconds by which they may be too short."""

    @property
    def bound(self) -> str:
        """Return the bound in words."""
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
        """Return the finding in words."""
        finding = self.finding
        if finding.value is None:
            return f"unknown: {finding.missing}"
        if isinstance(self.expectation.equals, str):
            return finding.text or plain(finding.value)
        least = "at least " if finding.is_at_least else ""
        return f"{least}{counted(plain(finding.value), finding.unit)}".rstrip()

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON; with evidence if the expectation does not hold."""
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
    """Tolerances, in seconds of the cluster's clock."""

    late: float = 0.0
    """Tolerance added to the times of the protocol."""
    rounded: float = 0.0
    """Error of measurements by a single process: timers and time stamps are rounded."""

    def early(self, expectation: Expectation) -> float:
        """Return by how much a time may seem too short."""
        is_of_one_process = expectation.event is not None and expectation.take != "delay"
        return self.rounded if is_of_one_process else self.late


def judge_expectation(
    expectation: Expectation, finding: Finding, allowance: Allowance, same: Finding | None = None
) -> Judged:
    """Judge one expectation; `same` is the finding of the metric that `same_as` names."""
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
        return Verdict.HOLDS if finding.text == expectation.equals else Verdict.VIOLATED
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
