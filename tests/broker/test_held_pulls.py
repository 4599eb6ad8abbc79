"""Held pulls."""

from collections.abc import Callable

import attrs
import pytest

from rmqlab.broker.filter.message_filter import MessageFilter
from rmqlab.broker.scripted import ScriptedClock, ScriptedPeer, ScriptedTurns
from rmqlab.broker.waits.checkbudget import CHECKS_AT_ONCE, FILTER_SECONDS_AT_ONCE
from rmqlab.broker.waits.held_pulls import QUEUES_SWEPT_AT_ONCE, WAKES_AT_ONCE, HeldPull, PullHold
from rmqlab.remoting.command import Command
from rmqlab.remoting.headers.pull import PullMessageRequestHeader
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.net.dispatch import Request


@attrs.define(eq=False)
class Waker:
    """In the place of the broker: notes the pulls that it is to run again."""

    when_woken: Callable[[HeldPull], object] = lambda _pull: None
    woken: list[HeldPull] = attrs.field(factory=list)

    def wake(self, pull: HeldPull) -> None:
        self.woken.append(pull)
        self.when_woken(pull)

    def properties_at(self, _topic: str, _queue_id: int, _queue_offset: int) -> dict[str, str]:
        return {}


def held(
    waker: Waker,
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
        Request(Command(11), peer or ScriptedPeer()), header, offset, deadline, waker, MessageFilter(matches), size
    )


@pytest.fixture
def waker() -> Waker:
    return Waker()


@pytest.fixture
def turns() -> ScriptedTurns:
    return ScriptedTurns()


@pytest.fixture
def clock() -> ScriptedClock:
    return ScriptedClock(0.0)


@pytest.fixture
def hold(turns: ScriptedTurns, clock: ScriptedClock) -> PullHold:
    return PullHold(turns.later, clock.now, InternalErrors())


def ends_at(offset: int) -> Callable[[str, int], int]:
    return lambda _topic, _queue_id: offset


def test_a_sweep_records_pulls_that_missed_their_arrival(hold: PullHold, waker: Waker) -> None:
    """store-ha#70."""
    events: list[dict[str, object]] = []
    hold.emit = lambda kind, **fields: events.append({"kind": kind, **fields})
    hold.add("T", 0, held(waker))
    hold.sweep(ends_at(5))
    assert events == []

    hold.add("T", 0, held(waker))
    hold.sweep(ends_at(6))
    assert events == [{"kind": "held_pulls_overdue", "topic": "T", "queue": 0, "pulls": 2}]


def test_an_arrival_wakes_the_pulls_of_its_queue_only(hold: PullHold, waker: Waker) -> None:
    """broker-requests#31."""
    here, elsewhere = held(waker), held(waker)
    hold.add("T", 0, here)
    hold.add("T", 1, elsewhere)
    hold.arrived("T", 0, 5, [0])
    assert waker.woken == [here]
    assert len(hold) == 1


def test_an_arrival_with_another_tag_wakes_no_pull(hold: PullHold, waker: Waker) -> None:
    hold.add("T", 0, held(waker, matches={7}.__contains__))
    hold.arrived("T", 0, 5, [8])
    assert waker.woken == []
    hold.arrived("T", 0, 6, [7])
    assert len(waker.woken) == 1


def test_any_arrival_ends_a_pull_of_its_queue_whose_time_is_over(
    hold: PullHold, waker: Waker, clock: ScriptedClock
) -> None:
    """PullRequestHoldService.notifyMessageArriving."""
    over = held(waker, deadline=15.0, matches={7}.__contains__)
    hold.add("T", 0, over)
    hold.add("T", 0, held(waker, deadline=15.1, matches={7}.__contains__))
    clock.seconds = 15.0
    hold.arrived("T", 0, 5, [8])
    assert waker.woken == [over]


def test_an_arrival_before_the_wanted_offset_wakes_no_pull(hold: PullHold, waker: Waker) -> None:
    hold.add("T", 0, held(waker, offset=10))
    hold.arrived("T", 0, 9, [0])
    assert waker.woken == []


def test_the_sweep_wakes_a_pull_whose_queue_grew_by_other_tags(hold: PullHold, waker: Waker) -> None:
    """broker-requests#32: the reply is 20 with an advanced offset."""
    hold.add("T", 0, held(waker, matches=set[int]().__contains__))
    hold.sweep(ends_at(6))
    assert len(waker.woken) == 1


def test_the_sweep_ends_a_pull_whose_time_is_over(hold: PullHold, waker: Waker, clock: ScriptedClock) -> None:
    hold.add("T", 0, held(waker, deadline=15.0))
    clock.seconds = 14.9
    hold.sweep(ends_at(5))
    assert waker.woken == []
    clock.seconds = 15.0
    hold.sweep(ends_at(5))
    assert len(waker.woken) == 1
    assert len(hold) == 0


def test_a_pull_whose_connection_closed_is_dropped_without_an_answer(hold: PullHold, waker: Waker) -> None:
    gone = held(waker)
    gone.request.channel.is_closed = True
    hold.add("T", 0, gone)
    hold.arrived("T", 0, 5, [0])
    hold.add("T", 0, gone)
    hold.sweep(ends_at(6))
    assert waker.woken == []
    assert len(hold) == 0


def test_a_pull_that_is_held_again_while_others_are_woken_is_kept(hold: PullHold, waker: Waker) -> None:
    again = held(waker, offset=9)
    hold.add("T", 0, held(Waker(lambda _pull: hold.add("T", 0, again))))
    hold.arrived("T", 0, 5, [0])
    assert len(hold) == 1


# -- what held pulls may cost (issue 12.6) -----------------------------------------------------------------


def hold_many(hold: PullHold, waker: Waker, count: int) -> ScriptedPeer:
    peer = ScriptedPeer()
    for _ in range(count):
        assert hold.add("T", 0, held(waker, peer=peer))
    return peer


def test_pulls_are_woken_in_portions(hold: PullHold, waker: Waker, turns: ScriptedTurns) -> None:
    turns.is_collecting = True
    hold_many(hold, waker, 3 * WAKES_AT_ONCE)
    hold.arrived("T", 0, 5, [0])
    sizes = [len(waker.woken)]
    while turns.waiting:
        turns.waiting.pop()()
        sizes.append(len(waker.woken))
    assert sizes == [WAKES_AT_ONCE, 2 * WAKES_AT_ONCE, 3 * WAKES_AT_ONCE]
    assert len(hold) == 0


class ThirdAnswerFills(Waker):
    """The third reply exceeds the buffer of its peer's socket."""

    def wake(self, pull: HeldPull) -> None:
        super().wake(pull)
        pull.request.channel.is_congested = len(self.woken) == 3


def test_pulls_of_a_congested_peer_stay_held_until_it_drains(hold: PullHold) -> None:
    waker = ThirdAnswerFills()
    slow, other = hold_many(hold, waker, 5), hold_many(hold, waker, 1)
    hold.arrived("T", 0, 5, [0])
    assert len(waker.woken) == 4
    assert waker.woken[-1].request.channel is other
    hold.sweep(ends_at(6))
    assert len(hold) == 2
    slow.is_congested = False
    (drained,) = slow.drained
    drained()
    assert (len(waker.woken), len(hold)) == (6, 0)


def test_pulls_of_a_peer_that_is_gone_are_forgotten(hold: PullHold, waker: Waker) -> None:
    peer = hold_many(hold, waker, 5)
    peer.is_congested = True
    hold.arrived("T", 0, 5, [0])
    peer.is_closed = True
    hold.sweep(ends_at(5))
    assert (waker.woken, len(hold), len(hold._shares)) == ([], 0, 0)


def test_one_peer_holds_so_many_pulls(monkeypatch: pytest.MonkeyPatch, hold: PullHold, waker: Waker) -> None:
    monkeypatch.setattr("rmqlab.broker.waits.held_pulls.MAX_HELD_OF_CHANNEL", 10)
    peer = hold_many(hold, waker, 10)
    assert not hold.add("T", 1, held(waker, peer=peer))
    assert hold.add("T", 1, held(waker))
    hold.arrived("T", 0, 5, [0])
    assert hold.add("T", 1, held(waker, peer=peer))


def test_all_peers_hold_so_many_pulls(monkeypatch: pytest.MonkeyPatch, hold: PullHold, waker: Waker) -> None:
    monkeypatch.setattr("rmqlab.broker.waits.held_pulls.MAX_HELD", 10)
    hold_many(hold, waker, 10)
    assert not hold.add("T", 1, held(waker))


def test_long_texts_of_held_pulls_count(monkeypatch: pytest.MonkeyPatch, hold: PullHold, waker: Waker) -> None:
    monkeypatch.setattr("rmqlab.broker.waits.held_pulls.MAX_HELD_BYTES_OF_CHANNEL", 1000)
    peer = ScriptedPeer()
    assert hold.add("T", 0, held(waker, peer=peer, size=900))
    assert not hold.add("T", 0, held(waker, peer=peer, size=900))


def test_many_queues_are_swept_in_portions(hold: PullHold, waker: Waker, turns: ScriptedTurns) -> None:
    turns.is_collecting = True
    for queue_id in range(3 * QUEUES_SWEPT_AT_ONCE):
        hold.add("T", queue_id, held(waker, deadline=10.0))
    looked: list[int] = []
    hold.sweep(lambda _topic, queue_id: looked.append(queue_id) or 5)  # type: ignore[func-returns-value]
    assert len(looked) == QUEUES_SWEPT_AT_ONCE
    turns.run_all()
    assert sorted(looked) == list(range(3 * QUEUES_SWEPT_AT_ONCE))
    assert waker.woken == []


def test_a_filter_that_raises_is_its_own_consumers_affair(hold: PullHold, waker: Waker) -> None:

    def broken(_code: int) -> bool:
        raise ValueError("on purpose")

    bad, good = held(waker, matches=broken), held(waker)
    hold.add("T", 0, bad)
    hold.add("T", 0, good)
    hold.arrived("T", 0, 5, [0])
    assert waker.woken == [bad, good]
    assert hold.errors.counts == {"filter of a held pull": 1}


def test_a_batch_and_many_pulls_are_not_compared_one_by_one(hold: PullHold, waker: Waker, turns: ScriptedTurns) -> None:
    """18,000 held pulls and one batch of 5,000 messages stopped a broker for 24 s."""
    turns.is_collecting = True
    compared: list[int] = []

    def matches(code: int) -> bool:
        compared.append(code)
        return False

    for _ in range(100):
        hold.add("T", 0, held(waker, matches=matches))
    hold.add("T", 0, held(waker, offset=1000, matches=matches))
    hold.arrived("T", 0, 0, [7] * 1000)
    hold.arrived("T", 0, 1000, [7])
    assert not compared
    assert not waker.woken
    turns.run_all()
    assert len(waker.woken) == 101
    assert len(hold) == 0


def test_comparisons_are_allowed_again_after_the_others_had_their_turn(
    hold: PullHold, waker: Waker, turns: ScriptedTurns
) -> None:
    turns.is_collecting = True
    for _ in range(300):
        hold.add("T", 0, held(waker, matches={8}.__contains__))
    for turn in range(2):
        for offset in range(CHECKS_AT_ONCE // 300):
            hold.arrived("T", 0, offset, [7])
        assert len(turns.waiting) == 1, turn
        turns.run_all()
    assert waker.woken == []
    hold.arrived("T", 0, 900, [8])
    assert waker.woken


def test_filters_by_properties_have_a_limited_time(hold: PullHold, waker: Waker, turns: ScriptedTurns) -> None:
    """1,500 held pulls with 950 comparisons each stopped a broker at each message."""
    turns.is_collecting = True
    for _ in range(3):
        pull = held(waker)
        pull.message_filter = MessageFilter(None, lambda _properties: False)
        hold.add("T", 0, pull)
    hold.arrived("T", 0, 5, [0])
    assert waker.woken == []
    hold._budget.spend_filter_seconds(FILTER_SECONDS_AT_ONCE)
    hold.arrived("T", 0, 6, [0])
    assert len(waker.woken) == 3
    turns.run_all()
    assert hold._budget.may_filter


def test_a_slow_pull_is_the_last_of_its_portion(
    monkeypatch: pytest.MonkeyPatch, hold: PullHold, waker: Waker, turns: ScriptedTurns
) -> None:
    turns.is_collecting = True
    monkeypatch.setattr("rmqlab.broker.waits.held_pulls.LONG_WAKE", -1.0)
    hold_many(hold, waker, 3)
    hold.arrived("T", 0, 5, [0])
    assert len(waker.woken) == 1
    turns.run_all()
    assert len(waker.woken) == 3
