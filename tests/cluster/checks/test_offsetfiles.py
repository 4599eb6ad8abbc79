"""Offsets in brokers' files: found if set back, with explanations of lower ones."""

import pytest

from rmqlab.cluster.checks.testing import ADDRESSES, MadeUpRun
from rmqlab.runtime.journals.journalentry import JournalEntry

METRIC = "offset_file_behind broker-a"


def consumed_run(offset: int = 100, seconds: float = 60) -> MadeUpRun:
    """A consumer commits once, a minute before the run's last event.

    The master's file has it.
    """
    run = MadeUpRun()
    run.wait(60)
    run.commit(offset)
    run.wait(seconds)
    run.send(1)
    run.offset_files["broker-a"] = {"orders@shop": {0: offset}}
    return run


def set_back(run: MadeUpRun, by: int = 30) -> None:
    run.offset_files["broker-a"]["orders@shop"][0] -= by


def test_a_file_with_what_was_committed_is_right_and_one_set_back_is_found() -> None:
    run = consumed_run()
    assert run.judge()[METRIC].value == 0
    set_back(run)
    finding = run.judge()[METRIC]
    assert finding.value == 30
    assert finding.evidence[0].text == "shop, orders@broker-a:0: broker-a has offset 70 in its file, and must have 100"
    assert finding.evidence[0].entries[0].kind == "committed"


def test_a_file_without_the_group_has_lost_all_of_it() -> None:
    run = consumed_run()
    run.offset_files["broker-a"] = {}
    assert run.judge()[METRIC].value == 100


def test_a_commit_that_went_to_the_slave_is_in_the_slaves_file() -> None:
    run = consumed_run()
    run.entries[-2].fields["broker_id"] = 1  # type: ignore[index]
    run.offset_files["broker-a-s"] = {"orders@shop": {0: 90}}
    findings = run.judge()
    assert findings["offset_file_behind broker-a-s"].value == 10
    assert findings[METRIC].value is None


@pytest.mark.parametrize(("seconds", "expected"), [(5.0, None), (7.0, 30)])
def test_a_broker_that_is_killed_may_not_have_saved_the_last_seconds(seconds: float, expected: int | None) -> None:
    run = consumed_run(seconds=seconds)
    run.end("broker-a")
    set_back(run)
    assert run.judge()[METRIC].value == expected


def test_a_broker_that_stops_with_the_cluster_saves_at_once() -> None:
    run = consumed_run(seconds=2)
    set_back(run)
    assert run.judge()[METRIC].value is None
    run.add("", "cluster_stopping")
    run.end("broker-a", "stop", "node_stopped")
    assert run.judge()[METRIC].value == 30


def test_a_broker_that_is_stopped_alone_saves_at_once() -> None:
    run = consumed_run(seconds=2)
    set_back(run)
    run.end("broker-a", "stop", "node_stopped")
    assert run.judge()[METRIC].value == 30


def test_a_broker_saves_first_ten_seconds_after_its_start() -> None:
    run = MadeUpRun()
    run.commit(100)
    run.wait(9)
    run.end("broker-a")
    run.offset_files["broker-a"] = {}
    assert run.judge()[METRIC].value is None


def test_only_the_last_life_of_a_broker_counts() -> None:
    """Offsets not saved before a kill are lost, and the next run begins without them."""
    run = consumed_run(seconds=1)
    run.end("broker-a")
    run.ready("broker-a")
    run.wait(60)
    run.commit(40)
    run.wait(60)
    run.send(2)
    run.offset_files["broker-a"]["orders@shop"][0] = 40
    assert run.judge()[METRIC].value == 0


def test_a_later_commit_or_move_to_less_explains_it() -> None:
    run = consumed_run()
    run.commit(70)
    set_back(run)
    assert run.judge()[METRIC].value == 0
    run = consumed_run()
    fields = {"group": "shop", "topic": "orders", "queue_id": 0, "before": 100, "after": 70, "peer": "a tool"}
    run.add("broker-a", "offset_moved_back", **fields)
    set_back(run)
    assert run.judge()[METRIC].value == 0


def test_commits_sent_while_a_fault_was_in_force_prove_nothing() -> None:
    run = MadeUpRun()
    run.wait(60)
    run.commit(50)
    run.wait(60)
    run.add("", "fault_applied", id="f1", fault="link")
    run.commit(100)
    run.add("", "fault_healed", id="f1", fault="link")
    run.wait(60)
    run.send(1)
    run.offset_files["broker-a"] = {"orders@shop": {0: 50}}
    assert run.judge()[METRIC].value == 0
    run.offset_files["broker-a"] = {"orders@shop": {0: 45}}
    assert run.judge()[METRIC].value == 5


@pytest.mark.parametrize(("took", "queue", "expected"), [(800, 0, None), (200, 0, 30), (800, 1, 30)])
def test_a_commit_with_a_pull_that_the_broker_refused_proves_nothing(
    took: int, queue: int, expected: int | None
) -> None:
    run = MadeUpRun()
    run.wait(60)
    run.commit(100)
    run.wait(0.7)
    run.add("consume-1", "pull_failed", queue=f"orders@broker-a:{queue}", address="", error="code 24", took=took)
    run.wait(60)
    run.send(1)
    run.offset_files["broker-a"] = {"orders@shop": {0: 70}}
    assert run.judge()[METRIC].value == expected


def test_a_fault_that_began_before_the_end_may_have_kept_the_broker_from_saving() -> None:
    run = MadeUpRun()
    run.wait(60)
    run.commit(100)
    run.wait(2)
    run.add("", "fault_applied", id="f1", fault="disk")
    run.wait(8)
    run.end("broker-a")
    run.offset_files["broker-a"] = {}
    assert run.judge()[METRIC].value is None


def test_offsets_committed_to_a_frozen_broker_prove_nothing() -> None:
    run = MadeUpRun()
    run.wait(60)
    run.end("broker-a", "pause", "node_paused")
    run.commit(100)
    run.wait(30)
    run.end("broker-a")
    run.offset_files["broker-a"] = {}
    assert run.judge()[METRIC].value is None


def test_power_loss_and_a_missing_file_make_it_unknown() -> None:
    run = consumed_run()
    set_back(run)
    run.add("broker-a", "power_lost")
    assert "lost power" in run.judge()[METRIC].missing
    run = consumed_run()
    run.offset_files.clear()
    assert "could not be read" in run.judge()[METRIC].missing


@pytest.mark.parametrize(("address", "expected"), [(ADDRESSES["broker-a"], 30), (ADDRESSES["broker-a-s"], None)])
def test_a_commit_to_a_former_master_is_not_in_the_file_of_the_present_one(address: str, expected: int | None) -> None:
    """As a consumer sends it whose route is stale."""
    run = consumed_run()
    run.entries.insert(-2, target_of(run, address))
    set_back(run)
    assert run.judge()[METRIC].value == expected


def target_of(run: MadeUpRun, address: str) -> JournalEntry:
    """Return the event of a consumer that commits to an address."""
    fields = {"broker_name": "broker-a", "broker_id": 0, "address": address}
    return JournalEntry(run.entries[-2].at_millis, "consume-1", "committing_to", fields)
