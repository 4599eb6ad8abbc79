"""Backward steps of clocks, detected in the journal of one process.

A process appends its entries in the order of events. An entry dated before its predecessor shows that the wall clock of
the process went back: it was set back, or corrected after it was ahead. This needs no other process, so it also finds
the steps of consumers, nameservers and slaves, whose times are not compared with others.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from rmqlab.verdict.findings import Evidence, Finding
from rmqlab.verdict.roles import Roles

TOLERANCE: Final = 1000
"""Minimum step in milliseconds; also the tolerance between the clocks of two nodes."""
_METRIC: Final = "clock_disagreement"


def faulted_clocks(faults: Iterable[tuple[int, Mapping[str, Any]]], roles: Roles) -> frozenset[str]:
    """Return the nodes whose clocks a `clock` fault changed.

    `faults` are time and fields of each `fault_applied`. If such a node disagrees with another node, its own clock
    counts as wrong.
    """
    clocks = ((at, str(fields.get("target"))) for at, fields in faults if fields.get("fault") == "clock")
    return frozenset(node for at, target in clocks for node in roles.resolve_target(target, at))


def with_clock_steps(findings: Iterable[Finding], went_back: Mapping[str, int]) -> Iterator[Finding]:
    """Yield the findings; add the steps of clocks to the findings about them.

    `went_back` are milliseconds by process. The finding keeps a larger difference to another node.
    """
    steps = {f"{_METRIC} {process}": millis for process, millis in went_back.items() if millis > TOLERANCE}
    for finding in findings:
        millis = steps.pop(finding.metric, 0)
        yield _with_step(finding, millis) if millis else finding
    for metric, millis in sorted(steps.items()):
        yield _with_step(Finding(metric=metric, unit="s", value=0.0), millis)


def _with_step(finding: Finding, millis: int) -> Finding:
    node = finding.metric.partition(" ")[2]
    text = f"the journal of {node} goes back by {millis / 1000:.2f} s from one entry to the next ones"
    return attrs.evolve(
        finding,
        value=max(finding.value or 0.0, millis / 1000),
        is_at_least=True,
        evidence=(*finding.evidence, Evidence(text=text)),
    )
