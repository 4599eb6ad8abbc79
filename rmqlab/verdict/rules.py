"""The rules of a default verdict: one table, by role and profile.

Each row names a metric, where it applies, and the effect of a value above zero. A row that violates makes the verdict
`violated`. A row that warns adds a warning, which is printed beside the verdict and does not change it. Where no row
violates, missing evidence decides: a gap in the journals, or a needed metric that is unknown or is only known to be at
least zero, makes the verdict `unknown`. A scenario's expectation replaces the rows of its metric.
"""

import collections
import enum
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from rmqlab.runtime.text.counted import counted
from rmqlab.runtime.text.number_text import plain
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.verdict import Verdict

ASYNC_MASTER: Final = "ASYNC_MASTER"
SYNC_MASTER: Final = "SYNC_MASTER"
ROLES: Final = (ASYNC_MASTER, SYNC_MASTER)
HARDENED: Final = "hardened"
PROFILES: Final = ("4.9", HARDENED)


class Effect(enum.StrEnum):
    """Effect of a value above zero on the verdict."""

    VIOLATES = "violates"
    WARNS = "warns"


class Groups(enum.StrEnum):
    """Consumer groups that a row of a metric with the target GROUP applies to."""

    ANY = "any"
    ORDERLY = "orderly"
    CONCURRENT = "concurrent"


@attrs.frozen(kw_only=True)
class VerdictRule:
    """One row of the table."""

    metric: str
    """Name without target or class: the row applies to each target that was measured."""
    effect: Effect
    because: str
    """Why a value above zero breaks a guarantee of RocketMQ, or does not."""
    source: str
    """Source of the rule: a section of docs/protocol, a scenario, or an issue."""
    roles: tuple[str, ...] = ROLES
    profiles: tuple[str, ...] = PROFILES
    groups: Groups = Groups.ANY
    is_needed: bool = True
    """True if the verdict is `unknown` while this metric is. Only violating rows can be needed."""


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


VERDICT_RULES: Final = (
    VerdictRule(
        metric="lost",
        effect=Effect.VIOLATES,
        because="An acknowledged message must be in some store.",
        source="broker-requests section 1.6",
    ),
    VerdictRule(
        metric="divergence",
        effect=Effect.VIOLATES,
        because="The log of a slave, or of a former master, must have the bytes of the master's.",
        source="store-and-ha section 4.3",
    ),
    VerdictRule(
        metric="unreplicated",
        effect=Effect.VIOLATES,
        roles=(SYNC_MASTER,),
        because="A SYNC_MASTER must return SEND_OK only when a slave has the message.",
        source="store-and-ha section 4.7",
    ),
    VerdictRule(
        metric="order.stored",
        effect=Effect.VIOLATES,
        because="A queue must keep the order of sends that follow each other.",
        source="store-and-ha section 2.6",
        is_needed=False,
    ),
    VerdictRule(
        metric="order.delivered",
        effect=Effect.VIOLATES,
        groups=Groups.ORDERLY,
        because="An orderly consumer must receive a queue in its order.",
        source="broker-requests section 3.10",
        is_needed=False,
    ),
    VerdictRule(
        metric="order.delivered",
        effect=Effect.WARNS,
        groups=Groups.CONCURRENT,
        because="Concurrent consumers do not keep the order of a queue.",
        source="broker-requests section 3.10",
    ),
    VerdictRule(
        metric="own_offsets_overwritten",
        effect=Effect.VIOLATES,
        profiles=(HARDENED,),
        because="A slave keeps the offsets that consumers committed to it until its master has them.",
        source="rmq#1094",
    ),
    VerdictRule(
        metric="offset_rollbacks",
        effect=Effect.WARNS,
        profiles=(HARDENED,),
        because="A commit that arrives late, and a consumer that continues at a slave, move offsets back.",
        source="limits of the hardened profile",
    ),
    VerdictRule(
        metric="offset_rollbacks",
        effect=Effect.WARNS,
        profiles=("4.9",),
        because="4.9.8 moves offsets back when a slave syncs with a master that returned.",
        source="scenario offset-rollback",
    ),
    VerdictRule(
        metric="offset_file_behind",
        effect=Effect.WARNS,
        because="A broker saves offsets every 5 s. After a restart consumers receive some messages again.",
        source="store-and-ha section 5.4",
    ),
    VerdictRule(
        metric="duplicates.unexplained",
        effect=Effect.WARNS,
        because="RocketMQ delivers at least once, but each repetition must have a cause.",
        source="definition of the metric",
    ),
    VerdictRule(
        metric="corrupt",
        effect=Effect.WARNS,
        because="A record that no store can read any more counts as lost. Others are safe in another store.",
        source="store-and-ha section 2.1",
    ),
    VerdictRule(
        metric="dangling",
        effect=Effect.WARNS,
        because="Consumers do not receive a message whose queue entry is wrong.",
        source="store-and-ha section 3.1",
    ),
    VerdictRule(
        metric="unqueued",
        effect=Effect.WARNS,
        because="Consumers do not receive a message that no queue entry points at.",
        source="store-and-ha section 3.1",
    ),
    VerdictRule(
        metric="unindexed",
        effect=Effect.WARNS,
        because="Queries by key and by unique id do not find the message.",
        source="store-and-ha section 3.3",
    ),
    VerdictRule(
        metric="delivered_unstored",
        effect=Effect.WARNS,
        because="A consumer received a message that was lost afterwards.",
        source="broker-requests section 1.6",
    ),
    VerdictRule(
        metric="topics_missing",
        effect=Effect.WARNS,
        because="A broker that starts without a topic's configuration refuses pulls of it.",
        source="store-and-ha section 5.4",
    ),
    VerdictRule(
        metric="groups_missing",
        effect=Effect.WARNS,
        because="A broker that starts without a group's configuration creates it with defaults.",
        source="store-and-ha section 5.4",
    ),
    VerdictRule(
        metric="offset_file_ahead",
        effect=Effect.WARNS,
        because="A group whose offset is beyond its queue is corrected, and may skip messages.",
        source="broker-requests section 2.4",
    ),
    VerdictRule(
        metric="delay_offset_behind",
        effect=Effect.WARNS,
        because="Delayed messages are delivered again.",
        source="store-and-ha section 5.4",
    ),
    VerdictRule(
        metric="delay_offset_ahead",
        effect=Effect.WARNS,
        because="A broker that starts sets it to the queue's end, and skips delayed messages that it has not"
        " delivered.",
        source="store-and-ha section 7.2",
    ),
    VerdictRule(
        metric="stored_twice",
        effect=Effect.WARNS,
        because="A client that retries stores a message twice if only the response was lost.",
        source="broker-requests section 1.6",
    ),
    VerdictRule(
        metric="place_disagreement",
        effect=Effect.WARNS,
        because="An acknowledgement and a delivery must name the queue and offset of the record.",
        source="broker-requests section 1.6",
    ),
    VerdictRule(
        metric="content_disagreement",
        effect=Effect.VIOLATES,
        is_needed=False,
        because="A broker must store body, flag, keys and tags as the producer sent them.",
        source="store-and-ha section 2.1",
    ),
    VerdictRule(
        metric="origin_disagreement",
        effect=Effect.WARNS,
        because="A broker stores when and where a message was created.",
        source="store-and-ha section 2.1",
    ),
    VerdictRule(
        metric="header_disagreement",
        effect=Effect.WARNS,
        because="The header of a record follows from its send, its broker and its retries.",
        source="store-and-ha section 2.1",
    ),
    VerdictRule(
        metric="delivered_early",
        effect=Effect.WARNS,
        because="A broker stores a delayed message in its own topic when it is due, or later.",
        source="store-and-ha section 7.2",
    ),
    VerdictRule(
        metric="overdue",
        effect=Effect.WARNS,
        because="Consumers do not receive a message that its broker holds back.",
        source="store-and-ha section 7.2",
    ),
    VerdictRule(
        metric="store_time_disagreement",
        effect=Effect.WARNS,
        because="A broker stores messages one after the other, so the store times of its log do not go back.",
        source="store-and-ha section 2.6",
    ),
    VerdictRule(
        metric="stored.refused",
        effect=Effect.WARNS,
        because="The reply said that the message is not stored.",
        source="broker-requests section 1.6",
    ),
    VerdictRule(
        metric="clock_disagreement",
        effect=Effect.WARNS,
        because="Times of this node, and durations across nodes, are not reliable.",
        source="definition of the metric",
    ),
)
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
