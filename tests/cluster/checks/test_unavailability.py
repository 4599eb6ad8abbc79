"""Unavailability: planted windows measured to the millisecond, and a slow model.

Tests are of writes and reads.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.cluster.checks.testing import ADDRESSES, MadeUpRun
from rmqlab.cluster.checks.unavailability import Attempt, find_windows


def test_a_clean_run_was_never_unavailable_even_without_sends() -> None:
    run = MadeUpRun()
    run.send(1)
    run.wait(600)
    run.send(2)
    finding = run.judge()["write_unavailable broker-a"]
    assert (finding.value, finding.is_at_least, finding.evidence) == (0.0, False, ())


def test_a_window_runs_from_the_last_success_to_the_next_one() -> None:
    run = MadeUpRun()
    run.send(1)
    last = run.now
    for number in range(2, 5):
        run.wait(1)
        run.fail(number)
    run.wait(1)
    run.send(5)
    finding = run.judge()["write_unavailable broker-a"]
    assert finding.value == (run.now - last) / 1000
    (evidence,) = finding.evidence
    assert (evidence.at_millis, evidence.until_millis) == (last, run.now)
    assert evidence.message_ids == ("ID000002", "ID000003", "ID000004")
    assert "3 attempts failed" in evidence.text


def test_another_working_broker_does_not_hide_an_outage() -> None:
    """Recovery is measured per broker, not as "first success anywhere"."""
    run = MadeUpRun(nodes=("namesrv-1", "broker-a", "broker-b"))
    run.send(1)
    last = run.now
    run.fail(2)
    for number in range(3, 9):
        run.send(number, broker="broker-b")
        run.wait(1)
    run.send(10)
    findings = run.judge()
    assert findings["write_unavailable broker-a"].value == (run.now - last) / 1000
    assert findings["write_unavailable broker-b"].value == 0.0


def test_each_queue_is_measured_apart() -> None:
    run = MadeUpRun()
    run.send(1, queue_id=0)
    first = run.now
    run.send(2, queue_id=1)
    last = run.now
    run.fail(3)
    run.send(4, queue_id=0)
    recovered = run.now
    run.wait(5)
    run.send(5, queue_id=1)
    findings = run.judge()
    assert findings["write_unavailable orders@broker-a:1"].value == (run.now - last) / 1000
    assert findings["write_unavailable orders@broker-a:0"].value == (recovered - first) / 1000
    assert findings["write_unavailable broker-a"].value == (recovered - last) / 1000


def test_an_attempt_without_any_broker_counts_for_all_that_the_topic_has() -> None:
    run = MadeUpRun(nodes=("namesrv-1", "broker-a", "broker-b"))
    run.send(1)
    run.send(2, broker="broker-b")
    run.send(3, topic="other")
    run.wait(1)
    run.fail(4, broker="")
    findings = run.judge()
    for target in ("broker-b", "orders@broker-a:0", "orders@broker-b:0"):
        assert findings[f"write_unavailable {target}"].is_at_least
    assert findings["write_unavailable other@broker-a:0"].value == 0.0


def test_a_window_that_nothing_ended_is_at_least_as_long_as_to_its_last_failure() -> None:
    run = MadeUpRun()
    run.send(1)
    last = run.now
    run.wait(2)
    run.fail(2)
    finding = run.judge()["write_unavailable broker-a"]
    assert finding.is_at_least
    assert finding.value == (run.now - last) / 1000
    assert finding.evidence[0].until_millis is None


def test_an_outcome_that_says_stored_is_a_success_whatever_it_lacks() -> None:
    run = MadeUpRun()
    run.send(1)
    run.fail(2)
    run.send(3, "SLAVE_NOT_AVAILABLE")
    assert not run.judge()["write_unavailable broker-a"].is_at_least


def test_reads_begin_to_fail_with_the_first_pull_that_failed() -> None:
    run = MadeUpRun()
    run.send(1)
    run.deliver(1, offset=0)
    run.wait(60)  # all is read: nobody is kept from anything
    run.add("consume-1", "pull_failed", queue="orders@broker-a:0", address=None, error="x", took=2000)
    asked = run.now - 2000
    run.wait(3)
    run.add("consume-1", "pull_resumed", queue="orders@broker-a:0", address="a")
    resumed = run.now
    findings = run.judge()
    for target in ("broker-a", "orders@broker-a:0"):
        assert findings[f"read_unavailable {target}"].value == (resumed - asked) / 1000


def pull(run: MadeUpRun, kind: str, node: str = "consume-1", **fields: int) -> int:
    """A pull of a consumer ends; when."""
    return run.add(node, kind, queue="orders@broker-a:0", **fields).at_millis


def test_a_broker_is_readable_when_any_group_reads_and_groups_are_measured_apart() -> None:
    run = MadeUpRun()
    run.send(1)
    run.deliver(1, offset=0)
    pull(run, "pull_failed", took=0)
    run.wait(1)
    run.deliver(1, offset=0, node="other-1", group="other")
    run.wait(3)
    pull(run, "pull_failed", took=0)
    findings = run.judge()
    assert findings["group_read_unavailable shop"].is_at_least
    assert findings["group_read_unavailable shop"].value == pytest.approx(4.02)
    assert findings["group_read_unavailable other"].value == 0
    assert findings["read_unavailable broker-a"].value == pytest.approx(1.01)


def test_each_broker_of_a_group_is_measured_apart() -> None:
    run = MadeUpRun(nodes=("namesrv-1", "broker-a", "broker-b"))
    run.deliver(1, offset=0)
    pull(run, "pull_failed", took=0)
    run.wait(2)
    run.add("consume-1", "pull_resumed", queue="orders@broker-b:0", took=0, held=0)
    run.wait(2)
    pull(run, "pull_resumed", took=0, held=0)
    assert run.judge()["group_read_unavailable shop"].value == pytest.approx(4.02)


def test_a_pull_that_was_held_on_an_empty_queue_was_answered_when_the_hold_began() -> None:
    run = MadeUpRun()
    run.deliver(1, offset=0)
    failed = pull(run, "pull_failed", took=0, held=0)
    run.wait(20)
    answered = pull(run, "pull_resumed", took=19_200, held=19_000)
    findings = run.judge()
    for metric in ("read_unavailable broker-a", "read_unavailable orders@broker-a:0", "group_read_unavailable shop"):
        assert findings[metric].value == (answered - 19_000 - failed) / 1000


def test_a_connection_that_breaks_while_a_pull_is_held_begins_the_outage() -> None:
    run = MadeUpRun()
    run.deliver(1, offset=0)
    run.wait(14)
    cut = pull(run, "pull_failed", took=14_000, held=14_000)
    run.wait(1)
    answered = pull(run, "pull_resumed", took=5, held=0)
    assert run.judge()["read_unavailable broker-a"].value == (answered - cut) / 1000


def test_a_pull_that_was_cut_off_while_a_message_was_waiting_failed_since_then() -> None:
    run = MadeUpRun()
    run.deliver(1, offset=0)
    run.wait(14)
    stored = run.now - 3000
    pull(run, "pull_failed", took=14_000, held=14_000)
    run.wait(1)
    answered = pull(run, "pull_resumed", took=5, held=0, stored_at=stored)
    assert run.judge()["read_unavailable broker-a"].value == (answered - stored) / 1000


def test_a_consumer_that_was_answered_without_messages_has_read() -> None:
    run = MadeUpRun()
    pull(run, "pull_resumed", took=15_000, held=15_000)
    assert run.judge()["read_unavailable broker-a"].value == 0.0


def test_a_broker_without_sends_is_unknown() -> None:
    run = MadeUpRun()
    findings = run.judge()
    assert findings["write_unavailable broker-a"].missing == "no workload sent anything to broker-a"
    assert findings["read_unavailable broker-a"].missing == "no workload read anything from broker-a"
    assert findings["write_unavailable broker-x"].value is None


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9), st.booleans()), max_size=30))
def test_windows_are_those_of_a_model_that_looks_at_every_pair(made: list[tuple[int, int, bool]]) -> None:
    attempts = [Attempt(end - took, end, is_success) for end, took, is_success in made]
    ordered = sorted(attempts, key=lambda attempt: attempt.ended_at)
    expected = []
    # A window for each maximal run of failures between two successes, in the order in which attempts ended.
    for index, attempt in enumerate(ordered):
        if attempt.is_success or (index and not ordered[index - 1].is_success):
            continue
        run = [attempt]
        for later in ordered[index + 1 :]:
            if later.is_success:
                break
            run.append(later)
        before = [one.ended_at for one in ordered[:index] if one.is_success]
        after = [one.ended_at for one in ordered[index + len(run) :] if one.is_success]
        began = before[-1] if before else min(one.began_at for one in run)
        expected.append((began, after[0] if after else run[-1].ended_at, len(run), not after))
    found = [
        (window.began_at, window.ended_at, len(window.failures), window.is_open) for window in find_windows(attempts)
    ]
    assert found == expected


def test_a_former_broker_name_is_listed() -> None:
    run = MadeUpRun(nodes=("namesrv-1", "broker-a"))
    run.add("broker-a", "node_ready", broker_name="broker-c", broker_id=0, address=ADDRESSES["broker-a"])
    findings = run.judge()
    for name in ("broker-a", "broker-c"):
        assert findings[f"write_unavailable {name}"].missing == f"no workload sent anything to {name}"
        assert findings[f"read_unavailable {name}"].missing == f"no workload read anything from {name}"
