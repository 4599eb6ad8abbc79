"""Duplicates: each cause planted and found by name, compared with manual counting."""

import collections
import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.verdict.causes import DUPLICATE_CAUSES
from rmqlab.verdict.findings import Findings


def clean_run() -> MadeUpRun:
    """Ten messages, sent, delivered once and committed."""
    run = MadeUpRun()
    for number in range(10):
        run.send(number)
        run.deliver(number, offset=number)
    run.commit(10)
    return run


def reassign(run: MadeUpRun, node: str = "consume-1") -> None:
    """Assign the queue to a consumer."""
    run.add(node, "rebalanced", topic="orders", added=["orders@broker-a:0"], removed=[], held=[])


def causes(findings: Findings) -> dict[str, int]:
    """How many deliveries each cause has, without those that have none."""
    counts = {cause: findings[f"duplicates.{cause}"].value for cause in DUPLICATE_CAUSES}
    return {cause: int(count) for cause, count in counts.items() if count}


def test_a_clean_run_has_no_duplicates() -> None:
    findings = clean_run().judge()
    assert findings["stored_twice"].value == 0
    assert findings["duplicates"].value == 0
    assert causes(findings) == {}


def test_a_client_that_tried_again_stored_twice_and_both_are_delivered() -> None:
    run = clean_run()
    run.store("ID000003", Queue("orders", "broker-a", 1), run.members("broker-a"))
    run.deliver(3, offset=0, queue_id=1)
    findings = run.judge()
    assert findings["stored_twice"].message_ids == ("ID000003",)
    assert "orders@broker-a:0 offset 3, orders@broker-a:1 offset 0" in findings["stored_twice"].evidence[0].text
    assert causes(findings) == {"client_retry": 1}


def test_copies_of_one_master_and_its_slave_are_one_place() -> None:
    assert clean_run().judge()["stored_twice"].value == 0


def test_a_delayed_message_lies_under_two_topics_and_is_stored_once() -> None:
    run = clean_run()
    run.store("ID000003", Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2), run.members("broker-a"))
    assert run.judge()["stored_twice"].value == 0


def test_a_message_sent_back_is_a_redelivery() -> None:
    run = clean_run()
    run.deliver(3, offset=0, times=1)
    assert causes(run.judge()) == {"redelivery": 1}


def test_redelivery_below_a_committed_offset_is_a_rollback() -> None:
    run = clean_run()
    reassign(run, "consume-2")
    for number in range(6, 10):
        run.deliver(number, offset=number, node="consume-2")
    findings = run.judge()
    assert causes(findings) == {"offset_rollback": 4}
    assert "offset 10 had been committed" in findings["duplicates.offset_rollback"].evidence[0].text


def test_an_offset_that_a_slave_had_overwritten_is_a_rollback() -> None:
    run = clean_run()
    run.entries = [entry for entry in run.entries if entry.kind != "committed"]
    run.add("broker-a-s", "consumer_offsets_overwritten", key="orders@shop", queues={0: [10, 7]})
    run.deliver(8, offset=8, node="consume-2")
    findings = run.judge()
    assert causes(findings) == {"offset_rollback": 1}
    assert "the metadata sync of broker-a-s moved it from 10 to 7" in findings["duplicates"].evidence[0].text


def test_a_consumer_that_is_reset_to_0_rolls_back() -> None:
    run = clean_run()
    run.entries = [entry for entry in run.entries if entry.kind != "committed"]
    run.add("consume-1", "offset_illegal", queue="orders@broker-a:0", asked=10, offered=0)
    run.deliver(0, offset=0)
    assert causes(run.judge()) == {"offset_rollback": 1}


def test_a_queue_that_changed_hands_before_a_commit_is_a_rebalance() -> None:
    run = clean_run()
    run.entries = [entry for entry in run.entries if entry.kind != "committed"]
    run.commit(8)
    reassign(run, "consume-2")
    run.commit(10)  # of the last owner, and too late: the new one has asked already
    for number in (8, 9):
        run.deliver(number, offset=number, node="consume-2")
    assert causes(run.judge()) == {"rebalance": 2}


def test_a_queue_reassigned_to_the_same_consumer_is_a_rebalance() -> None:
    run = clean_run()
    run.entries = [entry for entry in run.entries if entry.kind != "committed"]
    reassign(run)
    run.deliver(9, offset=9)
    assert causes(run.judge()) == {"rebalance": 1}


@pytest.mark.parametrize("cause", ["rebalance", "unexplained"])
def test_events_of_one_millisecond_happened_in_the_order_of_the_journal(cause: str) -> None:
    """A hunt found an assignment in the millisecond of a delivery: 1795872782."""
    run = MadeUpRun()
    run.send(0)
    events = [functools.partial(run.deliver, 0, offset=0), functools.partial(reassign, run)]
    started = run.now
    for event in reversed(events) if cause == "unexplained" else events:
        run.now = started
        event()
    run.deliver(0, offset=0)
    assert causes(run.judge()) == {cause: 1}


def test_the_highest_offset_that_was_committed_counts_and_not_the_last() -> None:
    run = MadeUpRun()
    run.send(0)
    run.commit(10)
    run.commit(5)
    for node in ("consume-1", "consume-2"):
        run.deliver(7, offset=7, node=node)
    findings = run.judge()
    assert causes(findings) == {"offset_rollback": 1}
    assert "offset 10 had been committed" in findings["duplicates"].evidence[0].text


def test_a_rollback_explains_no_message_at_the_offset_that_it_left() -> None:
    """From 10 to 7: 7, 8 and 9 are delivered again, and 10 had not been consumed."""
    run = MadeUpRun()
    run.send(0)
    for offset in (7, 10):
        run.deliver(offset, offset=offset)
    run.add("broker-a-s", "consumer_offsets_overwritten", key="orders@shop", queues={0: [10, 7]})
    for offset in (7, 10):
        run.deliver(offset, offset=offset)
    assert causes(run.judge()) == {"offset_rollback": 1, "unexplained": 1}


def test_a_duplicate_without_a_cause_is_unexplained() -> None:
    run = clean_run()
    run.entries = [entry for entry in run.entries if entry.kind != "committed"]
    run.deliver(9, offset=9)
    assert causes(run.judge()) == {"unexplained": 1}


def test_a_consumer_that_kept_its_queue_is_not_rolled_back_by_a_commit_beyond() -> None:
    """Issue 14.9: deliveries that were written twice counted as rollbacks."""
    run = clean_run()
    run.deliver(3, offset=3)
    findings = run.judge()
    assert causes(findings) == {"unexplained": 1}
    assert "received it before, and kept orders@broker-a:0" in findings["duplicates"].evidence[0].text


def test_an_entry_that_the_journal_has_twice_is_named() -> None:
    run = clean_run()
    entry = next(entry for entry in run.entries if entry.kind == "delivered")
    run.entries.append(entry)
    findings = run.judge()
    assert causes(findings) == {"unexplained": 1}
    assert "the journal has this entry twice" in findings["duplicates.unexplained"].evidence[0].text


def test_deliveries_without_an_id_are_no_repeats_and_hide_some() -> None:
    run = MadeUpRun()
    run.send(1)
    for offset in (0, 1):
        run.deliver(1, offset)
        run.change_last(message_id=None)
    for metric in ("duplicates", "duplicates.client_retry", "delivered_unstored"):
        finding = run.judge()[metric]
        assert (finding.value, finding.missing) == (None, "2 deliveries carry no message id")
    run.deliver(1, 0)
    run.deliver(1, 0)
    finding = run.judge()["duplicates"]
    assert (finding.value, finding.is_at_least) == (1, True)


def test_another_group_gets_everything_once_more_and_that_is_no_duplicate() -> None:
    run = clean_run()
    for number in range(10):
        run.deliver(number, offset=number, node="consume-2", group="audit")
    assert run.judge()["duplicates"].value == 0


def test_without_deliveries_or_sends_nothing_is_known() -> None:
    run = MadeUpRun()
    findings = run.judge()
    assert findings["duplicates"].value is findings["duplicates.rebalance"].value is None
    assert findings["stored_twice"].missing == "no workload of the journal sent anything"


def test_a_missing_store_makes_what_was_found_the_least() -> None:
    run = clean_run()
    run.unread = {"broker-a-s"}
    assert run.judge()["stored_twice"].is_at_least


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.sampled_from(["one", "two"]), st.sampled_from(["shop", "audit"]), st.integers(0, 1)
        ),
        max_size=40,
    )
)
def test_every_delivery_beyond_the_first_has_exactly_one_cause(made: list[tuple[int, str, str, int]]) -> None:
    run = MadeUpRun()
    for number in range(6):
        run.send(number)
    for number, node, group, times in made:
        run.deliver(number, offset=number, node=f"{group}-{node}", group=group, times=times)
    findings = run.judge()
    counts = collections.Counter((number, group) for number, _, group, _ in made)
    repeated = sum(count - 1 for count in counts.values())
    if made:
        assert findings["duplicates"].value == repeated
        assert sum(causes(findings).values()) == repeated


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=3), max_size=12))
def test_stored_twice_counts_messages_with_more_than_one_place(made: list[list[tuple[int, bool]]]) -> None:
    run = MadeUpRun()
    for number, places in enumerate(made):
        run.send(number, at=())
        for queue_id, is_at_both in places:
            nodes = ["broker-a", "broker-a-s"] if is_at_both else ["broker-a"]
            run.store(f"ID{number:06}", Queue("orders", "broker-a", queue_id), nodes)
    expected = sum(len(places) > 1 for places in made)
    if made:
        assert run.judge()["stored_twice"].value == expected


def test_a_reset_explains_messages_that_the_consumer_was_still_processing() -> None:
    """They are beyond every commit, so no offset moved back over them."""
    run = clean_run()
    run.send(20)
    run.deliver(20, offset=10)
    run.add("broker-a", "offset_reset", group="shop", topic="orders")
    run.deliver(20, offset=10)
    run.add("broker-a", "offset_reset", group="other", topic="orders")
    run.wait(20)
    run.deliver(20, offset=10)
    assert causes(run.judge()) == {"offset_rollback": 1, "unexplained": 1}
