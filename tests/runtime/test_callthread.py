"""Calls beside the event loop: in a thread, or in tasks of a simulated node."""

import contextlib
import threading
from collections.abc import AsyncIterator

import trio
from trio.testing import MockClock

from rmqlab.runtime.net.callthread import CallThread, TaskCalls, caller
from rmqlab.runtime.net.reactor import Reactor, open_reactor
from rmqlab.runtime.net.worker import InlineCalls, block, run_inline

FAR = 60.0
"""Seconds."""


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[tuple[Reactor, CallThread]]:
    with trio.fail_after(FAR):
        async with open_reactor(lingers=True) as reactor:
            calls = CallThread(reactor)
            try:
                yield reactor, calls
            finally:
                await calls.close()


async def ended(calls: CallThread, *made: object) -> BaseException | None:
    """Make calls, and return what `done` got."""
    errors: list[BaseException | None] = []
    event = trio.Event()

    def done(error: BaseException | None) -> None:
        assert threading.current_thread() is threading.main_thread()
        errors.append(error)
        event.set()

    calls.start(made, done)  # type: ignore[arg-type]
    await event.wait()
    return errors[0]


async def test_all_calls_are_made_in_one_thread_that_ends_with_close() -> None:
    threads: list[threading.Thread] = []
    async with opened() as (_, calls):
        for _ in range(3):
            note = lambda: threads.append(threading.current_thread())  # noqa: E731
            assert await ended(calls, note, note) is None
    assert len(threads) == 6
    assert len(set(threads)) == 1
    assert threads[0] is not threading.main_thread()
    assert not threads[0].is_alive()


async def test_the_first_call_that_raises_ends_them_and_others_can_be_started() -> None:
    made: list[str] = []

    def refuse() -> None:
        raise OSError("refused")

    async with opened() as (_, calls):
        error = await ended(calls, lambda: made.append("first"), refuse, lambda: made.append("second"))
        assert isinstance(error, OSError)
        assert await ended(calls, lambda: made.append("third")) is None
    assert made == ["first", "third"]


async def test_done_may_start_the_next_calls_and_its_error_is_counted() -> None:
    rounds, event = list[int](), trio.Event()
    async with opened() as (reactor, calls):

        def done(_error: BaseException | None) -> None:
            rounds.append(len(rounds))
            if len(rounds) < 100:
                calls.start([lambda: None], done)
                return
            event.set()
            raise ZeroDivisionError

        calls.start([lambda: None], done)
        await event.wait()
        assert await ended(calls, lambda: None) is None
        assert reactor.errors.counts == {"socket callback": 1}
    assert len(rounds) == 100


async def test_close_waits_for_the_calls_also_when_cancelled() -> None:
    events, may_end = list[str](), threading.Event()

    def call() -> None:
        may_end.wait(FAR)
        events.append("called")

    async with opened() as (_, calls):
        with trio.CancelScope() as scope:
            calls.start([call], lambda _error: events.append("done"))
            scope.cancel()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(calls.close)
                await trio.lowlevel.cancel_shielded_checkpoint()
                events.append("cancelled")
                may_end.set()
    assert events == ["cancelled", "called", "done"]


async def test_without_calls_there_is_no_thread() -> None:
    before = threading.active_count()
    async with opened():
        assert threading.active_count() == before


async def test_a_simulated_node_makes_calls_in_tasks_with_their_time(autojump_clock: MockClock) -> None:
    run_inline(InlineCalls())
    events: list[tuple[str, float]] = []

    def sync(name: str) -> None:
        block(1.0, threading.Event())
        events.append((name, autojump_clock.current_time()))

    def refuse() -> None:
        raise OSError("refused")

    async with trio.open_nursery() as nursery, open_reactor() as reactor:
        calls = caller(reactor, nursery.start_soon)
        assert isinstance(calls, TaskCalls)
        calls.start(
            [lambda: sync("log"), lambda: sync("queue"), refuse],
            lambda error: events.append((str(error), autojump_clock.current_time())),
        )
        await trio.sleep(3)
        await calls.close()
    assert events == [("log", 0.0), ("queue", 1.0), ("refused", 2.0)]


async def test_a_real_node_has_a_thread() -> None:
    async with open_reactor() as reactor, trio.open_nursery() as nursery:
        assert isinstance(caller(reactor, nursery.start_soon), CallThread)
