"""Withdraws findings that depend on a clock that disagrees with others."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import attrs

from rmqlab.verdict.findings import Finding

_OF_GROUPS: Final = ("offset_rollbacks", "rolled_back", "group_read_unavailable", "order.delivered")
"""Metrics of a consumer group that compare times of its members with those of others."""
_OF_CONSUMERS: Final = ("offset_file_behind",)
"""Metrics that compare times of any consumer with those of brokers and of the supervisor."""
_OF_OWN_OFFSETS: Final = ("own_offsets_overwritten",)
"""Metrics that compare times of any consumer with those of the target, a slave."""
_OF_WATCHERS: Final = ("detection", "stale_route", "missing_route")
"""Metrics that compare times of their target with those of the supervisor."""
_OF_SLAVES: Final = ("replication_lag", "replication_lag_left", "replication_lag_duration")
"""Metrics that compare times of a slave and of its masters."""
_ROLLBACKS: Final = "offset_rollbacks"


@attrs.frozen(kw_only=True)
class ClockDependencies:
    """The nodes whose clocks metrics depend on."""

    groups: Mapping[str, Collection[str]]
    """All consumer groups by node, for each node that consumed or committed."""
    senders: Collection[str]
    """Nodes that sent messages."""
    masters: Mapping[str, Collection[str]]
    """The masters of each slave, over time."""


def withdraw_doubtful(findings: Iterable[Finding], dependencies: ClockDependencies) -> Iterator[Finding]:
    """Yield all findings; those that depend on a wrong clock become unknown.

    Source: issue 14.8. The sum of all groups' rollbacks counts those of the other groups only, and is at least that.
    """
    found = list(findings)
    doubts = {
        node: f"the clock of {node} is {one.value:.1f} s or more from those of others"
        for one in found
        for name, _, node in [one.metric.partition(" ")]
        if name == "clock_disagreement" and one.value
    }
    nameservers = [one.metric.partition(" ")[2] for one in found if one.metric.startswith("missing_route ")]
    needed = {
        one.metric: nameservers if one.metric == "route_disagreement" else _nodes(one, dependencies) for one in found
    }
    why = {metric: "; ".join(doubts[node] for node in nodes if node in doubts) for metric, nodes in needed.items()}
    rollbacks = sum(one.value or 0 for one in found if why[one.metric] and one.metric.startswith(f"{_ROLLBACKS} "))
    of_groups = [doubts[node] for node in dependencies.groups if node in doubts]
    for one in found:
        if why[one.metric]:
            yield one.withdrawn(why[one.metric])
        elif one.metric == _ROLLBACKS and of_groups and one.value is not None:
            yield attrs.evolve(one, value=one.value - rollbacks, is_at_least=True, text="; ".join(of_groups), parts={})
        else:
            yield one


def _nodes(finding: Finding, dependencies: ClockDependencies) -> Iterable[str]:
    """Return the nodes whose clocks a finding depends on."""
    name, _, target = finding.metric.partition(" ")
    if name in _OF_GROUPS and target:
        return [node for node, groups in dependencies.groups.items() if target in groups]
    if name in _OF_CONSUMERS:
        return dependencies.groups
    if name in _OF_OWN_OFFSETS and finding.value:
        return dict.fromkeys((target, *dependencies.groups))
    if name in _OF_WATCHERS:
        return (target,)
    if name in _OF_SLAVES:
        return dict.fromkeys((target, *dependencies.masters.get(target, ())))
    if name == "order.stored" or (name in ("unreplicated", "origin_disagreement") and finding.value):
        return dependencies.senders
    return ()
