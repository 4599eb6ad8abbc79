"""Delayed messages that were stored in their own topic before they were due."""

from pathlib import Path

import attrs
import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.runtime.journals.journal import JournalEntry
from rmqlab.verdict.duetimes import why_unknown
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.judgement import Conditions
from tests.cluster.plant.smallrun import made_up_run, write_run

METRIC = "delivered_early"
DELAY = 1000
"""That of level 1, in ms."""


def with_delay(run: MadeUpRun, waited: int) -> MadeUpRun:
    """Let the last message have been delivered so many ms after it was delayed."""
    for log in run.logs.values():
        waiting = [copy for copy in log if copy.queue.topic == SCHEDULE_TOPIC][-1]
        log[-1] = attrs.evolve(log[-1], stored_at=waiting.stored_at + waited)
    return run


def judged(run: MadeUpRun, directory: Path) -> Finding:
    return judge_directory(write_run(run, directory / "run"))[METRIC]


@pytest.mark.parametrize("waited", [DELAY, DELAY + 1, 7000])
def test_a_message_may_be_delivered_at_its_time_and_later(tmp_path: Path, waited: int) -> None:
    assert judged(with_delay(made_up_run(), waited), tmp_path).value == 0


@pytest.mark.parametrize("waited", [DELAY - 1, 100, 0])
def test_a_message_that_was_delivered_earlier_is_named(tmp_path: Path, waited: int) -> None:
    found = judged(with_delay(made_up_run(), waited), tmp_path)
    assert found.value == 1
    assert len(found.message_ids) == 1
    assert f", {DELAY - waited} ms early" in found.evidence[0].text


def test_a_message_with_a_failed_attempt_may_have_been_delayed_before(tmp_path: Path) -> None:
    run = with_delay(made_up_run(), 100)
    failure = JournalEntry(run.now, "produce-1", "attempt_failed", {"message_id": run.logs["broker-a"][-1].message_id})
    run.entries.insert(-9, attrs.evolve(failure, at_millis=run.entries[-10].at_millis))
    assert judged(run, tmp_path).value == 0


def test_after_a_removal_nothing_is_compared(tmp_path: Path) -> None:
    run = with_delay(made_up_run(), 100)
    run.entries.insert(20, JournalEntry(run.entries[19].at_millis, "broker-a-s", "log_dropped", {"before": 5}))
    assert judged(run, tmp_path).value == 0


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        ("fault_applied", {"id": "f1", "fault": "clock", "target": "broker-a"}, "a fault set clocks"),
        ("settings_changed", {"changes": {"messageDelayLevel": "1s"}}, "brokers had different delay levels"),
    ],
)
def test_it_is_unknown_if_due_times_may_have_changed(
    tmp_path: Path, kind: str, fields: dict[str, object], why: str
) -> None:
    run = with_delay(made_up_run(), 100)
    node = "broker-a" if kind == "settings_changed" else ""
    run.entries.insert(20, JournalEntry(run.entries[19].at_millis, node, kind, fields))
    found = judged(run, tmp_path)
    assert found.value is None
    assert found.missing.startswith(why)


@pytest.mark.parametrize(("millis", "why"), [(900, ""), (5000, "the clock of broker-a went back")])
def test_it_is_unknown_if_a_journal_shows_that_a_clock_went_back(millis: int, why: str) -> None:
    found = why_unknown(Conditions(went_back={"broker-a": millis}), has_sends=True, has_stores=True)
    assert found.partition(",")[0] == why


def test_a_run_without_delayed_messages_has_none() -> None:
    run = MadeUpRun()
    run.send(1)
    assert run.judge()[METRIC].value == 0
