"""Messages that a SYNC_MASTER answered SEND_OK, and that no slave has."""

import pytest

from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.verdict.verdict import Verdict


def sync_run(role: str = "SYNC_MASTER") -> MadeUpRun:
    run = MadeUpRun()
    run.add("", "cluster_starting", role=role, profile="4.9")
    run.send(1)
    return run


def test_a_message_on_the_master_only_is_unreplicated() -> None:
    run = sync_run()
    run.send(2, at=["broker-a"])
    run.send(3, "SLAVE_NOT_AVAILABLE", at=["broker-a"])
    judgement = run.judge()
    assert judgement["unreplicated broker-a"].message_ids == ("ID000002",)
    assert judgement["unreplicated broker-a"].text == "of 2 messages"
    assert judgement.verdict is Verdict.VIOLATED


def test_an_asynchronous_master_promises_nothing() -> None:
    run = sync_run("ASYNC_MASTER")
    run.send(2, at=["broker-a"])
    assert "unreplicated broker-a" not in run.judge().by_metric


@pytest.mark.parametrize("kind", ["store_wiped", "power_lost", "file_deleted", "log_truncated", "log_dropped"])
def test_messages_that_the_slave_may_have_lost_later_are_named_apart(kind: str) -> None:
    run = sync_run()
    run.send(2, at=["broker-a"])
    run.add("broker-a-s", kind)
    run.send(3, at=["broker-a"])
    finding = run.judge()["unreplicated broker-a"]
    assert finding.message_ids == ("ID000003",)
    assert finding.text == "of 3 messages; 1 more was removed from a slave later"


def test_it_is_unknown_without_the_slaves_store() -> None:
    run = sync_run()
    run.unread.add("broker-a-s")
    judgement = run.judge()
    assert not judgement["unreplicated broker-a"].is_known
    assert judgement.verdict is Verdict.UNKNOWN


def test_a_second_slave_is_enough() -> None:
    run = MadeUpRun(nodes=("namesrv-1", "broker-a", "broker-a-s"))
    run.add("", "cluster_starting", role="SYNC_MASTER", profile="4.9")
    run.logs["broker-a-2"] = []
    run.add("broker-a-2", "node_ready", address="127.77.1.24:10911", broker_name="broker-a", broker_id=2)
    run.send(1, at=["broker-a", "broker-a-2"])
    assert run.judge()["unreplicated broker-a"].value == 0
