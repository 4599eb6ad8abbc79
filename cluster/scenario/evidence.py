"""Weakens the findings of a run that ended early, or whose journals have gaps.

Pure. A count that is below its bound is then no violation: the missing part may have the rest.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from rmqlab.cluster.scenario.model import COUNT, Expectation, Scenario, Step
from rmqlab.runtime.journals.journalfiles import SUPERVISOR
from rmqlab.runtime.journals.schema import EVENT_TYPES
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.gaps import Gap
from rmqlab.verdict.metrics import Source

ENDED_EARLY: Final = "the run ended early"
_TIMED_OUT: Final = re.compile(r"step (\d+): .* is not true after ", re.DOTALL)
_GROWING: Final = frozenset({COUNT, "distinct", "max"})
"""Values that further events can only increase."""
_OF_FIRST_EVENT: Final = frozenset({"first", "delay"})
"""Values that later events do not change."""
_SOURCES: Final[Mapping[str, frozenset[Source]]] = {
    "workload": frozenset({Source.PRODUCERS, Source.CONSUMERS}),
    "broker": frozenset({Source.BROKERS}),
    "nameserver": frozenset({Source.NAMESERVERS}),
    "nameserver or broker": frozenset({Source.NAMESERVERS, Source.BROKERS}),
    "supervisor": frozenset({Source.SUPERVISOR}),
}
"""By source of a kind of event: the journals that have it. Any journal may have those of other sources."""


def step_that_timed_out(scenario: Scenario, failure: str) -> Step | None:
    """Return the step whose condition did not become true in its time.

    `failure` is why the run ended early; None if it is another reason.
    """
    found = _TIMED_OUT.match(failure)
    return scenario.steps[int(found[1]) - 1] if found else None


def as_far_as_seen(
    expectation: Expectation,
    finding: Finding,
    labels: Mapping[str, int],
    gaps: Iterable[Gap],
    *,
    ended_early: bool,
    late: Collection[str] = (),
) -> Finding:
    """Return a finding as a lower bound, or as unknown, where evidence is missing.

    `labels` are those that the run reached, `late` those of steps that timed out: that they were not reached in time is
    known, though the run ended there.
    """
    if not finding.is_known:
        return finding
    if expectation.metric is not None:  # the judge of metrics has weakened those that rest on a journal with gaps
        return finding.as_floor(ENDED_EARLY) if ended_early else finding
    if missing := [gap for gap in gaps if _rests_on(expectation, gap)]:
        text = "; ".join(gap.text for gap in missing)
        is_floor = expectation.take in _GROWING and not any(gap.may_exceed for gap in missing)
        return finding.as_floor(text) if is_floor else finding.withdrawn(text)
    is_over = expectation.before in labels and expectation.before != "end"
    is_over |= expectation.event == "step" and expectation.where.get("label") in late
    if not ended_early or is_over or expectation.take in _OF_FIRST_EVENT:
        return finding
    return finding.as_floor(ENDED_EARLY) if expectation.take in _GROWING else finding.withdrawn(ENDED_EARLY)


def _rests_on(expectation: Expectation, gap: Gap) -> bool:
    """Return True if the journal with the gap may have had events of an expectation."""
    kind = EVENT_TYPES[expectation.event or ""]
    if not gap.sources & _SOURCES.get(kind.source, frozenset(Source)):
        return False
    node = expectation.where.get("node")
    nodes = node if isinstance(node, list) else [node]
    return node is None or gap.process == SUPERVISOR or gap.process in nodes
