"""What a claim of a hunt is."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from rmqlab.cluster.hunt.case import Case
from rmqlab.cluster.hunt.casefile import CUT, end_label_of, label_of
from rmqlab.cluster.hunt.faults import Fault

UNEXPLAINED = {
    "content_disagreement": "messages",
    "delivered_early": "messages",
    "delivered_unstored": "messages",
    "duplicates.unexplained": "deliveries",
    "header_disagreement": "messages",
    "order.stored": "messages",
    "origin_disagreement": "messages",
    "place_disagreement": "messages",
    "store_time_disagreement": "messages",
    "stored_uncommitted": "messages",
    "stored_unsent": "messages",
    "unreadable": "messages",
}
"""Metrics that none of the faults of a hunt can move, with their units."""


@attrs.frozen(kw_only=True)
class Claim:
    """One claim."""

    name: str
    text: str
    expectations: tuple[Mapping[str, Any], ...]
    """Expectations as in a scenario file. A violated one breaks the claim."""
    while_lasting: Callable[[Case, Fault], bool] | None = None
    """Selects faults: the expectations are judged during each. None: they are judged once, for the whole run."""
    applies: Callable[[Case], bool] = lambda _: True
    """Returns True for cases in which the claim must hold."""
    empty_reason: str = ""
    """The judge's reason if the run has no event that the claim concerns. Then the claim counts as held."""
    since: str = ""
    """Label of a step: the claim is judged only in runs that reach it."""
    begin: Callable[[Case], str | None] = lambda _: None
    """Returns the label of the step from which on events count; None for the start of the run."""
    until: Callable[[Case], str | None] = lambda _: None
    """Returns the label of the step at which the claim ends; None for the end of the run."""

    def expectations_for(self, case: Case) -> list[dict[str, Any]]:
        """Return the expectations as a scenario file has them."""
        if self.while_lasting is None:
            span = {"after": self.begin(case), "before": self.until(case)}
            spans: list[dict[str, Any]] = [{key: label for key, label in span.items() if label is not None}]
        else:
            spans = [
                _span(case, number) for number, fault in enumerate(case.faults, 1) if self.while_lasting(case, fault)
            ]
        return [{**expectation, **span} for span in spans for expectation in self.expectations]


def _span(case: Case, number: int) -> dict[str, Any]:
    fault = case.faults[number - 1]
    end = CUT if fault in case.in_force_at_end() else end_label_of(number, fault)
    return {"after": label_of(number, fault), "before": end}


def reaches(label: str) -> Mapping[str, Any]:
    """Return the expectation that a run reaches a step."""
    return {"name": f"{label}: reached", "event": "step", "where": {"label": label}, "equals": "1 events"}


def is_zero(metric: str, unit: str) -> Mapping[str, Any]:
    """Return the expectation that a metric is 0."""
    return {"metric": metric, "equals": f"0 {unit}"}


def has_no_findings(brokers: Iterable[str]) -> tuple[Mapping[str, Any], ...]:
    """Return the expectations that the checks find nothing that no fault can cause."""
    clocks = {f"clock_disagreement {broker}": "s" for broker in brokers}
    return tuple(is_zero(metric, unit) for metric, unit in {**clocks, **UNEXPLAINED}.items())
