from typing import Any

import pytest

from rmqlab.cluster.conditions import Condition, UnknownConditionError
from rmqlab.cluster.scenario.player import real_limit
from rmqlab.cluster.scenario.waits import JournalCondition, parse_wait
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Placement, UnknownTargetError, nodes_of, place
from rmqlab.runtime.journals.journalentry import JournalEntry

SPEC = ClusterSpec(name="x")
NODES = nodes_of(SPEC, place(SPEC, Placement(subnet=1)))
WORKLOADS = ["orders", "payments", "shop"]


def entry(kind: str, node: str = "orders", **fields: Any) -> JournalEntry:
    return JournalEntry(0, node, kind, fields)


SEEN = [
    entry("sent", outcome="SEND_OK", message_id="A"),
    entry("sent", outcome="refused", message_id="B"),
    entry("delivered", "shop", group="g", message_id="A"),
]


def holds(text: str, seen: list[JournalEntry], new: list[JournalEntry]) -> bool:
    condition = parse_wait(text, NODES, WORKLOADS)
    assert isinstance(condition, JournalCondition)
    return condition.holds(seen, new)


def test_sends_and_deliveries_are_counted_since_the_last_action() -> None:
    assert holds("sent orders 2", SEEN, SEEN)
    assert not holds("sent orders 3", SEEN, SEEN)
    assert holds("sent.SEND_OK orders 1", SEEN, SEEN)
    assert not holds("sent.SEND_OK orders 1", SEEN, [])
    assert not holds("sent.indeterminate orders 1", SEEN, SEEN)
    assert holds("delivered shop 1", SEEN, SEEN)
    assert not holds("delivered orders 1", SEEN, SEEN)


def test_all_is_consumed_when_the_group_has_what_is_stored_and_no_more_is_asked() -> None:
    assert holds("consumed-all g", SEEN, [])
    assert not holds("consumed-all other", SEEN, [])
    missed = entry("sent", outcome="SLAVE_NOT_AVAILABLE", message_id="C")
    assert not holds("consumed-all g", [*SEEN, missed], [])
    other = entry("delivered", "shop", group="g", message_id="D")
    assert not holds("consumed-all g", [*SEEN, missed, other], []), "as many as stored, but not those"


def test_all_of_one_producer_or_outcome_may_be_asked_for() -> None:
    late = entry("sent", "payments", outcome="FLUSH_SLAVE_TIMEOUT", message_id="C")
    assert holds("consumed-all g orders", [*SEEN, late], [])
    assert not holds("consumed-all g payments", [*SEEN, late], [])
    assert holds("consumed-all.SEND_OK g payments", [*SEEN, late], [])


@pytest.mark.parametrize(
    ("text", "last_seen"),
    [
        ("sent orders 3", "2 sends of orders since the last action"),
        ("sent.SEND_OK orders 2", "1 SEND_OK sends of orders since the last action"),
        ("delivered shop 2", "1 delivery to shop since the last action"),
        ("event sent shop", "no such event since the last action, 0 before it; it happened at orders"),
        ("ended orders", "orders has not ended"),
        ("consumed-all other", "other has not received 1 of 1 stored messages"),
        ("over dance", "the random faults of 'dance' are not over"),
    ],
)
def test_a_condition_that_is_not_true_says_what_it_saw(text: str, last_seen: str) -> None:
    condition = parse_wait(text, NODES, WORKLOADS, ["dance"])
    assert isinstance(condition, JournalCondition)
    assert condition.explain(SEEN, SEEN) == last_seen


def test_events_and_ends_match_by_their_subject() -> None:
    new = [entry("ha_connected", "broker-a")]
    assert holds("event ha_connected", [], new)
    assert holds("event ha_connected broker-a", [], new)
    assert not holds("event ha_connected broker-b", [], new)
    assert not holds("event ha_connected", new, [])
    assert holds("ended orders", [entry("node_killed")], [])
    assert not holds("ended orders", [entry("node_killed", "shop")], [])


def test_conditions_of_the_cluster_are_understood_too() -> None:
    assert isinstance(parse_wait("route-gone broker-a:master", NODES, WORKLOADS), Condition)
    assert isinstance(parse_wait("stopped orders", NODES, WORKLOADS), Condition)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no condition"),
        ("redy", "conditions: ready.*consumed-all"),
        ("snt orders 5", "consumed-all, over; did you mean sent[?]"),
        ("sent orders", "a workload and a number"),
        ("sent orders many", "a workload and a number"),
        ("delivered.SEND_OK shop 1", "only sent and consumed-all have outcomes"),
        ("consumed-all.refused g", "no outcome 'refused'; outcomes: SEND_OK, FLUSH_DISK_TIMEOUT"),
        ("event.SEND_OK sent", "only sent and consumed-all have outcomes"),
        ("ended.SEND_OK orders", "only sent and consumed-all have outcomes"),
        ("over.SEND_OK cut", "only sent and consumed-all have outcomes"),
        ("ended", "needs one workload"),
        ("event", "needs a kind of event"),
        ("consumed-all", "needs a consumer group, and optionally a producer"),
        ("consumed-all shop orders halves", "needs a consumer group, and optionally a producer"),
        ("route-gone", "needs one target"),
    ],
)
def test_an_unknown_condition_is_rejected(text: str, message: str) -> None:
    with pytest.raises(UnknownConditionError, match=message):
        parse_wait(text, NODES, WORKLOADS)


def test_an_unknown_target_names_those_that_there_are() -> None:
    with pytest.raises(UnknownTargetError, match="workloads: orders, payments, shop"):
        parse_wait("ended nobody", NODES, WORKLOADS)
    with pytest.raises(UnknownTargetError, match="broker-a-s"):
        parse_wait("route-gone broker-z", NODES, WORKLOADS)


def test_only_a_fast_clock_adds_real_time_to_the_limit_of_a_wait() -> None:
    assert [real_limit(30.0, rate) for rate in (0.5, 1.0, 10.0)] == [60.0, 30.0, 13.0]
