"""Clocks that disagree: moved journals and stores, and the named nodes."""

import attrs
import pytest

from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.runtime.journals.journalentry import JournalEntry


def busy_run() -> MadeUpRun:
    run = MadeUpRun()
    for number in range(5):
        run.send(number)
        run.deliver(number, offset=number)
    return run


def move(run: MadeUpRun, node: str, millis: int) -> None:
    """Move all times of one journal."""
    run.entries = [
        attrs.evolve(entry, at_millis=entry.at_millis + millis) if entry.node == node else entry
        for entry in run.entries
    ]


def disagreements(run: MadeUpRun) -> dict[str, float]:
    found = {one.metric.partition(" ")[2]: one for one in run.judge() if one.metric.startswith("clock_disagreement ")}
    return {node: float(one.value or 0) for node, one in found.items() if one.value}


def test_clocks_of_a_clean_run_agree_and_only_what_can_be_compared_is_measured() -> None:
    findings = busy_run().judge()
    for node in ("produce-1", "consume-1", "broker-a"):
        assert findings[f"clock_disagreement {node}"].value == 0
    assert findings["clock_disagreement namesrv-1"].value is None


def test_a_consumer_20_s_behind_is_named_with_the_messages_that_show_it() -> None:
    run = busy_run()
    move(run, "consume-1", -20_000)
    assert disagreements(run) == {"consume-1": pytest.approx(19.99, abs=0.02)}
    finding = run.judge()["clock_disagreement consume-1"]
    assert finding.is_at_least
    assert set(finding.message_ids) <= {f"ID{number:06}" for number in range(5)}
    assert finding.message_ids
    text = [piece.text for piece in finding.evidence]
    assert any("consume-1 got a message before broker-a stored it, by 19.9" in one for one in text)
    assert any("consume-1 got a message before its send began at produce-1" in one for one in text)


def test_a_broker_whose_clock_is_off_is_named_and_not_its_clients() -> None:
    run = busy_run()
    run.logs = {
        node: [attrs.evolve(one, stored_at=one.stored_at + 9000) for one in log] for node, log in run.logs.items()
    }
    assert list(disagreements(run)) == ["broker-a"]


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_record_that_was_stored_again_after_a_loss_accuses_no_clock(*, is_lost: bool) -> None:
    """Such as a delayed message that is delivered again after a power loss."""
    run = busy_run()
    run.wait(3)
    run.add("broker-a", "power_lost" if is_lost else "node_paused")
    run.wait(6)
    run.logs = {node: [attrs.evolve(one, stored_at=run.now) for one in log] for node, log in run.logs.items()}
    assert list(disagreements(run)) == ([] if is_lost else ["broker-a"])


@pytest.mark.parametrize("millis", [-9000, 9000])
def test_a_time_that_was_altered_in_one_log_is_not_of_a_clock(millis: int) -> None:
    """As a slave stores it behind a link that corrupts bytes."""
    run = busy_run()
    log = run.logs["broker-a-s"]
    log[2] = attrs.evolve(log[2], stored_at=log[2].stored_at + millis)
    assert disagreements(run) == {}


@pytest.mark.parametrize("millis", [-7000, 7000])
def test_a_producer_is_seen_on_both_sides(millis: int) -> None:
    run = MadeUpRun()
    for number in range(5):
        run.send(number)
    for entry in [one for one in run.entries if one.kind == "sent"]:
        at = entry.at_millis + millis
        fields = {**entry.fields, "began_at": entry.fields["began_at"] + millis}
        run.entries[run.entries.index(entry)] = attrs.evolve(entry, at_millis=at, fields=fields)
    assert disagreements(run) == {"produce-1": pytest.approx(7.0, abs=0.02)}


def test_a_message_stored_again_later_contradicts_nothing() -> None:
    """A delayed message has a record in a system topic first.

    One that is sent back gets one in the retry topic.
    """
    run = busy_run()
    copy = run.logs["broker-a"][0]
    run.logs["broker-a"] = [
        *run.logs["broker-a"],
        attrs.evolve(copy, stored_at=copy.stored_at + 60_000, queue=attrs.evolve(copy.queue, topic="%RETRY%shop")),
    ]
    assert disagreements(run) == {}
    run.logs["broker-a"][0] = attrs.evolve(copy, queue=attrs.evolve(copy.queue, topic="SCHEDULE_TOPIC_XXXX"))
    run.logs["broker-a"][-1] = attrs.evolve(copy, stored_at=copy.stored_at + 60_000)
    run.logs["broker-a-s"] = []
    run.entries = [entry for entry in run.entries if entry.kind != "delivered"]
    assert disagreements(run) == {}


def test_an_event_after_the_end_of_its_node_is_ahead_unless_it_started_again() -> None:
    run = busy_run()
    run.add("consume-1", "node_killed")
    run.wait(30)
    run.commit(3)
    assert disagreements(run) == {"consume-1": pytest.approx(30.01)}
    run.entries.insert(-1, run.entries[-1].__class__(run.now - 5, "consume-1", "node_spawned", {}))
    assert disagreements(run) == {}


def test_a_broker_whose_journal_begins_before_the_cluster_is_behind() -> None:
    run = MadeUpRun()
    run.entries.insert(0, JournalEntry(run.entries[0].at_millis - 10, "", "cluster_starting", {"rate": 1.0}))
    run.add("broker-a", "log_sampled", max_offset=0)
    assert disagreements(run) == {}
    move_own(run, "broker-a", -20_000)
    assert disagreements(run) == {"broker-a": pytest.approx(19.94, abs=0.02)}


def test_a_broker_with_journal_entries_after_the_cluster_end_is_ahead() -> None:
    run = busy_run()
    run.add("broker-a", "log_sampled", max_offset=0)
    run.add("", "cluster_stopping")
    run.add("broker-a", "node_stopped")
    assert disagreements(run) == {}
    move_own(run, "broker-a", 20_000)
    assert disagreements(run) == {"broker-a": pytest.approx(19.98)}


def move_own(run: MadeUpRun, node: str, millis: int) -> None:
    """Move what a broker wrote itself, and not what the supervisor wrote about it."""
    run.entries = [
        attrs.evolve(entry, at_millis=entry.at_millis + millis)
        if (entry.node, entry.kind) == (node, "log_sampled")
        else entry
        for entry in run.entries
    ]


def test_the_clock_that_a_fault_set_back_is_named_and_not_the_producer() -> None:
    run = MadeUpRun()
    run.add("", "fault_applied", id="f1", fault="clock", fault_kind="step", target="broker-a:master", millis=-60_000.0)
    for number in range(3):
        run.send(number)
    run.logs = {
        node: [attrs.evolve(copy, stored_at=copy.stored_at - 60_000) for copy in log] for node, log in run.logs.items()
    }
    findings = run.judge()
    assert findings["clock_disagreement broker-a"].value == pytest.approx(60, abs=0.1)
    assert findings["clock_disagreement produce-1"].value == 0


def test_differences_within_the_tolerance_count_as_zero() -> None:
    run = busy_run()
    move(run, "consume-1", -990)
    assert disagreements(run) == {}


STORE_TIMES = "store_time_disagreement"


def with_store_time(run: MadeUpRun, at: int, by: int) -> None:
    """Move the store time of one record, in all logs, by so many milliseconds."""
    for log in run.logs.values():
        log[at] = attrs.evolve(log[at], stored_at=log[at].stored_at + by)


def sent_messages(count: int = 5) -> MadeUpRun:
    run = MadeUpRun()
    for number in range(count):
        run.send(number)
        run.wait(1)
    return run


@pytest.mark.parametrize("by", [-60_000, 60_000])
def test_one_record_with_another_store_time_is_named_and_no_clock(by: int) -> None:
    run = sent_messages()
    with_store_time(run, 2, by)
    findings = run.judge()
    assert findings[STORE_TIMES].message_ids == ("ID000002",)
    assert "broker-a at commit log offset 400" in findings[STORE_TIMES].evidence[0].text
    assert findings["clock_disagreement produce-1"].value == 0
    assert findings["clock_disagreement broker-a"].value == 0


@pytest.mark.parametrize("places", [(0,), (4,), (1, 2), (0, 1, 2, 3, 4)])
def test_the_clock_is_named_if_the_records_around_it_do_not_contradict(places: tuple[int, ...]) -> None:
    """The first, the last, or several: a clock may have been wrong for these."""
    run = sent_messages()
    for at in places:
        with_store_time(run, at, -60_000)
    findings = run.judge()
    assert findings[STORE_TIMES].value == 0
    assert findings["clock_disagreement produce-1"].value == pytest.approx(60, abs=1)


def test_a_clock_that_is_wrong_is_named_beside_such_a_record() -> None:
    run = sent_messages(9)
    for at in range(6, 9):
        with_store_time(run, at, -20_000)
    with_store_time(run, 2, -90_000)
    findings = run.judge()
    assert findings[STORE_TIMES].message_ids == ("ID000002",)
    assert findings["clock_disagreement produce-1"].value == pytest.approx(20, abs=1)


def test_with_a_clock_fault_the_clock_is_named() -> None:
    run = sent_messages()
    with_store_time(run, 2, -60_000)
    run.entries.append(JournalEntry(run.now, "", "fault_applied", {"id": 1, "fault": "clock", "target": "broker-a"}))
    findings = run.judge()
    assert findings[STORE_TIMES].value is None
    assert findings["clock_disagreement broker-a"].value == pytest.approx(60, abs=1)


def test_other_store_times_that_contradict_nothing_are_not_looked_for() -> None:
    run = sent_messages()
    with_store_time(run, 2, 900)
    assert run.judge()[STORE_TIMES].value == 0


def test_only_messages_whose_own_store_time_contradicts_are_counted() -> None:
    """Stores may have such records of an earlier run, whose clock was wrong."""
    run = MadeUpRun()
    for message_id in ("OLD1", "OLD2", "OLD3", "OLD4", "OLD5"):
        run.store(message_id, Queue("orders", "broker-a", 0), run.logs)
        run.wait(1)
    for number in range(5):
        run.send(number)
        run.wait(1)
    with_store_time(run, 2, -60_000)
    with_store_time(run, 7, -60_000)
    assert run.judge()[STORE_TIMES].message_ids == ("ID000002",)


def test_a_consumer_and_a_producer_that_disagree_contradict_no_store_time() -> None:
    run = MadeUpRun()
    for number in range(5):
        run.send(number, took=4000)
        run.wait(1)
    with_store_time(run, 2, -2500)
    run.deliver(2, offset=900)
    move(run, "consume-1", -20_000)
    assert run.judge()[STORE_TIMES].value == 0
    assert list(disagreements(run)) == ["consume-1"]


def test_store_times_are_unknown_if_nothing_was_sent_or_delivered() -> None:
    assert MadeUpRun().judge()[STORE_TIMES].missing == "nothing was sent or delivered by a workload of the journal"


def test_an_event_of_no_node_has_no_clock() -> None:
    run = MadeUpRun()
    run.entries.insert(0, JournalEntry(run.now, "", "cluster_starting", {"rate": 1.0}))
    run.add("", "offset_reset", group="shop")
    assert "clock_disagreement " not in run.judge().by_metric
