"""Counts of journal events, and their unknown values."""

from typing import Any

import pytest

from rmqlab.cluster.scenario.model import Expectation
from rmqlab.cluster.scenario.observation import labels_of, observe
from rmqlab.cluster.scenario.quantity import Quantity
from rmqlab.runtime.journals.journalentry import JournalEntry

BOUND: dict[str, Any] = {"equals": "x"}


def step(at: int, label: str) -> JournalEntry:
    return JournalEntry(at, "", "step", {"number": 1, "label": label, "action": ""})


def sent(at: int, outcome: str, took: int, node: str = "orders") -> JournalEntry:
    return JournalEntry(at, node, "sent", {"outcome": outcome, "took": took, "message_id": f"M{at}", "attempts": 1})


ENTRIES = [
    step(0, "begin"),
    sent(100, "SEND_OK", 5),
    step(1000, "death"),
    sent(1500, "refused", 3000),
    sent(2500, "SEND_OK", 7, "other"),
    step(3000, "back"),
    sent(3500, "SEND_OK", 9),
    step(9000, "end"),
    sent(9500, "SEND_OK", 9999),
]


def value(**what: Any) -> float | None:
    return observe(Expectation(event="sent", **what, **BOUND), ENTRIES, labels_of(ENTRIES)).value


def test_events_between_two_labels_are_counted() -> None:
    assert value() == 4
    assert value(after="death") == 3
    assert value(after="death", before="back") == 2
    assert value(where={"outcome": "SEND_OK"}) == 3
    assert value(where={"outcome": ["SEND_OK", "refused"], "node": "orders"}) == 3
    assert value(where={"outcome": ["refused", "indeterminate"]}) == 1
    assert value(where={"outcome": "indeterminate"}) == 0


def test_a_value_is_the_first_the_last_the_least_or_the_greatest_and_times_are_seconds() -> None:
    assert value(take="first", field="took") == 0.005
    assert value(take="last", field="took") == 0.009
    assert value(take="max", field="took") == 3.0
    assert value(take="min", field="took", after="death") == 0.007
    assert value(take="distinct", field="outcome") == 2
    assert value(take="last", field="attempts") == 1


def test_a_delay_is_from_the_label_to_the_first_event() -> None:
    assert value(take="delay", after="death", where={"outcome": "SEND_OK"}) == 1.5


@pytest.mark.parametrize(
    ("what", "missing"),
    [
        ({"after": "never"}, "the run did not reach 'never'"),
        ({"take": "delay", "after": "death", "where": {"outcome": "indeterminate"}}, "no such sent between"),
        ({"take": "max", "field": "took", "where": {"outcome": "indeterminate"}}, "no sent has took"),
        ({"take": "max", "field": "outcome"}, "outcome is not a number"),
        ({"take": "first", "field": "error"}, "no sent has error"),
    ],
)
def test_an_unknown_finding_names_the_missing_evidence(what: dict[str, Any], missing: str) -> None:
    finding = observe(Expectation(event="sent", **what, **BOUND), ENTRIES, labels_of(ENTRIES))
    assert finding.value is None
    assert missing in finding.missing


MEASURED = [
    step(0, "begin"),
    JournalEntry(5, "broker-a", "measured", {"what": "role", "value": "MASTER", "label": "role"}),
    JournalEntry(6, "broker-a", "measured", {"what": "leads", "value": True, "label": "leads"}),
    step(9, "end"),
]


@pytest.mark.parametrize("label", ["role", "leads"])
def test_a_bound_of_a_number_is_unknown_for_another_value(label: str) -> None:
    wanted: dict[str, Any] = {"take": "first", "field": "value", "where": {"label": label}}
    finding = observe(
        Expectation(event="measured", **wanted, at_least=Quantity(0, "bytes")), MEASURED, labels_of(MEASURED)
    )
    assert finding.value is None
    assert finding.missing.startswith("value is not a number: ")


def test_a_word_is_compared_with_a_text_or_a_flag() -> None:
    wanted: dict[str, Any] = {"event": "measured", "field": "value", **BOUND}
    first = observe(Expectation(take="first", **wanted), MEASURED, labels_of(MEASURED))
    last = observe(Expectation(take="last", **wanted), MEASURED, labels_of(MEASURED))
    assert (first.text, last.text) == ("MASTER", "true")


def test_a_finding_carries_the_events_and_their_messages() -> None:
    finding = observe(Expectation(event="sent", where={"outcome": "refused"}, **BOUND), ENTRIES, labels_of(ENTRIES))
    assert finding.message_ids == ("M1500",)
    assert finding.evidence[0].entries == (ENTRIES[3],)
