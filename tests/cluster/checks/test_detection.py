"""Detection times of absences, planted for nameservers and clients.

The tests also cover conditions that make them unknown.
"""

import pytest

from rmqlab.cluster.checks.testing import ADDRESSES, MadeUpRun


def learn(run: MadeUpRun, *nodes: str, client: str = "produce-1") -> None:
    """A client learns a route of one topic."""
    brokers = {"broker-a": {str(index): ADDRESSES[node] for index, node in enumerate(nodes)}}
    run.add(client, "route_believed", topic="orders", brokers=brokers)


def test_it_is_measured_from_the_signal_to_the_route_change() -> None:
    run = MadeUpRun()
    killed = run.end("broker-a")
    run.wait(3)
    dropped = run.drop("namesrv-1", "broker-a")
    finding = run.judge()["detection namesrv-1"]
    assert finding.value == (dropped - killed) / 1000
    assert not finding.is_at_least
    (evidence,) = finding.evidence
    assert (evidence.at_millis, evidence.until_millis) == (killed, dropped)
    assert evidence.text == "broker-a (killed) was dropped by namesrv-1: why"


def test_every_nameserver_is_measured_apart() -> None:
    run = MadeUpRun(nodes=("namesrv-1", "namesrv-2", "broker-a"))
    killed = run.end("broker-a", "pause", "node_paused")
    first = run.drop("namesrv-1", "broker-a")
    run.wait(120)
    second = run.drop("namesrv-2", "broker-a", "broker_expired")
    findings = run.judge()
    assert findings["detection namesrv-1"].value == (first - killed) / 1000
    assert findings["detection namesrv-2"].value == (second - killed) / 1000


def test_a_client_notices_with_the_first_route_that_lacks_the_address() -> None:
    run = MadeUpRun()
    learn(run, "broker-a", "broker-a-s")
    killed = run.end("broker-a")
    run.drop("namesrv-1", "broker-a")
    run.wait(17)
    learn(run, "broker-a-s")
    finding = run.judge()["detection produce-1"]
    assert finding.value == (run.now - killed) / 1000


def test_a_broker_that_is_still_named_when_the_run_ends_is_at_least_so_long_unnoticed() -> None:
    run = MadeUpRun()
    paused = run.end("broker-a", "pause", "node_paused")
    run.wait(50)
    run.send(1)
    finding = run.judge()["detection namesrv-1"]
    assert finding.is_at_least
    assert finding.value == (run.now - paused) / 1000


def test_a_broker_that_returned_before_detection_is_not_counted() -> None:
    run = MadeUpRun()
    run.end("broker-a", "pause", "node_paused")
    run.wait(20)
    run.add("broker-a", "node_resumed")
    run.wait(500)
    run.drop("namesrv-1", "broker-a", "broker_expired")
    finding = run.judge()["detection namesrv-1"]
    assert finding.value is None
    assert finding.missing == "broker-a was back before namesrv-1 noticed that it was paused"


def test_the_longest_of_several_absences_counts() -> None:
    run = MadeUpRun()
    for seconds in (1, 5, 2):
        run.end("broker-a")
        run.wait(seconds)
        run.drop("namesrv-1", "broker-a")
        run.ready("broker-a")
    finding = run.judge()["detection namesrv-1"]
    assert finding.value == pytest.approx(5.02)
    assert len(finding.evidence) == 3


def test_an_unplanned_end_may_be_detected_before_the_supervisor_sees_it() -> None:
    run = MadeUpRun()
    run.drop("namesrv-1", "broker-a")
    run.add("broker-a", "node_killed")
    assert run.judge()["detection namesrv-1"].value == 0


def test_a_crash_is_not_blamed_on_a_kill_that_came_to_nothing_long_before() -> None:
    run = MadeUpRun()
    run.add("broker-a", "command", command="kill")
    run.ready("broker-a")
    run.wait(100)
    crashed = run.add("broker-a", "node_crashed").at_millis
    run.wait(3)
    dropped = run.drop("namesrv-1", "broker-a")
    finding = run.judge()["detection namesrv-1"]
    assert finding.value == (dropped - crashed) / 1000
    assert finding.evidence[0].at_millis == crashed


def test_a_nameserver_that_was_away_itself_cannot_tell() -> None:
    run = MadeUpRun()
    run.end("namesrv-1", "pause", "node_paused")
    run.end("broker-a")
    run.add("namesrv-1", "node_resumed")
    run.drop("namesrv-1", "broker-a")
    assert run.judge()["detection namesrv-1"].missing == "namesrv-1 was away itself"


def test_a_watcher_that_ends_long_after_a_broker_is_back_was_not_away() -> None:
    run = MadeUpRun()
    learn(run, "broker-a", "broker-a-s")
    run.end("broker-a", "pause", "node_paused")
    run.wait(10)
    run.add("broker-a", "node_resumed")
    run.end("produce-1", "stop", "node_stopped")
    finding = run.judge()["detection produce-1"]
    assert finding.missing == "broker-a was back before produce-1 noticed that it was paused"


def test_the_stop_of_the_cluster_is_no_absence() -> None:
    run = MadeUpRun()
    run.add("", "cluster_stopping")
    run.end("broker-a", "stop", "node_stopped")
    run.drop("namesrv-1", "broker-a", "broker_unregistered")
    assert run.judge()["detection namesrv-1"].missing == "no broker that namesrv-1 named was ever away"
