"""Held pulls."""

from collections.abc import Callable
from types import SimpleNamespace

from broker.filter.wanted import Wanted
from broker.hold import HeldPull, PullHold
from remoting.command import Command
from remoting.dispatch import Request


def held(offset: int = 5, deadline: float = 15.0, matches: Callable[[int], bool] | None = None) -> HeldPull:
    channel = SimpleNamespace(is_closed=False)
    return HeldPull(Request(Command(11), channel), None, offset, deadline, Wanted(matches))


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
    hold.wake = lambda _pull: hold.add("T", 0, again)
    hold.add("T", 0, held())
    hold.arrived("T", 0, 5, [0])
    assert len(hold) == 1
