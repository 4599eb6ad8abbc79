"""Held pulls."""

from collections.abc import Callable

import pytest

from rmqlab.broker.filter.message_filter import MessageFilter
from rmqlab.broker.held_pulls import CHECKS_AT_ONCE, QUEUES_SWEPT_AT_ONCE, WAKES_AT_ONCE, HeldPull, PullHold
from rmqlab.broker.testing import ScriptedPeer
from rmqlab.remoting.command import Command
from rmqlab.remoting.headers.pull import PullMessageRequestHeader
from rmqlab.runtime.dispatch import Request


def held(
    offset: int = 5,
    deadline: float = 15.0,
    matches: Callable[[int], bool] | None = None,
    peer: ScriptedPeer | None = None,
    size: int = 0,
) -> HeldPull:
    header = PullMessageRequestHeader(
        consumer_group="g", topic="T", queue_id=0, queue_offset=offset, max_msg_nums=32, sys_flag=0
    )
    return HeldPull(
        Request(Command(11), peer or ScriptedPeer()), header, offset, deadline, MessageFilter(matches), size
    )


def open_hold(end: int = 5) -> tuple[PullHold, list[HeldPull]]:
    woken: list[HeldPull] = []
    return PullHold(lambda _topic, _queue_id: end, woken.append), woken


def test_an_arrival_wakes_the_pulls_of_its_queue_only() -> None:
    """broker-requests#31."""
    hold, woken = open_hold()
    here, elsewhere = held(), held()
    hold.add("T", 0, here)
    hold.add("T", 1, elsewhere)
    hold.arrived("T", 0, 5, [0])
    assert woken == [here]
    assert len(hold) == 1


def test_an_arrival_with_another_tag_wakes_nobody() -> None:
    hold, woken = open_hold()
    hold.add("T", 0, held(matches={7}.__contains__))
    hold.arrived("T", 0, 5, [8])
    assert woken == []
    hold.arrived("T", 0, 6, [7])
    assert len(woken) == 1


def test_an_arrival_before_the_wanted_offset_wakes_nobody() -> None:
    hold, woken = open_hold()
    hold.add("T", 0, held(offset=10))
    hold.arrived("T", 0, 9, [0])
    assert woken == []


def test_the_sweep_wakes_a_pull_whose_queue_grew_by_other_tags() -> None:
    """broker-requests#32: it is answered with 20 and an advanced offset."""
    hold, woken = open_hold(end=6)
    hold.add("T", 0, held(matches=set[int]().__contains__))
    hold.sweep(1.0)
    assert len(woken) == 1


def test_the_sweep_ends_a_pull_whose_time_is_over() -> None:
    hold, woken = open_hold()
    hold.add("T", 0, held(deadline=15.0))
    hold.sweep(14.9)
    assert woken == []
    hold.sweep(15.0)
    assert len(woken) == 1
    assert len(hold) == 0


def test_a_pull_whose_connection_closed_is_dropped_without_an_answer() -> None:
    hold, woken = open_hold(end=6)
    gone = held()
    gone.request.channel.is_closed = True
    hold.add("T", 0, gone)
    hold.arrived("T", 0, 5, [0])
    hold.add("T", 0, gone)
    hold.sweep(20.0)
    assert woken == []
    assert len(hold) == 0


def test_a_pull_that_is_held_again_while_others_are_woken_is_kept() -> None:
    hold, _ = open_hold()
    again = held(offset=9)
    hold.wake = lambda _pull: None if hold.add("T", 0, again) else pytest.fail("not held")
    hold.add("T", 0, held())
    hold.arrived("T", 0, 5, [0])
    assert len(hold) == 1


# -- what held pulls may cost (issue 12.6) -----------------------------------------------------------------


def hold_many(hold: PullHold, count: int) -> ScriptedPeer:
    peer = ScriptedPeer()
    for _ in range(count):
        assert hold.add("T", 0, held(peer=peer))
    return peer


def test_pulls_are_woken_in_portions() -> None:
    hold, woken = open_hold()
    portions: list[Callable[[], None]] = []
    hold.later = portions.append
    hold_many(hold, 3 * WAKES_AT_ONCE)
    hold.arrived("T", 0, 5, [0])
    sizes = [len(woken)]
    while portions:
        portions.pop(0)()
        sizes.append(len(woken))
    assert sizes == [WAKES_AT_ONCE, 2 * WAKES_AT_ONCE, 3 * WAKES_AT_ONCE]
    assert len(hold) == 0


def test_pulls_of_a_peer_that_takes_nothing_stay_until_it_does() -> None:
    hold, woken = open_hold(end=6)
    slow, other = hold_many(hold, 5), hold_many(hold, 1)

    def wake(pull: HeldPull) -> None:
        woken.append(pull)
        slow.is_congested = len(woken) == 3

    hold.wake = wake
    hold.arrived("T", 0, 5, [0])
    assert len(woken) == 4
    assert woken[-1].request.channel is other
    hold.sweep(1.0)
    assert len(hold) == 2
    slow.is_congested = False
    (drained,) = slow.drained
    drained()
    assert (len(woken), len(hold)) == (6, 0)


def test_what_waits_for_a_peer_that_is_gone_is_forgotten() -> None:
    hold, woken = open_hold()
    peer = hold_many(hold, 5)
    peer.is_congested = True
    hold.arrived("T", 0, 5, [0])
    peer.is_closed = True
    hold.sweep(1.0)
    assert (woken, len(hold), len(hold._shares)) == ([], 0, 0)


def test_one_peer_holds_so_many_pulls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqlab.broker.held_pulls.MAX_HELD_OF_CHANNEL", 10)
    hold, _ = open_hold()
    peer = hold_many(hold, 10)
    assert not hold.add("T", 1, held(peer=peer))
    assert hold.add("T", 1, held())
    hold.arrived("T", 0, 5, [0])
    assert hold.add("T", 1, held(peer=peer))


def test_all_peers_hold_so_many_pulls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqlab.broker.held_pulls.MAX_HELD", 10)
    hold, _ = open_hold()
    hold_many(hold, 10)
    assert not hold.add("T", 1, held())


def test_long_texts_of_held_pulls_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqlab.broker.held_pulls.MAX_HELD_BYTES_OF_CHANNEL", 1000)
    hold, _ = open_hold()
    peer = ScriptedPeer()
    assert hold.add("T", 0, held(peer=peer, size=900))
    assert not hold.add("T", 0, held(peer=peer, size=900))


def test_many_queues_are_swept_in_portions() -> None:
    hold, woken = open_hold(end=6)
    portions: list[Callable[[], None]] = []
    hold.later = portions.append
    for queue_id in range(3 * QUEUES_SWEPT_AT_ONCE):
        hold.add("T", queue_id, held(deadline=10.0))
    looked: list[int] = []
    hold.max_offset = lambda _topic, queue_id: looked.append(queue_id) or 5  # type: ignore[func-returns-value]
    hold.sweep(1.0)
    assert len(looked) == QUEUES_SWEPT_AT_ONCE
    while portions:
        portions.pop()()
    assert sorted(looked) == list(range(3 * QUEUES_SWEPT_AT_ONCE))
    assert woken == []


def test_a_filter_that_raises_is_its_own_consumers_affair() -> None:
    hold, woken = open_hold()

    def broken(_code: int) -> bool:
        raise ValueError("on purpose")

    bad, good = held(matches=broken), held()
    hold.add("T", 0, bad)
    hold.add("T", 0, good)
    hold.arrived("T", 0, 5, [0])
    assert woken == [bad, good]
    assert hold.errors.counts == {"filter of a held pull": 1}


def test_a_batch_and_many_pulls_are_not_compared_one_by_one() -> None:
    """18,000 held pulls and one batch of 5,000 messages stopped a broker for 24 s."""
    hold, woken = open_hold(end=1000)
    turns: list[Callable[[], None]] = []
    hold.later = turns.append
    compared: list[int] = []

    def matches(code: int) -> bool:
        compared.append(code)
        return False

    for _ in range(100):
        hold.add("T", 0, held(matches=matches))
    hold.arrived("T", 0, 0, [7] * 1000)
    hold.arrived("T", 0, 1000, [7])
    assert not compared
    assert not woken
    while turns:
        turns.pop(0)()
    assert len(woken) == 100
    assert len(hold) == 0


def test_comparisons_are_allowed_again_after_the_others_had_their_turn() -> None:
    hold, woken = open_hold()
    turns: list[Callable[[], None]] = []
    hold.later = turns.append
    for _ in range(300):
        hold.add("T", 0, held(matches={8}.__contains__))
    for turn in range(2):
        for offset in range(CHECKS_AT_ONCE // 300):
            hold.arrived("T", 0, offset, [7])
        assert len(turns) == 1, turn
        turns.pop()()
    assert woken == []
    hold.arrived("T", 0, 900, [8])
    assert woken


def test_filters_by_properties_have_a_limited_time() -> None:
    """1,500 held pulls with an expression of 950 comparisons stopped a broker at each message."""
    hold, woken = open_hold()
    turns: list[Callable[[], None]] = []
    hold.later = turns.append
    hold.properties_of = lambda _topic, _queue_id, _offset: {}
    for _ in range(3):
        pull = held()
        pull.wanted = MessageFilter(None, lambda _properties: False)
        hold.add("T", 0, pull)
    hold.arrived("T", 0, 5, [0])
    assert woken == []
    hold._filter_seconds_left = 0.0
    hold.arrived("T", 0, 6, [0])
    assert len(woken) == 3
    turns.pop()()
    assert hold._filter_seconds_left > 0


def test_a_pull_that_takes_long_is_the_last_of_its_portion(monkeypatch: pytest.MonkeyPatch) -> None:
    hold, woken = open_hold()
    turns: list[Callable[[], None]] = []
    hold.later = turns.append
    monkeypatch.setattr("rmqlab.broker.held_pulls.LONG_WAKE", -1.0)
    hold_many(hold, 3)
    hold.arrived("T", 0, 5, [0])
    assert len(woken) == 1
    while turns:
        turns.pop()()
    assert len(woken) == 3
