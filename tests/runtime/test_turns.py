"""When the event loop waits for sockets itself, and when trio has its turn."""

import functools
import math
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from rmqlab.runtime import stopwatch
from rmqlab.runtime.net.network import network
from rmqlab.runtime.net.reactor import READ, Reactor
from rmqlab.runtime.net.turns import LINGER, SHORT_PASS, Turns, observed_turns
from rmqlab.runtime.net.worker import ThreadCalls, in_thread, thread_calls

FAR = 60.0
"""Seconds."""


def to_spare(turns: Turns) -> float:
    """Return what is to spare after two short passes that began at one moment.

    It is in the future, so that a busy machine does not lengthen them.
    """
    now = stopwatch.wall() + FAR
    turns.seconds_to_spare(now)
    return turns.seconds_to_spare(now)


def idle_turns(calls: ThreadCalls | None = None) -> Turns:
    """Not a fixture: pytest-trio installs those that are instruments."""
    turns = Turns(calls or ThreadCalls())
    turns.before_io_wait(FAR)
    return turns


@asynccontextmanager
async def running(reactor: Reactor, *, lingers: bool) -> AsyncIterator[None]:
    """Run an event loop during the block, and close it then."""
    with trio.fail_after(FAR):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(functools.partial(reactor.run_forever, lingers=lingers))
            yield
            nursery.cancel_scope.cancel()
    reactor.close()


def test_after_two_passes_in_quick_succession_there_is_a_moment_to_spare() -> None:
    assert to_spare(idle_turns()) == LINGER


def test_after_a_pause_the_next_pass_is_not_expected_soon() -> None:
    turns, now = idle_turns(), stopwatch.wall()
    assert turns.seconds_to_spare(now) == 0
    assert turns.seconds_to_spare(now + 2 * LINGER) == 0


def test_after_a_long_pass_more_may_arrive_while_trio_runs() -> None:
    turns, began = idle_turns(), stopwatch.wall() - 2 * SHORT_PASS
    turns.seconds_to_spare(began)
    assert turns.seconds_to_spare(began) == 0


def test_a_deadline_that_is_near_leaves_no_moment_to_spare() -> None:
    turns = idle_turns()
    turns.before_io_wait(LINGER / 2)
    assert to_spare(turns) == 0


def test_nothing_is_known_before_the_first_wait_of_trio() -> None:
    assert to_spare(Turns(ThreadCalls())) == 0


async def test_a_ready_task_leaves_no_moment_to_spare() -> None:
    event = trio.Event()
    with observed_turns() as turns, trio.fail_after(FAR):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(event.wait)
            await trio.testing.wait_all_tasks_blocked()
            turns.before_io_wait(math.inf)
            assert to_spare(turns) == LINGER
            event.set()
            assert to_spare(turns) == 0


async def test_a_worker_thread_that_may_finish_leaves_no_moment_to_spare() -> None:
    turns, may_finish = idle_turns(thread_calls()), threading.Event()
    with trio.fail_after(FAR):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(in_thread, may_finish.wait, FAR)
            await trio.testing.wait_all_tasks_blocked()
            assert to_spare(turns) == 0
            may_finish.set()
    assert to_spare(turns) == LINGER


async def test_a_worker_thread_of_another_run_in_the_process_does_not_count() -> None:
    """A blocking client has its event loop in a thread."""
    is_begun, may_finish = threading.Event(), threading.Event()

    def call() -> None:
        is_begun.set()
        may_finish.wait(FAR)

    other = threading.Thread(target=trio.run, args=(in_thread, call))
    other.start()
    try:
        assert is_begun.wait(FAR)
        with observed_turns() as turns:
            turns.before_io_wait(math.inf)
            assert to_spare(turns) == LINGER
    finally:
        may_finish.set()
        other.join(FAR)


async def test_a_server_that_lingers_runs_the_task_that_a_pass_wakes() -> None:
    """Sockets that are ready all the time do not keep trio from its other tasks."""
    reactor, woken = Reactor(), trio.Event()
    near, far = socket.socketpair()
    passes = 0

    def ping(_events: int) -> None:
        nonlocal passes
        near.recv(1)
        far.send(b"x")
        passes += 1
        if passes == 100:
            woken.set()

    with near, far:
        reactor.register(near, READ, ping)
        far.send(b"x")
        async with running(reactor, lingers=True):
            await woken.wait()
    assert passes >= 100


@pytest.mark.parametrize(("lingers", "passes_of_a_turn"), [(False, 8), (True, 32)])
async def test_more_passes_follow_one_another_while_trio_has_nothing_to_do(
    monkeypatch: pytest.MonkeyPatch, *, lingers: bool, passes_of_a_turn: int
) -> None:
    """A turn of trio costs as much as the pass of a send."""
    monkeypatch.setattr(stopwatch, "wall", lambda: 0.0)  # all passes are short
    reactor, passes, found = Reactor(), 0, trio.Event()
    near, far = socket.socketpair()
    turns = Counter[int]()
    """Passes of each turn, by the number of the turn."""

    class Waits(trio.abc.Instrument):
        number = 0

        def before_io_wait(self, _timeout: float) -> None:
            self.number += 1

    def ping(_events: int) -> None:
        nonlocal passes
        near.recv(1)
        far.send(b"x")
        turns[waits.number] += 1
        passes += 1
        if passes == 200:
            found.set()

    waits = Waits()
    trio.lowlevel.add_instrument(waits)
    with near, far:
        reactor.register(near, READ, ping)
        far.send(b"x")
        async with running(reactor, lingers=lingers):
            await found.wait()
    trio.lowlevel.remove_instrument(waits)
    assert max(turns.values()) == passes_of_a_turn


@pytest.mark.parametrize("lingers", [False, True])
async def test_long_passes_do_not_follow_one_another_without_a_turn_of_trio(
    monkeypatch: pytest.MonkeyPatch, *, lingers: bool
) -> None:
    """Many busy peers make a pass of seconds, and timers waited for eight of them."""
    reactor, passes = Reactor(), 0
    near, far = socket.socketpair()
    seconds = iter(range(1000))
    monkeypatch.setattr(stopwatch, "wall", lambda: float(next(seconds)))

    def ping(_events: int) -> None:
        nonlocal passes
        passes += 1

    with near, far:
        reactor.register(near, READ, ping)
        far.send(b"x")
        async with running(reactor, lingers=lingers):
            while not passes:
                await trio.lowlevel.checkpoint()
            assert passes <= 2  # of two turns: the task of this test may be the later one of a turn


async def test_the_observer_is_removed_with_its_event_loop() -> None:
    with network().observed_turns() as turns:
        assert turns is not None
    with pytest.raises(KeyError):
        trio.lowlevel.remove_instrument(turns)
