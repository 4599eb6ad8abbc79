"""Bounds against findings: holding, violated and unknown ones."""

from typing import Any

import attrs
import pytest

from rmqlab.cluster.scenario.judge import Allowance, judge_expectation
from rmqlab.cluster.scenario.model import Expectation
from rmqlab.cluster.scenario.quantity import Quantity
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.verdict import Verdict, worst

HOLDS, VIOLATED, UNKNOWN = Verdict.HOLDS, Verdict.VIOLATED, Verdict.UNKNOWN


def seconds(value: float | None, *, is_at_least: bool = False) -> Finding:
    return Finding(metric="m", unit="s", value=value, is_at_least=is_at_least, missing="" if value else "all of it")


def verdict(finding: Finding, late: float = 0.0, same: Finding | None = None, **bounds: Any) -> Verdict:
    read: dict[str, Any] = {key: Quantity.parse(bound) for key, bound in bounds.items()}
    return judge_expectation(Expectation(metric="m", **read), finding, Allowance(late=late), same).verdict


@pytest.mark.parametrize(
    ("finding", "bounds", "expected"),
    [
        (seconds(5), {"at_most": "5 s"}, HOLDS),
        (seconds(5.1), {"at_most": "5 s"}, VIOLATED),
        (seconds(5), {"at_least": "5 s"}, HOLDS),
        (seconds(4.9), {"at_least": "5 s"}, VIOLATED),
        (seconds(5), {"at_least": "1 s", "at_most": "6 s"}, HOLDS),
        (seconds(7), {"at_least": "1 s", "at_most": "6 s"}, VIOLATED),
        (seconds(5), {"equals": "5 s"}, HOLDS),
        (seconds(6), {"equals": "5 s"}, VIOLATED),
        (seconds(None), {"at_most": "5 s"}, UNKNOWN),
        # The run ended before the whole was seen: the truth is this or more.
        (seconds(4, is_at_least=True), {"at_most": "5 s"}, UNKNOWN),
        (seconds(6, is_at_least=True), {"at_most": "5 s"}, VIOLATED),
        (seconds(4, is_at_least=True), {"at_least": "5 s"}, UNKNOWN),
        (seconds(6, is_at_least=True), {"at_least": "5 s"}, HOLDS),
    ],
)
def test_a_bound_holds_is_violated_or_is_unknown(finding: Finding, bounds: dict[str, Any], expected: Verdict) -> None:
    assert verdict(finding, **bounds) is expected


def test_times_have_an_allowance_and_counts_do_not() -> None:
    assert verdict(seconds(5.5), late=1.0, at_most="5 s") is HOLDS
    assert verdict(seconds(4.5), late=1.0, at_least="5 s") is HOLDS
    assert verdict(seconds(6.5), late=1.0, at_most="5 s") is VIOLATED
    count = Finding(metric="lost", unit="messages", value=1)
    assert verdict(count, late=9.0, at_most="0 messages") is VIOLATED


@pytest.mark.parametrize(
    ("take", "found", "expected"),
    [("min", 2.99, HOLDS), ("min", 2.97, VIOLATED), ("min", 3.9, HOLDS), ("delay", 2.2, HOLDS), ("min", 4.1, VIOLATED)],
)
def test_times_measured_by_one_process_may_be_late_but_not_early(take: str, found: float, expected: Verdict) -> None:
    at_least, at_most = Quantity(3, "s"), Quantity(3, "s")
    bound = Expectation(event="sent", take=take, field="took", at_least=at_least, at_most=at_most)
    judged = judge_expectation(bound, seconds(found), Allowance(late=1.0, rounded=0.02))
    assert judged.verdict is expected
    assert judged.bound.endswith("(± 1.0 s)" if take == "delay" else "(+ 1.0 s)")
    below = attrs.evolve(bound, at_most=None)
    assert ("(" in judge_expectation(below, seconds(found), Allowance(late=1.0)).bound) is (take == "delay")


def test_one_metric_may_be_held_to_another() -> None:
    lost, missing = (Finding(metric="m", unit="messages", value=value) for value in (3, 4))
    assert verdict(lost, same=lost) is HOLDS
    assert verdict(lost, same=missing) is VIOLATED
    assert verdict(lost, same=Finding(metric="m", unit="messages", value=None)) is UNKNOWN


def test_the_worst_of_many_counts() -> None:
    assert worst([]) is HOLDS
    assert worst([HOLDS, UNKNOWN]) is UNKNOWN
    assert worst([HOLDS, UNKNOWN, VIOLATED]) is VIOLATED
    assert [it.exit_status for it in (HOLDS, VIOLATED, UNKNOWN)] == [0, 1, 2]


def test_a_violation_includes_its_evidence_and_a_success_does_not() -> None:
    finding = Finding(metric="lost", unit="messages", value=1, message_ids=("A1",))
    bad = judge_expectation(Expectation(metric="lost", equals=Quantity(0, "messages")), finding, Allowance())
    assert bad.as_json()["message_ids"] == ["A1"]
    assert (bad.bound, bad.found) == ("exactly 0 messages", "1 message")
    good = judge_expectation(Expectation(metric="lost", equals=Quantity(1, "messages")), finding, Allowance())
    assert "message_ids" not in good.as_json()
