"""Entries of a journal that the history reads, and those that it omits."""

import attrs
import pytest

from rmqlab.cluster.checks.history import read_history
from rmqlab.cluster.checks.testing import MadeUpRun


def test_nodes_that_stop_with_the_cluster_are_known_with_the_time_of_their_end() -> None:
    run = MadeUpRun()
    run.end("broker-a-s", "stop", "node_stopped")
    run.add("", "cluster_stopping")
    run.end("broker-a", "stop", "node_stopped")
    ended_at = run.now
    run.end("namesrv-1", "stop", "node_killed")
    assert run.history().stopped == {"broker-a": ended_at}


@pytest.mark.parametrize("missing", ["offset", "queue", "broker"])
def test_deliveries_and_commits_without_a_place_are_left_out(missing: str) -> None:
    run = MadeUpRun()
    run.deliver(1, 0)
    run.commit(1)
    for entry in run.entries[-2:]:
        del entry.fields[missing]  # type: ignore[attr-defined]
    history = read_history(run.entries)
    assert (history.deliveries, history.commits) == ((), ())


def test_a_node_that_never_was_ready_is_called_after_itself() -> None:
    history = MadeUpRun().history()
    assert history.broker_of("broker-a-s") == "broker-a"
    assert history.broker_of("broker-x") == "broker-x"
    assert history.broker_of("namesrv-1") == "namesrv-1"


def test_the_first_entries_of_a_message_are_those_by_time() -> None:
    run = MadeUpRun()
    run.fail(1)
    run.fail(1)
    run.send(1)
    for _ in range(20):
        run.deliver(1, 0)
    kinds = [entry.kind for entry in run.history().about("ID000001")]
    assert kinds == ["attempt_failed", "attempt_failed", "sent", *["delivered"] * 9]


def test_the_group_of_a_node_is_the_one_that_it_consumed_or_committed_for_last() -> None:
    run = MadeUpRun()
    run.commit(0, group="shop")
    run.deliver(1, 0, group="other")
    assert run.history().group_of == {"consume-1": "other"}
    assert run.history().groups_of == {"consume-1": {"shop", "other"}}


def test_of_events_of_one_millisecond_the_last_of_the_journal_decides() -> None:
    run = MadeUpRun()
    run.commit(0, group="shop")
    run.deliver(1, 0, group="other")
    run.entries[-1] = attrs.evolve(run.entries[-1], at_millis=run.entries[-2].at_millis)
    assert run.history().group_of == {"consume-1": "other"}
