"""Findings that rest on a clock that disagrees with others: withdrawn."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from rmqlab.verdict.findings import Finding

_OF_GROUPS: Final = ("offset_rollbacks", "rolled_back", "group_read_unavailable", "order.delivered")
"""Metrics of a consumer group that compare times of its members with those of others."""


def withdraw_doubtful(findings: Iterable[Finding], groups: Mapping[str, str]) -> Iterator[Finding]:
    """Yield all findings, with those that `clock_disagreement` contradicts as unknown.

    Source: issue 14.8. `groups` are the consumer groups by node. The sum of all groups' rollbacks counts those of the
    other groups only, and is at least that.
    """
    found = list(findings)
    doubts = dict(_doubts(found, groups))
    withdrawn = [one for one in found if _is_doubtful(one, doubts)]
    rollbacks = sum(one.value or 0 for one in withdrawn if one.metric.startswith("offset_rollbacks "))
    for one in found:
        if _is_doubtful(one, doubts):
            yield attrs.evolve(one, value=None, is_at_least=False, missing=doubts[one.metric.partition(" ")[2]])
        elif one.metric == "offset_rollbacks" and doubts and one.value is not None:
            yield attrs.evolve(one, value=one.value - rollbacks, is_at_least=True, says="; ".join(doubts.values()))
        else:
            yield one


def _doubts(findings: Iterable[Finding], groups: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Why the times of one of a group's members are unusable, by group."""
    for one in findings:
        name, _, node = one.metric.partition(" ")
        if name == "clock_disagreement" and one.value and node in groups:
            yield groups[node], f"the clock of {node} is {one.value:.1f} s or more from those of others"


def _is_doubtful(finding: Finding, doubts: Mapping[str, str]) -> bool:
    name, _, target = finding.metric.partition(" ")
    return name in _OF_GROUPS and target in doubts
