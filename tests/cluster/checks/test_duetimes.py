"""Delayed messages that were stored in their own topic before they were due."""

from pathlib import Path

import attrs
import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.checks.duetimes import judge as judge_early
from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.cluster.plant.kinds import KINDS
from rmqlab.cluster.plant.planting import plant
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.duetimes import at_right_clocks, wrong_clocks
from rmqlab.verdict.findings import Finding
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


def test_an_entry_with_an_earlier_time_excuses_nothing(tmp_path: Path) -> None:
    planted = plant(write_run(made_up_run(), tmp_path / "run"), KINDS["entered-early-both"], tmp_path / "copy")
    assert judge_directory(tmp_path / "copy")[METRIC].message_ids == planted.change.victims


@pytest.mark.parametrize(
    "text", ["message_delay_level = 5", 'message_delay_level = "soon"', "[", 'message_delay_level = "0s"']
)
def test_without_known_delays_the_entry_says_when_a_message_is_due(tmp_path: Path, text: str) -> None:
    plant(write_run(made_up_run(), tmp_path / "run"), KINDS["entered-early-both"], tmp_path / "copy")
    for node in ("broker-a", "broker-a-s"):
        (tmp_path / "copy" / node / "config.toml").write_text(text)
    assert judge_directory(tmp_path / "copy")[METRIC].value == 0


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
        ("fault_applied", {"id": "f1", "fault": "clock", "target": "broker-a"}, "a fault set the clock of broker-a"),
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


@pytest.mark.parametrize(
    ("node", "millis", "is_known"),
    [
        ("broker-a", 900, True),
        ("broker-a", 5000, False),
        ("broker-a-s", 5000, True),
        ("produce-1", 5000, True),
        ("consume-1", 5000, True),
        ("namesrv-1", 5000, True),
    ],
)
def test_only_the_clock_of_a_master_matters(node: str, millis: int, *, is_known: bool) -> None:
    run = with_delay(made_up_run(), 100)
    (found,) = judge_early(run.history(), run.stores(), Conditions(went_back={node: millis}))
    wrong = wrong_clocks(Conditions(went_back={node: millis}), (), run.history().roles)
    assert wrong == ({} if is_known else {"broker-a": "the clock of broker-a went back, perhaps while messages waited"})
    assert found.is_known is is_known


def test_a_slave_that_was_promoted_delivers_by_its_own_clock() -> None:
    run = MadeUpRun()
    run.end("broker-a-s")
    run.ready("broker-a-s", broker_id=0)
    assert wrong_clocks(Conditions(went_back={"broker-a-s": 5000}), (), run.history().roles).keys() == {"broker-a"}


def test_the_clock_of_another_group_does_not_matter() -> None:
    early = Finding(metric=METRIC, unit="messages", value=3)
    parts = {frozenset({name}): attrs.evolve(early, value=nth) for nth, name in ((1, "broker-a"), (2, "broker-b"))}
    early, wrong = attrs.evolve(early, parts=parts), {"broker-a": "it went back"}
    known = at_right_clocks(early, wrong, ["broker-a", "broker-b"])
    assert (known.value, known.is_at_least) == (2, True)
    assert at_right_clocks(early, wrong, ["broker-b"]) == early, "broker-a delays nothing"
    assert at_right_clocks(attrs.evolve(early, value=0, parts={}), wrong, ["broker-a"]).missing == "it went back"


def test_a_run_without_delayed_messages_has_none() -> None:
    run = MadeUpRun()
    run.send(1)
    assert run.judge()[METRIC].value == 0
