"""Follow-up of an append: slaves, queues, and sends that wait for the disk."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rmqlab.broker.waits.append_followup import AppendFollowUp


@attrs.define(eq=False)
class Pass:
    """Replaces the event loop, the store and the HA master of one pass."""

    deferred: list[Callable[[], None]] = attrs.field(factory=list)
    calls: list[str] = attrs.field(factory=list)
    serves_one: bool = False
    dispatch_behind_bytes: int = 0
    dispatcher: SimpleNamespace = attrs.field(factory=lambda: SimpleNamespace(is_index_behind=False))

    def defer(self, function: Callable[[], None]) -> None:
        self.deferred.append(function)

    def push(self) -> None:
        self.calls.append("push")

    def enter_appended(self) -> None:
        self.calls.append("enter")

    def dispatch(self, _limit: int) -> None:
        self.calls.append("dispatch")

    def end(self) -> None:
        while self.deferred:
            self.deferred.pop()()

    def begin(self) -> None:
        self.calls.append("flush")


def follow_up(of: Pass) -> AppendFollowUp:
    return AppendFollowUp(cast("Any", of), cast("Any", of), cast("Any", of), cast("Any", of))


def test_appended_bytes_are_pushed_once_at_the_end_of_a_pass() -> None:
    events = Pass()
    follow = follow_up(events)
    for _ in range(2):
        follow.appended(100)
        follow.appended(100)
        assert events.calls == []
        events.end()
        assert events.calls == ["push", "enter", "flush"]
        events.calls.clear()


def test_bytes_of_the_only_request_of_a_pass_are_pushed_at_once() -> None:
    events = Pass(serves_one=True)
    follow = follow_up(events)
    follow.appended(100)
    assert events.calls == ["push"]
    events.end()
    assert events.calls == ["push", "enter", "flush"]


def test_many_bytes_are_pushed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqlab.broker.waits.append_followup.PUSH_SIZE", 250)
    events = Pass()
    follow = follow_up(events)
    for _ in range(3):
        follow.appended(100)
    assert events.calls == ["push"]
    follow.appended(100)
    assert events.calls == ["push"]


def test_an_index_that_is_behind_wakes_its_task() -> None:
    events = Pass()
    events.dispatcher.is_index_behind = True
    follow = follow_up(events)
    follow.appended(100)
    events.end()
    assert follow.dispatch_due.is_set()


async def test_waiters_for_growth_continue_after_each_pass_that_appends() -> None:
    events, grown = Pass(), 0
    follow = follow_up(events)

    async def count() -> None:
        nonlocal grown
        while True:
            await follow.wait_grown()
            grown += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        nursery.start_soon(count)
        for passes in (1, 2, 3):
            await wait_all_tasks_blocked()
            follow.appended(100)
            follow.received()
            events.end()
            await wait_all_tasks_blocked()
            assert grown == 2 * passes
        nursery.cancel_scope.cancel()
