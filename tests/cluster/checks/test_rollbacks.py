"""Offsets that moved back, planted at each possible place, compared with a model."""

from hypothesis import given
from hypothesis import strategies as st

from rmqlab.cluster.checks.testing import MadeUpRun


def test_offsets_that_only_rise_are_no_rollback() -> None:
    run = MadeUpRun()
    for offset in (1, 5, 5, 9):
        run.commit(offset)
    findings = run.judge()
    assert findings["offset_rollbacks"].value == 0
    assert findings["offset_rollbacks shop"].value == 0
    assert findings["rolled_back shop"].value == 0


def test_each_group_of_a_consumer_has_a_finding() -> None:
    run = MadeUpRun()
    run.commit(1, group="early")
    run.commit(1, group="late")
    assert run.judge()["offset_rollbacks early"].value == 0


def test_a_slaves_offsets_that_its_master_overwrites_count_for_each_queue() -> None:
    run = MadeUpRun()
    run.commit(20)
    run.add("broker-a-s", "consumer_offsets_overwritten", key="orders@shop", queues={0: [20, 5], 2: [7, 6]})
    findings = run.judge()
    assert findings["offset_rollbacks"].value == 2
    assert findings["rolled_back shop"].value == 15
    text = "shop, orders@broker-a:0: the metadata sync of broker-a-s moved it from 20 to 5"
    assert text in [piece.text for piece in findings["offset_rollbacks shop"].evidence]


def test_a_commit_that_a_broker_saw_going_back_counts_once() -> None:
    run = MadeUpRun()
    run.commit(20)
    run.commit(8)
    fields = {"group": "shop", "topic": "orders", "queue_id": 0, "before": 20, "after": 8, "peer": "p"}
    run.add("broker-a", "offset_moved_back", **fields)
    findings = run.judge()
    assert findings["offset_rollbacks"].value == 1
    assert findings["rolled_back shop"].value == 12


def test_a_group_restarted_from_an_older_offset_is_found_by_its_commits() -> None:
    """The master returned with old offsets: no broker's own offsets decreased."""
    run = MadeUpRun()
    run.commit(20)
    run.commit(8, node="consume-2")
    findings = run.judge()
    assert findings["offset_rollbacks shop"].value == 1
    assert findings["rolled_back shop"].value == 12


def test_a_consumer_that_is_corrected_downwards_rolls_back_and_upwards_does_not() -> None:
    run = MadeUpRun()
    run.commit(20)
    run.add("consume-1", "offset_illegal", queue="orders@broker-a:0", asked=20, offered=0)
    run.add("consume-1", "offset_illegal", queue="orders@broker-a:1", asked=0, offered=20)
    findings = run.judge()
    assert findings["offset_rollbacks shop"].value == 1
    assert findings["rolled_back shop"].value == 20


def test_a_correction_that_its_broker_reports_and_the_consumer_commits_counts_once() -> None:
    run = MadeUpRun()
    run.commit(20)
    run.add("consume-1", "offset_illegal", queue="orders@broker-a:0", asked=20, offered=5)
    run.commit(5)
    fields = {"group": "shop", "topic": "orders", "queue_id": 0, "before": 20, "after": 5, "peer": "p"}
    run.add("broker-a", "offset_moved_back", **fields)
    assert run.judge()["offset_rollbacks"].value == 1


def test_a_second_rollback_to_the_same_offset_counts_again() -> None:
    run = MadeUpRun()
    fields = {"group": "shop", "topic": "orders", "queue_id": 0, "before": 20, "after": 5, "peer": "p"}
    for _ in range(2):
        run.commit(20)
        run.commit(5)
    run.add("broker-a", "offset_moved_back", **fields)
    assert run.judge()["offset_rollbacks"].value == 2


def test_a_correction_to_the_same_offset_is_no_rollback() -> None:
    run = MadeUpRun()
    run.commit(20)
    run.add("consume-1", "offset_illegal", queue="orders@broker-a:0", asked=20, offered=20)
    assert run.judge()["offset_rollbacks"].value == 0


def test_groups_are_apart_and_without_any_nothing_is_known() -> None:
    assert MadeUpRun().judge()["offset_rollbacks"].value is None
    run = MadeUpRun()
    run.commit(5)
    run.commit(3, node="other-1", group="other")
    findings = run.judge()
    assert findings["offset_rollbacks"].value == 0
    assert findings["rolled_back other"].value == 0
    assert findings["rolled_back nobody"].value is None


@given(st.lists(st.tuples(st.sampled_from(["shop", "audit"]), st.integers(0, 1), st.integers(0, 9)), max_size=30))
def test_falling_commits_are_those_of_comparing_each_with_the_one_before(made: list[tuple[str, int, int]]) -> None:
    run = MadeUpRun()
    for group, queue_id, offset in made:
        run.commit(offset, node=f"{group}-1", group=group, queue_id=queue_id)
    falls: dict[str, list[int]] = {group: [] for group, _, _ in made}
    for index, (group, queue_id, offset) in enumerate(made):
        before = [other for name, queue, other in made[:index] if (name, queue) == (group, queue_id)]
        if before and offset < before[-1]:
            falls[group].append(before[-1] - offset)
    findings = run.judge()
    for group, distances in falls.items():
        assert findings[f"offset_rollbacks {group}"].value == len(distances)
        assert findings[f"rolled_back {group}"].value == max(distances, default=0)
