"""What a default verdict rests on: one table, per role and profile.

Each row names a metric, where it applies, and what a value above zero means. A row that violates makes the verdict
`violated`; one that warns is printed beside the verdict and changes nothing. Where no row violates, missing evidence
decides: a violating row whose metric is unknown, or a gap in the journals, makes the verdict `unknown`. A scenario's
expectations come on top of this table.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from rmqlab.verdict.findings import Finding
from rmqlab.verdict.verdict import Verdict

ASYNC_MASTER: Final = "ASYNC_MASTER"
SYNC_MASTER: Final = "SYNC_MASTER"
PROFILES: Final = ("4.9", "hardened")


class Effect(enum.StrEnum):
    """What a value above zero does to the verdict."""

    VIOLATES = "violates"
    WARNS = "warns"


@attrs.frozen(kw_only=True)
class Ground:
    """One row of the table."""

    metric: str
    """Name without target or class: the row applies to each target that was measured."""
    effect: Effect
    because: str
    """Why a value above zero breaks, or does not break, what RocketMQ promises."""
    profiles: tuple[str, ...] = PROFILES
    is_needed: bool = True
    """True if the verdict is `unknown` while this metric is. Only violating rows can be needed."""


@attrs.frozen(kw_only=True)
class Decision:
    """A verdict with its reasons."""

    verdict: Verdict
    why: tuple[str, ...]
    """What broke it, what is missing, or, where it holds, what it rests on."""
    warnings: tuple[str, ...] = ()
    """What is wrong with the run, and no part of the verdict."""


GROUNDS: Final = (
    Ground(metric="lost", effect=Effect.VIOLATES, because="An acknowledged message is in some store."),
    Ground(metric="divergence", effect=Effect.VIOLATES, because="A slave's log is a prefix of its master's."),
    Ground(
        metric="order.stored",
        effect=Effect.VIOLATES,
        because="A queue keeps the order of sends that follow each other.",
        is_needed=False,
    ),
    Ground(
        metric="offset_rollbacks",
        effect=Effect.WARNS,
        profiles=("4.9",),
        because="4.9.8 moves offsets back when a slave syncs with a master that returned (rmqlab scenario 07).",
    ),
    Ground(
        metric="offset_rollbacks",
        effect=Effect.VIOLATES,
        profiles=("hardened",),
        because="The hardened profile never moves a consumer offset back.",
        is_needed=False,
    ),
)
"""The table. Metrics that are not in it are measurements: they are judged by scenarios only."""

_HOLDS: Final = "nothing acknowledged was lost, and no log differs from its master's"


def decide(findings: Iterable[Finding], *, profile: str = "4.9", gaps: Sequence[str] = ()) -> Decision:
    """Judge a run by the table. `gaps` are holes in the evidence, such as an incomplete journal, each in one line."""
    by_name: dict[str, list[Finding]] = {}
    for finding in findings:
        by_name.setdefault(finding.metric.partition(" ")[0], []).append(finding)
    rows = [ground for ground in GROUNDS if profile in ground.profiles]
    warnings = tuple(_shown(one, ground) for ground, one in _above_zero(rows, by_name, Effect.WARNS))
    broken = tuple(_shown(one, ground) for ground, one in _above_zero(rows, by_name, Effect.VIOLATES))
    if broken:
        return Decision(verdict=Verdict.VIOLATED, why=broken, warnings=(*gaps, *warnings))
    missing = (*gaps, *_unknown(rows, by_name))
    if missing:
        return Decision(verdict=Verdict.UNKNOWN, why=missing, warnings=warnings)
    return Decision(verdict=Verdict.HOLDS, why=(_HOLDS,), warnings=warnings)


def _above_zero(
    rows: Iterable[Ground], by_name: Mapping[str, Sequence[Finding]], effect: Effect
) -> Iterable[tuple[Ground, Finding]]:
    return ((row, one) for row in rows if row.effect is effect for one in by_name.get(row.metric, ()) if one.value)


def _unknown(rows: Iterable[Ground], by_name: Mapping[str, Sequence[Finding]]) -> Iterable[str]:
    needed = [row for row in rows if row.effect is Effect.VIOLATES and row.is_needed]
    return (f"{one.metric}: {one.missing}" for row in needed for one in by_name.get(row.metric, ()) if not one.is_known)


def _shown(finding: Finding, ground: Ground) -> str:
    at_least = "at least " if finding.is_at_least else ""
    return f"{finding.metric}: {at_least}{finding.value:g} {finding.unit}. {ground.because}"
