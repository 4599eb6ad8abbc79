"""Notices to consumer groups: each change is cheap, however many members change.

Source: issue 12.6.
"""

from collections.abc import Callable

import pytest

from rmqlab.broker.rebalance_notices import NOTICES_AT_ONCE, SMALL_GROUP, RebalanceNotices
from rmqlab.broker.scripted import ScriptedPeer
from rmqlab.broker.tables.clients import ConsumerGroup, Member

Turns = list[Callable[[], None]]


@pytest.fixture
def turns() -> Turns:
    """Calls deferred until others had their turn."""
    return []


def group_of(count: int, name: str = "G") -> tuple[ConsumerGroup, list[ScriptedPeer]]:
    group = ConsumerGroup(name, None, None, None)
    peers = [ScriptedPeer() for _ in range(count)]
    for peer in peers:
        group.members[peer] = Member(peer, "id", "JAVA", 399, 0.0)  # type: ignore[arg-type]
    return group, peers


def notices(peers: list[ScriptedPeer]) -> int:
    return sum(len(peer.asked) for peer in peers)


def test_a_small_group_is_notified_at_once(turns: Turns) -> None:
    group, peers = group_of(SMALL_GROUP)
    sender = RebalanceNotices(turns.append)
    for number in (1, 2):
        sender.send(group)
        assert {len(peer.asked) for peer in peers} == {number}
        turns.pop()()
        assert not turns


def test_changes_of_a_small_group_in_one_turn_share_two_rounds(turns: Turns) -> None:
    """Any client causes a notice to all members with each request 35."""
    sender = RebalanceNotices(turns.append)
    group, peers = group_of(SMALL_GROUP)
    for _ in range(500):
        sender.send(group)
    while turns:
        turns.pop(0)()
    assert {len(peer.asked) for peer in peers} == {2}


@pytest.mark.parametrize("count", [SMALL_GROUP, SMALL_GROUP + 1])
def test_a_member_that_does_not_read_gets_one_notice_of_a_group_when_it_does(turns: Turns, count: int) -> None:
    sender = RebalanceNotices(turns.append)
    group, peers = group_of(count)
    slow = peers[0]
    slow.is_congested = True
    for _ in range(5):
        sender.send(group)
        while turns:
            turns.pop(0)()
    assert [len(peer.asked) for peer in peers] == [0] + [5] * (count - 1)
    slow.is_congested = False
    (drained,) = slow.drained
    drained()
    assert [command.ext_fields for command in slow.asked] == [{"consumerGroup": "G"}]
    sender.send(group)
    while turns:
        turns.pop(0)()
    assert len(slow.asked) == 2


def test_a_large_group_is_notified_in_portions_and_changes_share_a_round(turns: Turns) -> None:
    """2,000 consumers of a group that closed at once stopped a broker for 4 s."""
    sender = RebalanceNotices(turns.append)
    group, peers = group_of(2 * NOTICES_AT_ONCE)
    for _ in range(500):
        sender.send(group)
    assert notices(peers) == 0
    turns.pop()()
    assert notices(peers) == NOTICES_AT_ONCE
    turns.pop()()
    assert {len(peer.asked) for peer in peers} == {1}
    assert not turns


def test_a_change_during_a_round_begins_another(turns: Turns) -> None:
    sender = RebalanceNotices(turns.append)
    group, peers = group_of(2 * NOTICES_AT_ONCE)
    other, others = group_of(SMALL_GROUP + 1, "other")
    sender.send(group)
    turns.pop()()
    sender.send(group)
    sender.send(other)
    while turns:
        turns.pop()()
    assert {len(peer.asked) for peer in peers} == {2}
    assert {peer.asked[0].ext_fields["consumerGroup"] for peer in others} == {"other"}
