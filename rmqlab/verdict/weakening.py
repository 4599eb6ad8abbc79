"""Weakens findings that depend on incomplete journals, for both judges.

A gap makes metrics unknown that are computed from the journal (`Metric.rests_on`). If missing entries can only make a
value too low (`Metric.is_floor`), the value becomes a lower bound instead, unless the journal has repeated entries or
entries of another process or run. A value above zero that a missing entry could explain (`Metric.excused_by`) becomes
unknown, too.

A gap of a broker concerns only what was stored at its broker name, and one of a consumer only the group of the
consumer. The rest of a finding is then a lower bound (`Finding.without`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from rmqlab.verdict.findings import Finding
from rmqlab.verdict.gaps import Gap
from rmqlab.verdict.metrics import Metric, Source

_CONTRADICTIONS: Final = ("clock_disagreement",)
"""Metrics that stay valid with a journal of another run, because they detect it."""
_NODES: Final = ("NODE", "SLAVE")
"""Targets that are brokers: these metrics need the journals of the target's broker name only."""


def weaken(
    findings: Iterable[Finding],
    gaps: Sequence[Gap],
    metrics: Iterable[Metric],
    broker_names: Mapping[str, Collection[str]] | None = None,
) -> Iterator[Finding]:
    """Yield the findings as far as they are known in spite of the gaps.

    `broker_names` are those of each broker's node, over time.
    """
    declared = {metric.name: metric for metric in metrics}
    for finding in findings:
        name, _, target = finding.metric.partition(" ")
        metric = declared.get(name)
        if metric is None:
            yield finding
            continue
        near = [gap for gap in gaps if not _is_elsewhere(gap, metric, target, broker_names or {})]
        holes = [gap for gap in near if _concerns(gap, metric, target)]
        excuses = [gap for gap in near if gap.sources & metric.excused_by]
        yield _weakened(finding, metric, holes, excuses)


def _is_elsewhere(gap: Gap, metric: Metric, target: str, broker_names: Mapping[str, Collection[str]]) -> bool:
    """True for a gap of another broker name or group than the target's."""
    needed = gap.sources & (metric.rests_on | metric.excused_by)
    if gap.process == target:
        return False
    if metric.target in _NODES and needed == {Source.BROKERS} and gap.brokers and target in broker_names:
        return gap.brokers.isdisjoint(broker_names[target])
    is_of_group = metric.target == "GROUP" and bool(target)
    return is_of_group and needed == {Source.CONSUMERS} and bool(gap.groups) and target not in gap.groups


def _concerns(gap: Gap, metric: Metric, target: str) -> bool:
    """True if a metric rests on the incomplete journal.

    A metric whose target is a process also rests on the journal of that process.
    """
    return bool(gap.sources & metric.rests_on or (metric.rests_on and gap.process == target))


def _weakened(finding: Finding, metric: Metric, holes: Sequence[Gap], excuses: Sequence[Gap]) -> Finding:
    doubts = [*(gap for gap in holes if not _is_proven(metric, gap)), *excuses]
    whole = [gap for gap in doubts if not _is_of_brokers(gap, metric)]
    if finding.value and doubts:
        brokers = frozenset[str]().union(*(gap.brokers for gap in doubts))
        certain = None if whole else finding.without(brokers, is_largest=metric.is_largest)
        every = [*holes, *(gap for gap in excuses if gap not in holes)]
        return certain or finding.withdrawn(_texts(finding, every))
    return finding.as_floor(_texts(finding, holes)) if holes else finding


def _is_proven(metric: Metric, gap: Gap) -> bool:
    """True if a value above zero is a lower bound in spite of a gap."""
    return metric.is_floor and (metric.name in _CONTRADICTIONS or not gap.may_exceed)


def _is_of_brokers(gap: Gap, metric: Metric) -> bool:
    """True if a gap concerns only what was stored at broker names that it lists."""
    return bool(gap.brokers) and gap.sources & (metric.rests_on | metric.excused_by) == {Source.BROKERS}


def _texts(finding: Finding, holes: Sequence[Gap]) -> str:
    return "; ".join([finding.missing] * bool(finding.missing) + [gap.text for gap in holes])
