"""Duplicates at consumers without the queue, or that share it too long."""

from collections.abc import Callable, Sequence

import pytest

from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.runtime.journals.journalentry import OPENED
from rmqlab.verdict.findings import Findings

CONSUMERS = ("consume-1", "consume-2")


def assign(
    run: MadeUpRun, node: str, added: Sequence[int] = (), removed: Sequence[int] = (), topic: str = "orders"
) -> None:
    """End a round of assignments."""
    names = {"added": added, "removed": removed}
    queues = {name: [f"{topic}@broker-a:{queue}" for queue in found] for name, found in names.items()}
    run.add(node, "rebalanced", topic=topic, held=[], **queues)


def run_of_two(first: Sequence[int], second: Sequence[int]) -> MadeUpRun:
    """Start two consumers with these queues, and send a message to queue 0."""
    run = MadeUpRun()
    run.send(0)
    for node, queues in zip(CONSUMERS, (first, second), strict=True):
        run.add(node, OPENED, run="a")
        assign(run, node, queues)
    return run


def causes(findings: Findings) -> list[str]:
    """The causes that have deliveries."""
    names = ("client_retry", "offset_rollback", "rebalance", "redelivery", "unexplained")
    return [name for name in names if findings[f"duplicates.{name}"].value]


def go_on(run: MadeUpRun) -> None:
    """Let both consumers live for two minutes more."""
    run.wait(120)
    for node in CONSUMERS:
        run.add(node, "consumed", delivered=1)


def deliver_to_both(run: MadeUpRun) -> None:
    for node in CONSUMERS:
        run.deliver(0, 0, node)


def test_a_consumer_without_the_queue_gets_no_duplicate_by_a_rebalance() -> None:
    run = run_of_two([0], [1])
    deliver_to_both(run)
    go_on(run)
    found = run.judge()["duplicates.unexplained"]
    assert (found.value, found.message_ids) == (1, ("ID000000",))
    assert "consume-2 received it without orders@broker-a:0" in found.evidence[0].text


def test_a_queue_that_the_round_under_way_adds_is_a_rebalance() -> None:
    run = run_of_two([0], [1])
    deliver_to_both(run)
    assign(run, "consume-2", [0])
    go_on(run)
    assert causes(run.judge()) == ["rebalance"]


def test_a_queue_that_a_later_round_does_not_add_is_unexplained() -> None:
    run = run_of_two([0], [1])
    deliver_to_both(run)
    assign(run, "consume-2", [2])
    assign(run, "consume-2", [0])
    go_on(run)
    assert causes(run.judge()) == ["unexplained"]


def end_soon(run: MadeUpRun) -> None:
    """The process ends before its round has."""


def kill_and_start(run: MadeUpRun) -> None:
    run.end("consume-2")
    run.wait(100)
    run.add("consume-2", OPENED, run="a")
    assign(run, "consume-2", [1])
    go_on(run)


@pytest.mark.parametrize("change", [end_soon, kill_and_start])
def test_a_round_that_its_process_did_not_end_is_a_rebalance(change: Callable[[MadeUpRun], None]) -> None:
    run = run_of_two([0], [1])
    deliver_to_both(run)
    change(run)
    assert causes(run.judge()) == ["rebalance"]


@pytest.mark.parametrize(("calls", "expected"), [(20, ["rebalance"]), (21, ["rebalance", "unexplained"])])
def test_calls_under_way_when_a_queue_is_released_are_a_rebalance(calls: int, expected: list[str]) -> None:
    run = run_of_two([], [0])
    for number in range(1, calls):
        run.send(number)
    assign(run, "consume-2", removed=[0])
    assign(run, "consume-1", [0])
    for node in CONSUMERS:
        for number in range(calls):
            run.deliver(number, number, node)
    go_on(run)
    assert causes(run.judge()) == expected


def test_a_journal_without_rounds_says_nothing_of_queues() -> None:
    run = run_of_two([0], [1])
    run.entries = [one for one in run.entries if (one.node, one.kind) != ("consume-2", "rebalanced")]
    deliver_to_both(run)
    go_on(run)
    assert causes(run.judge()) == ["rebalance"]


def test_a_round_while_the_cluster_stops_counts() -> None:
    run = run_of_two([0], [1])
    run.add("", "cluster_stopping")
    assign(run, "consume-2", [0])
    deliver_to_both(run)
    run.deliver(0, 0)
    assign(run, "consume-1", removed=[0])
    assign(run, "consume-1", [0])
    run.deliver(0, 0)
    go_on(run)
    assert causes(run.judge()) == ["rebalance"]


def test_a_list_of_queues_that_was_cut_says_nothing() -> None:
    run = run_of_two([0], [1])
    run.change_last(added=["orders@broker-a:1", "...(3 more)"])
    deliver_to_both(run)
    go_on(run)
    assert causes(run.judge()) == ["rebalance"]


@pytest.mark.parametrize(("seconds", "cause"), [(179, "rebalance"), (181, "unexplained")])
def test_two_holders_at_once_are_a_rebalance_for_three_minutes(seconds: float, cause: str) -> None:
    run = run_of_two([0], [0])
    run.wait(seconds)
    deliver_to_both(run)
    go_on(run)
    findings = run.judge()
    assert causes(findings) == [cause]
    if cause == "unexplained":
        text = findings["duplicates.unexplained"].evidence[0].text
        assert "consume-1 and consume-2 had both held orders@broker-a:0 for 181 s" in text


def test_commits_of_one_holder_do_not_explain_what_the_other_receives() -> None:
    run = run_of_two([0], [0])
    run.wait(200)
    run.deliver(0, 0)
    run.commit(1)
    run.deliver(0, 0, "consume-2")
    go_on(run)
    assert causes(run.judge()) == ["unexplained"]


def fault(run: MadeUpRun) -> None:
    run.add("", "fault_applied", id="f1", fault="isolate", target="consume-1")
    run.wait(200)


def pause(run: MadeUpRun) -> None:
    run.end("broker-a-s", "pause", "node_paused")
    run.wait(200)


def fail(run: MadeUpRun) -> None:
    run.wait(200)
    run.add("consume-1", "pull_failed", queue="orders@broker-a:0", address="x", error="y", took=20)


def operate(run: MadeUpRun) -> None:
    run.add("", "operated", operation="update-topic orders", result={})
    run.wait(200)


@pytest.mark.parametrize("disturb", [fault, pause, fail, operate])
def test_a_disturbance_may_be_why_two_hold_a_queue_at_once(disturb: Callable[[MadeUpRun], None]) -> None:
    run = run_of_two([0], [0])
    disturb(run)
    deliver_to_both(run)
    go_on(run)
    assert causes(run.judge()) == ["rebalance"]


def test_a_disturbance_that_is_long_over_is_no_cause() -> None:
    run = run_of_two([0], [0])
    fault(run)
    run.add("", "fault_healed", id="f1", fault="isolate", target="consume-1")
    run.wait(200)
    deliver_to_both(run)
    go_on(run)
    assert causes(run.judge()) == ["unexplained"]


def test_a_queue_that_was_assigned_after_the_first_delivery_is_a_rebalance() -> None:
    run = run_of_two([0], [1])
    run.wait(300)
    run.deliver(0, 0)
    run.wait(300)
    assign(run, "consume-2", [0])
    run.wait(300)
    run.deliver(0, 0, "consume-2")
    go_on(run)
    assert causes(run.judge()) == ["rebalance"]


def test_a_redelivery_that_comes_again_needs_a_cause() -> None:
    run = run_of_two([0], [])
    for times in (0, 1, 2, 2):
        run.deliver(0, 0, times=times)
    findings = run.judge()
    assert findings["duplicates.redelivery"].value == 2
    assert findings["duplicates.unexplained"].value == 1
    assert findings["duplicates.unexplained"].message_ids == ("ID000000",)


def test_redeliveries_from_the_start_again_after_a_rebalance_are_in_order() -> None:
    run = run_of_two([0], [])
    for _ in range(2):
        for times in (0, 1, 2):
            run.deliver(0, 0, times=times)
        assign(run, "consume-1", [0])
    findings = run.judge()
    assert {cause: findings[f"duplicates.{cause}"].value for cause in causes(findings)} == {
        "redelivery": 2,
        "rebalance": 3,
    }


def test_a_retry_topic_that_changed_hands_is_a_rebalance() -> None:
    run = run_of_two([0], [])
    assign(run, "consume-1", [0], topic="%RETRY%shop")
    run.deliver(0, 0, times=1)
    assign(run, "consume-2", [0], topic="%RETRY%shop")
    run.deliver(0, 0, "consume-2", times=1)
    run.deliver(0, 0, times=1)
    go_on(run)
    assert causes(run.judge()) == ["rebalance"]


def test_a_retry_topic_whose_offset_moved_back_is_a_rollback() -> None:
    run = run_of_two([0], [])
    run.deliver(0, 3, times=0)
    for _ in range(2):
        run.deliver(0, 0, times=1)
        run.add("broker-a-s", "consumer_offsets_overwritten", key="%RETRY%shop@shop", queues={0: [5, 0]})
    assert causes(run.judge()) == ["offset_rollback", "redelivery"]


@pytest.mark.parametrize(("calls", "cause"), [(20, "rebalance"), (21, "unexplained")])
def test_calls_under_way_when_a_queue_is_assigned_again_are_a_rebalance(calls: int, cause: str) -> None:
    """A play of a simulated cluster found calls of 20 s each."""
    run = run_of_two([0], [])
    for number in range(1, calls):
        run.send(number)
    assign(run, "consume-1", removed=[0])
    assign(run, "consume-1", [0])
    for number in range(calls):
        run.deliver(number, number)
    run.deliver(calls - 1, calls - 1)
    assert causes(run.judge()) == [cause]


def test_calls_under_way_end_with_their_process() -> None:
    run = run_of_two([0], [])
    run.end("consume-1")
    run.add("consume-1", OPENED, run="a")
    assign(run, "consume-1", [0])
    for _ in range(2):
        run.deliver(0, 0)
    assert causes(run.judge()) == ["unexplained"]
