"""Offsets of consumers of a slave, replaced by its metadata sync."""

from typing import Any

import pytest

from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.verdict.verdict import Verdict

METRIC = "own_offsets_overwritten broker-a-s"


def hardened(profile: str = "hardened", **settings: Any) -> MadeUpRun:
    run = MadeUpRun(settings={"broker-a-s": {"profile": profile, **settings}})
    starting = {"rate": 1.0, "role": "ASYNC_MASTER", "profile": profile}
    run.entries.insert(0, JournalEntry(run.now - 1000, "", "cluster_starting", starting))
    run.commit(5, broker_id=0)
    return run


def overwrite(run: MadeUpRun, before: int = 20, after: int = 5) -> None:
    run.add("broker-a-s", "consumer_offsets_overwritten", key="orders@shop", queues={0: [before, after]})


def restart_master(run: MadeUpRun) -> None:
    run.end("broker-a")
    run.ready("broker-a")


def test_a_commit_to_the_slave_that_its_sync_replaces_violates_the_hardened_profile() -> None:
    run = hardened()
    run.end("broker-a")
    run.commit(20, broker_id=1)
    run.ready("broker-a")
    overwrite(run)
    judged = run.judge()
    assert judged[METRIC].value == 1
    text = "shop, orders@broker-a:0: consume-1 committed 20 to broker-a-s, whose metadata sync replaced it by 5"
    assert [piece.text for piece in judged[METRIC].evidence] == [text]
    assert judged.verdict is Verdict.VIOLATED
    assert judged.decision.violating == (METRIC,)


def test_a_commit_whose_receiver_is_not_recorded_may_have_been_to_the_slave() -> None:
    run = hardened()
    run.commit(20)
    overwrite(run)
    judged = run.judge()
    assert judged[METRIC].value is None
    assert judged[METRIC].missing.startswith("the journal does not name the broker that received the last commit")
    assert judged.verdict is Verdict.UNKNOWN
    run.commit(20, broker_id=1)
    overwrite(run)
    assert (run.judge()[METRIC].value, run.judge()[METRIC].is_at_least) == (1, True)


@pytest.mark.parametrize(("profile", "settings"), [("4.9", {}), ("hardened", {"keep_newer_consumer_offsets": False})])
def test_a_slave_without_the_switch_is_not_measured(profile: str, settings: dict[str, bool]) -> None:
    run = hardened(profile, **settings)
    run.commit(20, broker_id=1)
    overwrite(run)
    judged = run.judge()
    assert METRIC not in judged.by_metric
    assert judged["offset_rollbacks shop"].value == 1


def test_without_the_settings_of_the_slave_it_is_unknown() -> None:
    run = hardened()
    run.settings["broker-a-s"] = None
    assert METRIC not in run.judge().by_metric
    run.commit(20, broker_id=1)
    overwrite(run)
    judged = run.judge()
    assert judged[METRIC].value is None
    assert "config.toml" in judged[METRIC].missing
    assert any(line.startswith(METRIC) for line in judged.decision.why)


@pytest.mark.parametrize("changes", [{"keepNewerConsumerOffsets": "true"}, {"profile": "hardened"}])
def test_a_slave_that_got_the_switch_later_is_not_blamed(changes: dict[str, str]) -> None:
    """Nobody knows whether it had the switch when it replaced the offset."""
    run = hardened()
    assert run.judge()[METRIC].value == 0
    run.commit(20, broker_id=1)
    overwrite(run)
    run.add("broker-a-s", "settings_changed", changes=changes, peer="p")
    judged = run.judge()
    assert judged[METRIC].value is None
    assert "settings of their own" in judged[METRIC].missing
    assert judged.verdict is Verdict.UNKNOWN
    assert any(line.startswith(METRIC) for line in judged.decision.why)


def test_a_commit_to_the_master_may_be_replaced() -> None:
    run = hardened()
    run.commit(20, broker_id=0)
    overwrite(run)
    assert run.judge()[METRIC].value == 0


def test_a_later_commit_to_the_master_explains_the_older_offset() -> None:
    run = hardened()
    run.commit(20, broker_id=1)
    run.commit(7, node="consume-2", broker_id=0)
    overwrite(run, after=7)
    assert run.judge()[METRIC].value == 0


def test_an_offset_that_was_not_committed_to_the_slave_may_be_replaced() -> None:
    """The slave had it from its master."""
    run = hardened()
    run.commit(20, broker_id=1)
    overwrite(run, before=30)
    assert run.judge()[METRIC].value == 0


def test_a_commit_before_the_slaves_last_start_is_forgotten() -> None:
    run = hardened()
    run.commit(20, broker_id=1)
    run.end("broker-a-s")
    run.ready("broker-a-s")
    overwrite(run)
    assert run.judge()[METRIC].value == 0


@pytest.mark.parametrize("event", ["moved back", "reset", "topic deleted", "group deleted"])
def test_a_request_to_the_master_explains_the_older_offset(event: str) -> None:
    run = hardened()
    run.commit(20, broker_id=1)
    if event == "moved back":  # a commit that came late, or of a client without a journal
        fields = {"group": "shop", "topic": "orders", "queue_id": 0, "before": 20, "after": 5, "peer": "p"}
        run.add("broker-a", "offset_moved_back", **fields)
    elif event == "reset":
        run.add("broker-a", "offset_reset", group="shop", topic="orders")
    elif event == "topic deleted":
        run.add("broker-a", "topic_deleted", topic="orders")
    else:
        run.add("broker-a", "group_deleted", group="shop", drops_offsets=True)
    overwrite(run)
    assert run.judge()[METRIC].value == 0


def test_a_commit_that_moved_the_slaves_own_offset_back_explains_nothing() -> None:
    run = hardened()
    run.commit(20, broker_id=1)
    fields = {"group": "shop", "topic": "orders", "queue_id": 0, "before": 25, "after": 20, "peer": "p"}
    run.add("broker-a-s", "offset_moved_back", **fields)
    restart_master(run)
    overwrite(run)
    assert run.judge()[METRIC].value == 1


def test_a_wrong_clock_of_a_consumer_makes_it_unknown() -> None:
    run = hardened()
    run.wait(60)
    run.send(1)
    run.now -= 20_000
    run.deliver(1, 0)
    run.commit(20, broker_id=1)
    run.now += 20_000
    overwrite(run)
    assert run.judge()[METRIC].value is None
