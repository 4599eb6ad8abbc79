"""Findings of runs that ended early, and of journals with gaps."""

from typing import Any

import pytest

from rmqlab.cluster.scenario.evidence import as_far_as_seen, step_that_timed_out
from rmqlab.cluster.scenario.model import Expectation, Scenario, Step
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.gaps import Gap
from rmqlab.verdict.metrics import Source

LABELS = {"begin": 0, "death": 5, "end": 9}
BROKER = Gap(process="broker-a", sources=frozenset({Source.BROKERS}), text="broker-a: entries 3 to 5 are missing")
REPEATS = Gap(process="cluster", sources=frozenset({Source.SUPERVISOR}), text="entry 3 twice", may_exceed=True)


def seen(what: dict[str, Any], value: float, gaps: tuple[Gap, ...] = (), *, ended_early: bool = False) -> str:
    """Return the finding as `5`, `at least 5`, or what is missing."""
    expectation = Expectation(**what)
    found = Finding(metric="m", unit="events", value=value)
    finding = as_far_as_seen(expectation, found, LABELS, gaps, ended_early=ended_early)
    return finding.missing if finding.value is None else f"{'at least ' * finding.is_at_least}{finding.value}"


@pytest.mark.parametrize(
    ("what", "value", "expected"),
    [
        ({"event": "sent"}, 5, "at least 5"),
        ({"event": "sent"}, 0, "the run ended early"),
        ({"event": "sent", "before": "end"}, 5, "at least 5"),
        ({"event": "sent", "before": "death"}, 5, "5"),
        ({"event": "sent", "take": "max", "field": "took"}, 5, "at least 5"),
        ({"event": "sent", "take": "distinct", "field": "took"}, 5, "at least 5"),
        ({"event": "sent", "take": "min", "field": "took"}, 5, "the run ended early"),
        ({"event": "sent", "take": "last", "field": "took"}, 5, "the run ended early"),
        ({"event": "sent", "take": "first", "field": "took"}, 5, "5"),
        ({"event": "sent", "take": "delay"}, 5, "5"),
        ({"metric": "lost"}, 5, "at least 5"),
        ({"metric": "lost"}, 0, "the run ended early"),
    ],
)
def test_of_a_run_that_ended_early_only_what_later_events_cannot_change_is_known(
    what: dict[str, Any], value: float, expected: str
) -> None:
    assert seen(what, value, ended_early=True) == expected
    assert seen(what, value) == str(value)


def test_a_step_that_timed_out_was_not_reached() -> None:
    found = Finding(metric="m", unit="events", value=0)
    for label, value in (("writes are back", 0), ("all is consumed", None)):
        expectation = Expectation(event="step", where={"label": label})
        finding = as_far_as_seen(expectation, found, LABELS, (), ended_early=True, late=["writes are back"])
        assert finding.value == value, "later steps might have been reached"


@pytest.mark.parametrize(
    ("failure", "index"),
    [
        ("step 2: 'ready' is not true after 9 s; last seen: broker-a\nis starting", 1),
        ("step 1: 'ready' is not true after 120 s", 0),
        ("step 2: broker-a is dead", None),
        ("the run was interrupted", None),
    ],
)
def test_the_step_that_timed_out_is_found_by_the_failure(failure: str, index: int | None) -> None:
    steps = (Step(wait="ready"), Step(wait="ready", within=9.0))
    scenario = Scenario(name="n", claim="c", cluster=ClusterSpec(), steps=steps)
    assert step_that_timed_out(scenario, failure) is (None if index is None else steps[index])


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ({"event": "registered"}, "at least 5"),
        ({"event": "events_dropped"}, f"{BROKER.text}; {REPEATS.text}"),
        ({"event": "registered", "take": "delay"}, BROKER.text),
        ({"event": "registered", "take": "min", "field": "nameserver"}, BROKER.text),
        ({"event": "registered", "where": {"node": "broker-a"}}, "at least 5"),
        ({"event": "registered", "where": {"node": ["broker-b", "broker-c"]}}, "5"),
        ({"event": "sent"}, "5"),
        ({"event": "node_killed", "where": {"node": "broker-a"}}, REPEATS.text),
        ({"metric": "lost"}, "5"),
    ],
)
def test_a_gap_weakens_the_events_that_its_journal_may_have_had(what: dict[str, Any], expected: str) -> None:
    assert seen(what, 5, (BROKER, REPEATS)) == expected
