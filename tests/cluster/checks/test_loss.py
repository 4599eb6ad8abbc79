"""Loss: found if planted, not found if absent, compared with manual counting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.testing import ADDRESSES, MadeUpRun
from rmqlab.verdict.outcomes import OUTCOMES, STORED


def test_a_clean_run_has_lost_nothing() -> None:
    run = MadeUpRun()
    for number in range(20):
        run.send(number, queue_id=number % 4)
    findings = run.judge()
    assert findings["lost"].value == 0
    assert findings["lost"].text == "of 20 acknowledged messages"
    assert findings["missing broker-a-s"].value == 0
    assert findings["sent.SEND_OK"].value == 20
    assert findings["stored_unsent"].value == 0


def test_an_acknowledged_message_in_no_store_is_lost_with_its_outcome() -> None:
    run = MadeUpRun()
    run.send(1)
    run.send(2, at=())
    run.send(3, "SLAVE_NOT_AVAILABLE", at=())
    findings = run.judge()
    assert findings["lost"].message_ids == ("ID000002", "ID000003")
    assert findings["lost.SEND_OK"].message_ids == ("ID000002",)
    assert findings["lost.SLAVE_NOT_AVAILABLE"].value == 1
    assert findings["lost.FLUSH_DISK_TIMEOUT"].value == 0
    (evidence,) = findings["lost.SEND_OK"].evidence
    assert evidence.text == "SEND_OK from orders@broker-a:0 offset 1"
    assert "sent" in {entry.kind for entry in evidence.entries}


def test_failed_attempts_of_a_lost_message_are_part_of_its_evidence() -> None:
    run = MadeUpRun()
    run.fail(1)
    run.wait(60)
    for number in range(100, 150):
        run.fail(number)
    run.send(1, at=())
    (evidence,) = run.judge()["lost"].evidence
    first = next(entry for entry in evidence.entries if entry.kind == "attempt_failed")
    assert first.fields["message_id"] == "ID000001"


def test_a_message_on_one_node_alone_is_missing_on_the_other_and_not_lost() -> None:
    run = MadeUpRun()
    run.send(1, at=["broker-a-s"])
    findings = run.judge()
    assert findings["lost"].value == 0
    assert findings["missing broker-a"].message_ids == ("ID000001",)
    assert findings["missing broker-a-s"].value == 0


def test_messages_sent_to_another_broker_are_not_missing_here() -> None:
    run = MadeUpRun(nodes=("namesrv-1", "broker-a", "broker-b"))
    run.send(1)
    run.send(2, broker="broker-b")
    findings = run.judge()
    assert findings["missing broker-a"].value == findings["missing broker-b"].value == 0


def test_a_loss_is_unknown_while_a_store_that_may_have_it_was_not_read() -> None:
    run = MadeUpRun()
    run.send(1, at=())
    run.unread = {"broker-a-s"}
    finding = run.judge()["lost"]
    assert finding.value is None
    assert finding.missing == "broker-a-s: its store was not given; in none of the others: 1"
    assert finding.message_ids == ("ID000001",)


def test_a_message_that_was_found_is_not_lost_whatever_else_was_not_read() -> None:
    run = MadeUpRun()
    run.send(1)
    run.unread = {"broker-a-s"}
    assert run.judge()["lost"].value == 0


def test_without_sends_or_ids_or_stores_nothing_is_known() -> None:
    run = MadeUpRun()
    assert run.judge()["lost"].missing == "no workload of the journal sent anything"
    run.add("produce-1", "sent", outcome="SEND_OK", topic="orders")
    assert run.judge()["lost"].missing == "1 acknowledged sends carry no unique id"
    run = MadeUpRun()
    run.send(1)
    run.unread = set(run.logs)
    assert run.judge()["lost"].missing == "no store was given"


def test_indeterminate_and_rejected_messages_are_never_lost() -> None:
    run = MadeUpRun()
    run.send(1, "indeterminate", at=["broker-a"])
    run.send(2, "indeterminate")
    run.send(3, "refused", at=["broker-a"])
    findings = run.judge()
    assert findings["lost"].value == 0
    assert findings["stored.indeterminate"].message_ids == ("ID000001",)
    assert findings["stored.refused"].message_ids == ("ID000003",)
    assert "orders@broker-a:0 offset 0 at broker-a" in findings["stored.indeterminate"].evidence[0].text


def test_sends_with_other_outcomes_are_the_evidence_for_few_that_ended_in_send_ok() -> None:
    run = MadeUpRun()
    run.send(1)
    refused = [run.send(number, "refused") for number in (2, 3)]
    findings = run.judge()
    texts = ["2 sends ended in refused, the first at produce-1", "1 send ended in SEND_OK, the first at produce-1"]
    assert [piece.text for piece in findings["sent.SEND_OK"].evidence] == texts
    assert findings["sent.SEND_OK"].evidence[0].message_ids == (refused[0],)
    assert [piece.text for piece in findings["sent.refused"].evidence] == texts[:1]


def test_a_message_under_a_system_topic_is_not_lost() -> None:
    """Delayed messages wait in SCHEDULE_TOPIC_XXXX, half messages in their own topic.

    The half topic is RMQ_SYS_TRANS_HALF_TOPIC.
    """
    run = MadeUpRun()
    message_id = run.send(1, at=())
    run.store(message_id, Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 0), ["broker-a"])
    assert run.judge()["lost"].value == 0


def test_messages_missing_on_a_slave_are_reported_with_their_removal() -> None:
    run = MadeUpRun()
    run.add("broker-a-s", "file_deleted", file="commitlog/before")
    run.send(0)
    run.wait(3600)
    run.send(1)
    run.add("broker-a", "file_deleted", file="commitlog/elsewhere")
    run.add("broker-a-s", "file_deleted", file="commitlog/00000000000000000000")
    del run.logs["broker-a-s"][:1]
    (evidence,) = run.judge()["missing broker-a-s"].evidence
    assert evidence.text.endswith("; then broker-a-s: file_deleted")
    assert evidence.entries[-1].fields == {"file": "commitlog/00000000000000000000"}


def test_counts_of_a_store_are_lower_bounds_while_another_was_not_read() -> None:
    run = MadeUpRun()
    run.send(1, "indeterminate", at=["broker-a"])
    run.send(2, "refused", at=["broker-a"])
    for outcome in ("indeterminate", "refused"):
        assert not run.judge()[f"stored.{outcome}"].is_at_least
    run.unread = {"broker-a-s"}
    for outcome in ("indeterminate", "refused"):
        assert run.judge()[f"stored.{outcome}"].is_at_least


def test_a_send_that_came_to_no_end_is_claimed_by_its_attempts() -> None:
    """Its producer was killed between the first attempt and the second."""
    run = MadeUpRun()
    run.send(1)
    run.fail(2)
    run.store("ID000002", Queue("orders", "broker-a", 0), ["broker-a"])
    assert run.judge()["stored_unsent"].value == 0


def test_messages_that_are_sent_while_the_cluster_stops_still_count() -> None:
    run = MadeUpRun()
    run.send(1)
    run.add("", "cluster_stopping")
    run.send(2, at=())
    run.deliver(1, offset=0)
    findings = run.judge()
    assert findings["lost"].message_ids == ("ID000002",)
    assert findings["order.delivered shop"].is_known


def test_unsent_messages_are_reported_unless_stored_before_the_run() -> None:
    run = MadeUpRun()
    run.send(1)
    run.store("STRANGER", Queue("orders", "broker-a", 0), ["broker-a"])
    found = run.judge()["stored_unsent"]
    assert found.message_ids == ("STRANGER",)
    assert found.evidence[0].text == "no send in the journals, stored at orders@broker-a:0 offset 1 by broker-a"
    before = MadeUpRun(now=run.now - 10**9)
    before.store("OLD", Queue("orders", "broker-a", 0), ["broker-a"])
    run.logs["broker-a"] = [*before.logs["broker-a"]]
    assert run.judge()["stored_unsent"].value == 0


def test_messages_without_a_send_count_unless_they_are_in_system_topics() -> None:
    run = MadeUpRun()
    run.send(1)
    run.store("OTHER", Queue("invoices", "broker-a", 0), ["broker-a"])
    run.store("DELAYED", Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 2), ["broker-a"])
    assert run.judge()["stored_unsent"].message_ids == ("OTHER",)


def test_a_batch_is_counted_message_by_message() -> None:
    run = MadeUpRun()
    run.send(1)
    entry = run.entries[-1]
    run.entries[-1] = type(entry)(
        entry.at_millis, entry.node, entry.kind, {**entry.fields, "message_id": "ID000001,ID000002"}
    )
    assert run.judge()["lost"].message_ids == ("ID000002",)


sends = st.lists(
    st.tuples(st.sampled_from(OUTCOMES), st.sets(st.sampled_from(["broker-a", "broker-a-s"])), st.integers(0, 3)),
    max_size=40,
)


@given(sends)
def test_counts_are_those_of_counting_by_hand(made: list[tuple[str, set[str], int]]) -> None:
    run = MadeUpRun()
    for number, (outcome, nodes, queue_id) in enumerate(made):
        run.send(number, outcome, at=nodes, queue_id=queue_id)
    findings = run.judge()
    lost = [number for number, (outcome, nodes, _) in enumerate(made) if outcome in STORED and not nodes]
    assert findings["sent"].value == len(made)
    for outcome in OUTCOMES:
        assert findings[f"sent.{outcome}"].value == sum(said == outcome for said, _, _ in made)
    if not made:
        return
    assert findings["lost"].message_ids == tuple(f"ID{number:06}" for number in lost)
    for outcome in STORED:
        assert findings[f"lost.{outcome}"].value == sum(made[number][0] == outcome for number in lost)
    for outcome in ("refused", "indeterminate"):
        assert findings[f"stored.{outcome}"].value == sum(said == outcome and bool(at) for said, at, _ in made)
    acknowledged = [nodes for outcome, nodes, _ in made if outcome in STORED]
    if acknowledged:
        for node in ("broker-a", "broker-a-s"):
            assert findings[f"missing {node}"].value == sum(node not in nodes for nodes in acknowledged)


@pytest.mark.parametrize(("seconds", "is_ended", "expected"), [(30, False, 0), (90, False, 1), (30, True, 1)])
def test_a_workload_that_runs_may_not_have_recorded_its_last_sends(
    seconds: int, *, is_ended: bool, expected: int
) -> None:
    run = MadeUpRun()
    run.add("produce-1", "node_spawned", pid=100)
    run.add("produce-1", "node_ready")
    run.send(1)
    run.wait(1)
    run.store("ID000002", Queue("orders", "broker-a", 0), run.logs)
    run.wait(seconds)
    if is_ended:
        run.add("produce-1", "node_stopped", pid=100, end="exit status 0")
    run.send(3)
    assert run.judge()["stored_unsent"].value == expected


def test_a_running_consumer_hides_no_message_of_a_foreign_producer() -> None:
    run = MadeUpRun()
    run.add("consume-1", "node_ready", group="shop", orderly=False)
    run.send(1)
    run.store("ID000002", Queue("orders", "broker-a", 0), run.logs)
    run.wait(30)
    run.send(3)
    assert run.judge()["stored_unsent"].value == 1


def test_entries_that_a_fast_clock_leaves_no_time_for_may_be_missing() -> None:
    run = MadeUpRun()
    run.add("", "cluster_starting", rate=60.0)
    run.add("produce-1", "node_ready")
    run.store("ID000002", Queue("orders", "broker-a", 0), run.logs)
    run.wait(500)
    run.send(3)
    assert run.judge()["stored_unsent"].value == 0


def test_a_broker_that_acknowledged_without_a_queue_must_have_the_message() -> None:
    run = MadeUpRun()
    run.send(1, at=())
    run.change_last(queue=None)
    assert run.judge()["missing broker-a"].message_ids == ("ID000001",)


@pytest.mark.parametrize("again", ["refused", "indeterminate", "SEND_OK"])
def test_a_message_that_was_sent_again_counts_once_and_as_acknowledged(again: str) -> None:
    run = MadeUpRun()
    run.send(1, at=())
    run.send(1, again, at=())
    findings = run.judge()
    assert findings["lost"].message_ids == ("ID000001",)
    assert findings["lost"].text == "of 1 acknowledged messages"
    assert findings["missing broker-a"].message_ids == ("ID000001",)


def test_a_message_that_two_brokers_acknowledged_is_missing_at_both() -> None:
    run = MadeUpRun(nodes=("namesrv-1", "broker-a", "broker-b"))
    run.send(1, at=())
    run.send(1, broker="broker-b", at=())
    findings = run.judge()
    assert [findings[f"missing {node}"].value for node in ("broker-a", "broker-b")] == [1, 1]
    assert findings["lost"].value == 1


def test_a_stored_message_that_was_refused_twice_counts_once() -> None:
    run = MadeUpRun()
    run.send(1, "refused", at=["broker-a"])
    run.send(1, "refused")
    assert run.judge()["stored.refused"].message_ids == ("ID000001",)


@pytest.mark.parametrize("role", ["ASYNC_MASTER", "SYNC_MASTER"])
def test_messages_of_a_broker_name_are_uncertain_without_the_stores_of_nodes_that_had_it(role: str) -> None:
    run = renamed_run(role)
    lost = run.judge()["lost"]
    assert (lost.value, lost.parts) == (None, {})
    assert lost.missing.startswith("broker-a")


def renamed_run(role: str) -> MadeUpRun:
    """Return a run whose brokers are renamed after a send, without their stores.

    Another broker's stores are given.
    """
    run = MadeUpRun(nodes=("namesrv-1", "broker-a", "broker-a-s", "broker-b"))
    run.add("", "cluster_starting", role=role, profile="4.9")
    run.send(1)
    for node, broker_id in (("broker-a", 0), ("broker-a-s", 1)):
        run.end(node, "stop", "node_stopped")
        run.add(node, "node_ready", broker_name="broker-c", broker_id=broker_id, address=ADDRESSES[node])
        run.unread.add(node)
    return run
