"""Deletions and resets by a request are no violation; without one they are."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from rmqlab.cluster.checks import judge, judge_directory
from rmqlab.cluster.checks.history import read_history
from rmqlab.cluster.checks.testing import MadeUpRun, write_journals
from rmqlab.remoting.bodies.group import SubscriptionGroupWrapper
from rmqlab.remoting.bodies.topic import TopicConfigSerializeWrapper
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalreader import merge_entries
from rmqlab.runtime.journals.journalsurvey import survey_journals
from rmqlab.verdict.conditions import read_conditions
from rmqlab.verdict.verdict import Verdict
from tests.cluster.plant.smallrun import made_up_run, write_run

Deletion = tuple[str, dict[str, Any]]

TOPIC: Deletion = ("topic_deleted", {"topic": "orders"})
GROUP: Deletion = ("group_deleted", {"group": "shop", "drops_offsets": True})

either = pytest.mark.parametrize("how", ["on purpose", "by nobody"])
ON_PURPOSE = "on purpose"


def run_with(*deletions: Deletion) -> MadeUpRun:
    run = MadeUpRun()
    for kind, fields in deletions:
        run.add("broker-a", kind, **fields)
    return run


@either
def test_the_queues_of_a_deleted_topic_restart_at_0(how: str) -> None:
    run = MadeUpRun()
    for number, offset in ((1, 5), (2, 0)):
        if number == 2 and how == ON_PURPOSE:
            run.add("broker-a", TOPIC[0], **TOPIC[1])
        run.wait(0.01)
        run.send(number)
        for log in run.logs.values():
            log[-1] = attrs.evolve(log[-1], offset=offset)
        run.deliver(number, offset)
        run.commit(offset + 1)
    findings = run.judge()
    assert findings["order.stored"].value == (0 if how == ON_PURPOSE else 1)
    assert findings["order.delivered shop"].value == (0 if how == ON_PURPOSE else 1)
    assert findings["offset_rollbacks"].value == (0 if how == ON_PURPOSE else 1)


def test_the_order_of_what_was_sent_after_the_last_deletion_is_judged() -> None:
    run = run_with(TOPIC)
    run.wait(0.01)
    for number, offset in ((1, 5), (2, 0)):
        run.send(number)
        for log in run.logs.values():
            log[-1] = attrs.evolve(log[-1], offset=offset)
    assert run.judge()["order.stored"].value == 1


def test_a_topic_that_was_used_after_its_deletion_must_be_in_the_table(tmp_path: Path) -> None:
    run = made_up_run()
    run.entries.insert(1, JournalEntry(run.entries[0].at_millis, "broker-a", *TOPIC))
    directory = write_run(run, tmp_path / "run")
    path = directory / "broker-a" / "store" / "config" / "topics.json"
    topics = TopicConfigSerializeWrapper.decode(path.read_bytes())
    del topics.topic_config_table["orders"]
    path.write_bytes(topics.encode_pretty())
    assert judge_directory(directory)["topics_missing broker-a"].value == 1


@either
@pytest.mark.parametrize("deletion", [TOPIC, GROUP], ids=["topic", "group"])
def test_offsets_of_what_was_deleted_need_not_be_saved(deletion: Deletion, how: str) -> None:
    run = MadeUpRun()
    run.commit(100)
    run.wait(60)
    if how == ON_PURPOSE:
        run.add("broker-a", deletion[0], **deletion[1])
    run.wait(60)
    run.send(1)
    run.offset_files["broker-a"] = {}
    assert run.judge()["offset_file_behind broker-a"].value == (None if how == ON_PURPOSE else 100)


@either
def test_the_tables_lack_what_was_deleted(tmp_path: Path, how: str) -> None:
    run = made_up_run()
    for kind, fields in [TOPIC, GROUP] if how == ON_PURPOSE else ():
        at = next(index for index, entry in enumerate(run.entries) if entry.kind == "cluster_stopping")
        run.entries.insert(at, JournalEntry(run.entries[at - 1].at_millis, "broker-a", kind, fields))
    directory = write_run(run, tmp_path / "run")
    config = directory / "broker-a" / "store" / "config"
    groups = SubscriptionGroupWrapper.decode((config / "subscriptionGroup.json").read_bytes())
    del groups.subscription_group_table["shop"]
    (config / "subscriptionGroup.json").write_bytes(groups.encode_pretty())
    topics = TopicConfigSerializeWrapper.decode((config / "topics.json").read_bytes())
    del topics.topic_config_table["orders"]
    (config / "topics.json").write_bytes(topics.encode_pretty())
    for file in (directory / "broker-a" / "store" / "consumequeue" / "orders").glob("*/*"):
        file.unlink()
    findings = judge_directory(directory)
    expected = {"topics_missing": 1, "groups_missing": 1, "unqueued": 40}
    assert {name: findings[f"{name} broker-a"].value for name in expected} == (
        dict.fromkeys(expected, 0) if how == ON_PURPOSE else expected
    )


@either
def test_the_warning_of_offsets_that_moved_back_names_a_reset(how: str) -> None:
    run = MadeUpRun()
    run.add("", "cluster_starting", role="ASYNC_MASTER", profile="hardened", rate=1.0)
    run.send(1)
    run.commit(5)
    if how == ON_PURPOSE:
        run.add("broker-a", "offset_reset", group="shop", topic="orders")
    run.commit(2)
    judged = run.judge()
    assert judged["offset_rollbacks shop"].value == 1
    assert judged.verdict is not Verdict.VIOLATED
    text = "offset_rollbacks shop: 1 time. A request reset the offsets of shop, which may move them back."
    assert (text in judged.decision.warnings) is (how == ON_PURPOSE)


# ---- what follows a deletion -------------------------------------------------------------------------------------


def send_at(run: MadeUpRun, number: int, offset: int) -> None:
    """Send a message, which every log has at a queue offset."""
    run.wait(0.01)
    run.send(number)
    for log in run.logs.values():
        log[-1] = attrs.evolve(log[-1], offset=offset)


def test_deliveries_of_what_was_sent_after_the_deletion_are_judged() -> None:
    run = run_with(TOPIC)
    for number in (1, 2):
        send_at(run, number, number)
    run.deliver(2, 2)
    run.deliver(1, 1)
    judged = run.judge()["order.delivered shop"]
    assert judged.value == 1
    assert judged.message_ids == ("ID000001",)


def test_messages_sent_before_the_deletion_may_be_delivered_later() -> None:
    run = MadeUpRun()
    send_at(run, 1, 5)
    run.add("broker-a", TOPIC[0], **TOPIC[1])
    send_at(run, 2, 1)
    run.deliver(1, 5)
    run.deliver(2, 1)
    assert run.judge()["order.delivered shop"].value == 0


def test_commits_in_the_new_queue_must_not_go_back() -> None:
    run = run_with(TOPIC)
    send_at(run, 1, 0)
    run.deliver(1, 0)
    for offset in (5, 3):
        run.commit(offset)
    judged = run.judge()
    assert judged["offset_rollbacks shop"].value == 1
    assert judged["rolled_back shop"].value == 2


def test_late_commits_of_a_deleted_queue_may_be_followed_by_lower_ones() -> None:
    run = run_with(TOPIC)
    run.commit(500)
    send_at(run, 1, 0)
    run.commit(500)
    run.add("broker-a", "offset_moved_back", group="shop", topic="orders", queue_id=0, before=500, after=1)
    run.add("consume-1", "offset_illegal", queue="orders@broker-a:0", asked=500, offered=0)
    run.deliver(1, 0)
    run.commit(1)
    assert run.judge()["offset_rollbacks"].value == 0


@pytest.mark.parametrize("deletion", [TOPIC, GROUP], ids=["topic", "group"])
def test_offsets_after_a_deletion_must_be_saved(deletion: Deletion) -> None:
    run = run_with(deletion)
    run.wait(60)
    send_at(run, 1, 99)
    run.deliver(1, 99)
    run.commit(100)
    run.wait(60)
    run.send(2)
    run.offset_files["broker-a"] = {}
    assert run.judge()["offset_file_behind broker-a"].value == 100


@pytest.mark.parametrize("is_before", [True, False])
def test_a_group_that_consumed_after_its_deletion_must_be_in_the_table(tmp_path: Path, is_before: bool) -> None:  # noqa: FBT001
    run = made_up_run()
    at = next(index for index, one in enumerate(run.entries) if one.kind == ("delivered" if is_before else "consumed"))
    run.entries.insert(at, JournalEntry(run.entries[at - 1].at_millis, "broker-a", *GROUP))
    directory = write_run(run, tmp_path / "run")
    table = directory / "broker-a" / "store" / "config" / "subscriptionGroup.json"
    groups = SubscriptionGroupWrapper.decode(table.read_bytes())
    del groups.subscription_group_table["shop"]
    table.write_bytes(groups.encode_pretty())
    assert judge_directory(directory)["groups_missing broker-a"].value == int(is_before)


def test_records_that_were_stored_after_the_deletion_must_be_queued(tmp_path: Path) -> None:
    run = made_up_run()
    run.entries.insert(1, JournalEntry(run.entries[0].at_millis, "broker-a", *TOPIC))
    directory = write_run(run, tmp_path / "run")
    for file in (directory / "broker-a" / "store" / "consumequeue" / "orders").glob("*/*"):
        file.unlink()
    assert judge_directory(directory)["unqueued broker-a"].value == 40


def test_a_deletion_that_an_incomplete_journal_may_have_had_is_no_violation(tmp_path: Path) -> None:
    run = run_with(TOPIC)
    for number, offset in ((1, 5), (2, 0)):
        send_at(run, number, offset)
    write_journals(run.entries, tmp_path / "journal")
    (tmp_path / "journal" / "broker-a.msgpack").unlink()
    journals, surveys = survey_journals(tmp_path / "journal")
    entries = merge_entries(*journals)
    judged = judge(read_history(entries), run.stores(), read_conditions(entries, surveys))
    assert judged["order.stored"].value is None
    assert "journal/broker-a.msgpack is missing" in judged["order.stored"].missing
    assert judged.verdict is Verdict.UNKNOWN
