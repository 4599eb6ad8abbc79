"""Decides on a verdict by the table of rules.

Where no row violates, missing evidence decides: a gap in the journals, or a needed metric that is unknown or is only
known to be at least zero, makes the verdict `unknown`. A scenario's expectation replaces the rows of its metric.
"""

import collections
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from rmqlab.runtime.text.counted import counted
from rmqlab.runtime.text.number_text import plain
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.rules import ASYNC_MASTER, VERDICT_RULES, Effect, Groups, VerdictRule
from rmqlab.verdict.verdict import Verdict


@attrs.frozen(kw_only=True)
class Decision:
    """A verdict with its reasons."""

    verdict: Verdict
    why: tuple[str, ...]
    """The violations, the missing evidence, or the reason why it holds."""
    warnings: tuple[str, ...] = ()
    """Problems of the run that do not affect the verdict."""
    violating: tuple[str, ...] = ()
    """Metrics, with their targets, that make the verdict `violated`."""


"""The table. Metrics that are not in it are measurements: they are judged by scenarios only."""

_RESET: Final = "A request reset the offsets of {}, which may move them back."
_HOLDS: Final = "nothing acknowledged was lost, and no log differs from its master's"


def is_notable(metric: str, value: float | None) -> bool:
    """Return True for findings that commands show by default.

    These are not zero, or can violate a claim, and not of a single queue.
    """
    name = metric.partition(" ")[0]
    decides = any(row.metric == name and row.effect is Effect.VIOLATES for row in VERDICT_RULES)
    return "@" not in metric and (bool(value) or decides)


def decide(
    findings: Iterable[Finding],
    *,
    role: str = ASYNC_MASTER,
    profile: str = "4.9",
    gaps: Sequence[str] = (),
    orderly: Collection[str] = (),
    reset_groups: Collection[str] = (),
    expected: Iterable[str] = (),
) -> Decision:
    """Judge a run by the table, whose order the reasons and warnings have.

    `gaps` are holes in the evidence, such as an incomplete journal, each in one line. `orderly` names the consumer
    groups that are orderly, `reset_groups` those whose offsets were reset by a request, which explains offsets that moved
    back. `expected` are metrics that a scenario has expectations on: their rows do not apply.
    """
    replaced = {metric.partition(" ")[0] for metric in expected}
    rows = [row for row in VERDICT_RULES if role in row.roles and profile in row.profiles and not _is_in(replaced, row)]
    known = list(findings)
    applied = [(row, one) for row in rows for one in known if _applies(row, one, orderly)]
    found = [(row, one) for row, one in applied if one.value]
    warned = [(row, one) for row, one in found if row.effect is Effect.WARNS]
    totals = _explained_totals(one for _, one in warned)
    warnings = tuple(_shown(row, one, reset_groups) for row, one in warned if one.metric not in totals)
    broken = [(row, one) for row, one in found if row.effect is Effect.VIOLATES]
    if broken:
        return Decision(
            verdict=Verdict.VIOLATED,
            why=tuple(_shown(*pair) for pair in broken),
            warnings=(*gaps, *warnings),
            violating=tuple(one.metric for _, one in broken),
        )
    missing = (*gaps, *_unknown(applied, gaps))
    if missing:
        return Decision(verdict=Verdict.UNKNOWN, why=missing, warnings=warnings)
    return Decision(verdict=Verdict.HOLDS, why=(_HOLDS,), warnings=warnings)


def agreed(decisions: Mapping[tuple[str, str], Decision]) -> Decision:
    """Return what decisions by several roles and profiles have in common.

    Their verdict with the reasons of all if it is the same, else `unknown`. The warnings are those of all.
    """
    first, *others = decisions.values()
    warnings = _each_once(one.warnings for one in decisions.values())
    if all(one.verdict is first.verdict for one in others):
        return attrs.evolve(
            first,
            why=_each_once(one.why for one in decisions.values()),
            warnings=warnings,
            violating=_each_once(one.violating for one in decisions.values()),
        )
    named = [
        f"{one.verdict} as {role}, {profile} ({'; '.join(one.why)})"
        for (role, profile), one in decisions.items()
        if one.verdict is not first.verdict
    ]
    why = f"the journal does not name the run's role and profile: {first.verdict}, but {', '.join(named)}"
    return attrs.evolve(first, verdict=Verdict.UNKNOWN, why=(why,), warnings=warnings, violating=())


def _each_once(lines: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(itertools.chain.from_iterable(lines)))


def _explained_totals(findings: Iterable[Finding]) -> set[str]:
    """Return the metrics that only repeat the sum of those of single groups."""
    sums: dict[str, float] = collections.defaultdict(float)
    values: dict[str, float] = {}
    for one in findings:
        name, _, target = one.metric.partition(" ")
        values[one.metric] = one.value or 0
        sums[name] += values[one.metric] if target else 0
    return {metric for metric, value in values.items() if value and sums.get(metric, 0) >= value}


def _is_on_purpose(finding: Finding, reset_groups: Collection[str]) -> bool:
    name, _, group = finding.metric.partition(" ")
    return name == "offset_rollbacks" and bool(reset_groups) and (not group or group in reset_groups)


def _is_in(replaced: Collection[str], row: VerdictRule) -> bool:
    """Return True if an expectation names the row's metric or a class of it.

    `lost.SEND_OK` is a class of `lost`.
    """
    return any(name == row.metric or name.startswith(f"{row.metric}.") for name in replaced)


def _applies(row: VerdictRule, finding: Finding, orderly: Collection[str]) -> bool:
    name, _, target = finding.metric.partition(" ")
    return name == row.metric and (row.groups is Groups.ANY or (row.groups is Groups.ORDERLY) == (target in orderly))


def _unknown(applied: Iterable[tuple[VerdictRule, Finding]], gaps: Collection[str]) -> Iterator[str]:
    """Yield needed metrics that are not known to be zero, unless a gap names them."""
    for row, one in applied:
        is_zero = one.value == 0 and not one.is_at_least
        if row.effect is Effect.VIOLATES and row.is_needed and not is_zero and one.missing not in gaps:
            yield f"{one.metric}: {one.missing or 'at least 0'}"


def _shown(rule: VerdictRule, finding: Finding, reset_groups: Collection[str] = ()) -> str:
    at_least = "at least " if finding.is_at_least else ""
    number = "unknown" if finding.value is None else plain(finding.value)
    because = _RESET.format(", ".join(sorted(reset_groups))) if _is_on_purpose(finding, reset_groups) else rule.because
    return f"{finding.metric}: {at_least}{counted(number, finding.unit)}. {because}"
