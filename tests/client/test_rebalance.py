"""Allocation strategies: results worked out from Java's rules, and invariants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.client import rebalance
from rmqlab.client.errors import StrategyError
from rmqlab.client.rebalance import Strategy, allocate
from rmqlab.remoting.bodies.queue import MessageQueue


def queues(count: int, broker_name: str = "b") -> list[MessageQueue]:
    return [MessageQueue(topic="t", broker_name=broker_name, queue_id=queue_id) for queue_id in range(count)]


def shares(strategy: Strategy, count: int, members: int) -> list[list[int]]:
    ids = [f"m{number}" for number in range(members)]
    return [[queue.queue_id for queue in allocate(strategy, own, queues(count), ids)] for own in ids]


@pytest.mark.parametrize("returned", [None, [1]])
def test_a_strategy_that_returns_no_list_of_queues_has_failed(returned: list[MessageQueue]) -> None:
    with pytest.raises(StrategyError, match=r"expected a MessageQueue|NoneType"):
        allocate(lambda *_: returned, "m0", queues(1), ["m0"])


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


def test_by_machine_room_allocates_only_brokers_of_its_rooms() -> None:
    """AllocateMessageQueueByMachineRoom: five queues for two members.

    The odd one goes to the first.
    """
    near, far = queues(5, "room1@b"), queues(4, "room2@b")
    strategy = rebalance.by_machine_room({"room1"})
    first, second = (allocate(strategy, own, near + far, ["m0", "m1"]) for own in ("m0", "m1"))
    assert [queue.queue_id for queue in first] == [0, 1, 4]
    assert [queue.queue_id for queue in second] == [2, 3]


@pytest.mark.parametrize(
    ("broker_name", "has_room"),
    [("r@b", True), ("r@b@", True), ("@b", True), ("r@", False), ("r", False), ("r@@b", False), ("r@b@c", False)],
)
def test_the_room_of_a_broker_is_what_java_splits_off(broker_name: str, *, has_room: bool) -> None:
    """AllocateMessageQueueByMachineRoom splits its name at each `@`."""
    (queue,) = queues(1, broker_name)
    strategy = rebalance.by_machine_room({"r", ""})
    assert allocate(strategy, "m", [queue], ["m"]) == [queue] * has_room


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


RECORDED = """\
avg 8 3 [0,1,2,],[3,4,5,],[6,7,],
circle 8 3 [0,3,6,],[1,4,7,],[2,5,],
hash 8 3 [3,],[0,2,4,5,],[1,6,7,],
room 8 3 [0,1,6,],[2,3,7,],[4,5,],
avg 7 3 [0,1,2,],[3,4,],[5,6,],
circle 7 3 [0,3,6,],[1,4,],[2,5,],
hash 7 3 [3,],[0,2,4,5,],[1,6,],
room 7 3 [0,1,6,],[2,3,],[4,5,],
avg 2 4 [0,],[1,],[],[],
circle 2 4 [0,],[1,],[],[],
hash 2 4 [],[0,],[1,],[],
room 2 4 [0,],[1,],[],[],
avg 16 5 [0,1,2,3,],[4,5,6,],[7,8,9,],[10,11,12,],[13,14,15,],
circle 16 5 [0,5,10,15,],[1,6,11,],[2,7,12,],[3,8,13,],[4,9,14,],
hash 16 5 [10,],[0,2,5,14,15,],[1,6,7,9,13,],[11,12,],[3,4,8,],
room 16 5 [0,1,2,15,],[3,4,5,],[6,7,8,],[9,10,11,],[12,13,14,],
avg 5 5 [0,],[1,],[2,],[3,],[4,],
circle 5 5 [0,],[1,],[2,],[3,],[4,],
hash 5 5 [],[0,2,],[1,],[],[3,4,],
room 5 5 [0,],[1,],[2,],[3,],[4,],
"""
"""What the strategies of Java's client 4.9.8 answered for members `10.0.0.I@(100+I)#7`, and as many queues of topic
`orders` at `broker-a` (for rooms at `r1@broker-a`): strategy, queues, members, the queue ids of each member."""


@pytest.mark.parametrize("line", RECORDED.splitlines())
def test_strategies_answer_as_javas_do(line: str) -> None:
    kind, count, members, expected = line.split()
    strategy, broker_name = {
        "avg": (rebalance.averagely, "broker-a"),
        "circle": (rebalance.averagely_by_circle, "broker-a"),
        "hash": (rebalance.consistent_hash(), "broker-a"),
        "room": (rebalance.by_machine_room({"r1"}), "r1@broker-a"),
    }[kind]
    all_queues = [
        MessageQueue(topic="orders", broker_name=broker_name, queue_id=number) for number in range(int(count))
    ]
    ids = [f"10.0.0.{number}@{100 + number}#7" for number in range(int(members))]
    answers = ([queue.queue_id for queue in allocate(strategy, own, all_queues, ids)] for own in ids)
    assert "".join("[" + "".join(f"{queue_id}," for queue_id in own) + "]," for own in answers) == expected
