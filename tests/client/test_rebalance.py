"""The strategies against results worked out by hand from Java's rules, and what every strategy must keep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client import rebalance
from client.rebalance import Strategy, allocate
from remoting.bodies.queue import MessageQueue


def queues(count: int, broker_name: str = "b") -> list[MessageQueue]:
    return [MessageQueue(topic="t", broker_name=broker_name, queue_id=queue_id) for queue_id in range(count)]


def shares(strategy: Strategy, count: int, members: int) -> list[list[int]]:
    ids = [f"m{number}" for number in range(members)]
    return [[queue.queue_id for queue in allocate(strategy, own, queues(count), ids)] for own in ids]


@pytest.mark.parametrize(
    ("count", "members", "expected"),
    [
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (7, 3, [[0, 1, 2], [3, 4], [5, 6]]),
        (6, 3, [[0, 1], [2, 3], [4, 5]]),
        (2, 4, [[0], [1], [], []]),
        (0, 2, [[], []]),
    ],
)
def test_averagely_gives_neighbouring_queues(count: int, members: int, expected: list[list[int]]) -> None:
    """AllocateMessageQueueAveragely."""
    assert shares(rebalance.averagely, count, members) == expected


@pytest.mark.parametrize(
    ("count", "members", "expected"), [(8, 3, [[0, 3, 6], [1, 4, 7], [2, 5]]), (2, 4, [[0], [1], [], []])]
)
def test_by_circle_deals_queues_out(count: int, members: int, expected: list[list[int]]) -> None:
    """AllocateMessageQueueAveragelyByCircle."""
    assert shares(rebalance.averagely_by_circle, count, members) == expected


def test_by_machine_room_takes_only_brokers_of_its_rooms() -> None:
    """AllocateMessageQueueByMachineRoom: five queues for two members; the odd one goes to the first."""
    near, far = queues(5, "room1@b"), queues(4, "room2@b")
    strategy = rebalance.by_machine_room({"room1"})
    first, second = (allocate(strategy, own, near + far, ["m0", "m1"]) for own in ("m0", "m1"))
    assert [queue.queue_id for queue in first] == [0, 1, 4]
    assert [queue.queue_id for queue in second] == [2, 3]


def test_nearest_machine_room_shares_the_queues_of_an_empty_room() -> None:
    """AllocateMachineRoomNearby."""
    strategy = rebalance.by_nearest_machine_room(
        rebalance.averagely, lambda queue: queue.broker_name[0], lambda member: member[0]
    )
    all_queues = queues(2, "a1") + queues(2, "z1")
    assert allocate(strategy, "a-1", all_queues, ["a-1", "b-1"]) == [all_queues[0], all_queues[1], all_queues[2]]
    assert allocate(strategy, "b-1", all_queues, ["a-1", "b-1"]) == [all_queues[3]]


def test_consistent_hash_moves_no_queue_between_members_that_stay() -> None:
    """AllocateMessageQueueConsistentHash."""
    strategy = rebalance.consistent_hash()
    members = ["m0", "m1", "m2"]
    before = {own: set(allocate(strategy, own, queues(64), members)) for own in members}
    after = {own: set(allocate(strategy, own, queues(64), members[:2])) for own in members[:2]}
    assert all(before[own] <= after[own] for own in members[:2])


def test_a_client_that_the_list_does_not_show_gets_nothing() -> None:
    assert allocate(rebalance.averagely, "me", queues(4), ["other"]) == []


def test_by_config_gives_what_is_written() -> None:
    """AllocateMessageQueueByConfig."""
    assert allocate(rebalance.by_config(queues(2)), "me", queues(9), ["me", "other"]) == queues(2)


@given(
    strategy=st.sampled_from([rebalance.averagely, rebalance.averagely_by_circle, rebalance.consistent_hash()]),
    count=st.integers(0, 40),
    members=st.sets(st.text("abc@#1", min_size=1), min_size=1, max_size=8),
)
def test_every_queue_is_given_to_exactly_one_member(strategy: Strategy, count: int, members: set[str]) -> None:
    given_out = [queue for own in members for queue in allocate(strategy, own, queues(count), members)]
    assert rebalance.sort_queues(given_out) == queues(count)
