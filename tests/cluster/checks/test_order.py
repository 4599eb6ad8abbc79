"""Order: inversions planted in logs and deliveries, compared with checking pairs."""

import math

import attrs
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.cluster.checks.copies import Copy
from rmqlab.cluster.checks.events import Queue
from rmqlab.cluster.checks.order import Placed, find_inversions
from rmqlab.cluster.checks.testing import MadeUpRun


def test_a_clean_run_is_in_order() -> None:
    run = MadeUpRun()
    for number in range(10):
        run.send(number)
        run.deliver(number, offset=number)
    findings = run.judge()
    assert findings["order.stored"].value == 0
    assert findings["order.delivered shop"].value == 0


def test_a_message_stored_behind_one_that_was_sent_later_is_found_with_both() -> None:
    run = MadeUpRun()
    for number in range(4):
        run.send(number)
    for log in run.logs.values():
        log[1], log[2] = swapped(log[1], log[2])
    finding = run.judge()["order.stored"]
    assert finding.message_ids == ("ID000001",)
    assert finding.evidence[0].message_ids == ("ID000001", "ID000002")
    assert "at offset 2 is behind ID000002 at 1" in finding.evidence[0].text


def test_one_node_out_of_order_is_enough_and_both_count_once() -> None:
    for nodes in (["broker-a-s"], ["broker-a", "broker-a-s"]):
        run = MadeUpRun()
        run.send(1)
        run.send(2)
        for node in nodes:
            run.logs[node] = list(swapped(*run.logs[node]))
        assert run.judge()["order.stored"].value == 1


def swapped(one: Copy, other: Copy) -> tuple[Copy, Copy]:
    """Two records in each other's place."""
    return (
        attrs.evolve(other, offset=one.offset, log_offset=one.log_offset),
        attrs.evolve(one, offset=other.offset, log_offset=other.log_offset),
    )


def test_sends_that_overlap_may_lie_in_any_order() -> None:
    run = MadeUpRun()
    run.send(1)
    run.send(2, took=15)
    for log in run.logs.values():
        log[:] = swapped(*log)
    assert run.judge()["order.stored"].value == 0


def test_a_late_copy_of_a_message_that_was_acknowledged_elsewhere_is_no_disorder() -> None:
    """A frozen broker carries out what a client has long sent to another queue."""
    run = MadeUpRun()
    run.send(1, queue_id=1)
    run.send(2)
    run.store("ID000001", Queue("orders", "broker-a", 0), run.members("broker-a"))
    assert run.judge()["order.stored"].value == 0


def test_a_delayed_message_is_moved_to_its_queue_when_due() -> None:
    """The acknowledged queue is the schedule's, with the same number as the final one."""
    run = MadeUpRun()
    run.send(1)
    run.send(2)
    delayed = "ID000001"
    for log in run.logs.values():
        log.sort(key=lambda copy: copy.message_id == delayed)
        log[:] = [attrs.evolve(copy, offset=at, log_offset=at * 100) for at, copy in enumerate(log)]
    assert run.judge()["order.stored"].value == 1
    for log in run.logs.values():
        schedule = Queue("SCHEDULE_TOPIC_XXXX", "broker-a", 0)
        log.insert(0, attrs.evolve(log[-1], queue=schedule, offset=0, log_offset=-100))
    assert run.judge()["order.stored"].value == 0


def test_a_delayed_message_is_known_by_its_send_when_its_first_record_was_deleted() -> None:
    run = MadeUpRun()
    run.send(1, held_in="SCHEDULE_TOPIC_XXXX:2")
    run.send(2)
    for log in run.logs.values():
        log.reverse()
        log[:] = [attrs.evolve(copy, offset=at, log_offset=at * 100) for at, copy in enumerate(log)]
    assert run.judge()["order.stored"].value == 0


def test_a_send_in_doubt_may_be_carried_out_late() -> None:
    run = MadeUpRun()
    run.send(1, "indeterminate")
    run.send(2)
    run.store("ID000001", Queue("orders", "broker-a", 0), run.members("broker-a"))
    assert run.judge()["order.stored"].value == 0


def test_a_message_given_out_after_a_later_one_is_found() -> None:
    run = MadeUpRun()
    for number in (0, 2, 1, 3):
        run.deliver(number, offset=number)
    finding = run.judge()["order.delivered shop"]
    assert finding.message_ids == ("ID000001",)
    assert finding.evidence[0].text == "orders@broker-a:0: consume-1 received offset 1 after consume-1 had received 2"


def test_a_redelivery_is_a_duplicate_and_no_order_violation() -> None:
    run = MadeUpRun()
    for number in (0, 1, 2):
        run.deliver(number, offset=number)
    run.deliver(1, offset=1)
    run.deliver(0, offset=0, times=1)
    assert run.judge()["order.delivered shop"].value == 0


def test_queues_and_groups_are_apart() -> None:
    run = MadeUpRun()
    run.deliver(5, offset=5)
    run.deliver(1, offset=1, queue_id=1)
    run.deliver(0, offset=0, node="other-1", group="other")
    findings = run.judge()
    assert findings["order.delivered shop"].value == findings["order.delivered other"].value == 0


def test_without_stores_or_acknowledgements_nothing_is_known() -> None:
    run = MadeUpRun()
    assert run.judge()["order.stored"].missing == "no send was acknowledged"
    run.send(1)
    run.unread = set(run.logs)
    assert run.judge()["order.stored"].missing == "no store was given"
    assert run.judge()["order.delivered shop"].value is None


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.booleans()), max_size=25),
    st.randoms(use_true_random=False),
)
def test_inversions_are_those_of_looking_at_every_pair(made: list[tuple[int, int, bool]], random: object) -> None:
    offsets = list(range(len(made)))
    random.shuffle(offsets)  # type: ignore[attr-defined]  # hypothesis' random
    placed = [
        Placed(str(offset), began, began + took if is_acknowledged else math.inf, offset)
        for offset, (began, took, is_acknowledged) in zip(offsets, made, strict=True)
    ]
    expected = {
        one.message_id
        for one in placed
        if any(other.offset < one.offset and other.began_at > one.ended_at for other in placed)
    }
    assert {inversion.placed.message_id for inversion in find_inversions(placed)} == expected


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 1), st.sampled_from([0, 0, 0, 1])), max_size=30))
def test_late_deliveries_are_those_of_looking_at_every_pair(made: list[tuple[int, int, int]]) -> None:
    run = MadeUpRun()
    for offset, queue_id, times in made:
        run.deliver(offset, offset=offset, queue_id=queue_id, times=times)
    plain = [(queue_id, offset) for offset, queue_id, times in made if not times]
    first = {place: index for index, place in reversed(list(enumerate(plain)))}
    expected = sum(
        any(queue == place[0] and offset > place[1] and first[queue, offset] < index for queue, offset in first)
        for place, index in first.items()
    )
    if made:
        assert run.judge()["order.delivered shop"].value == expected
