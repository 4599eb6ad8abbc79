"""Delayed delivery when the wall clock jumps."""

import errno
import math

import pytest
import trio
import trio.testing

from rmqlab.broker.deferred.delay import DueAlarm
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.message import NewMessage
from rmqlab.runtime.clock import ClockSettings, RatedClock, call_on_wall_change
from rmqlab.store.results import PutResult

YEAR_MILLIS = 365 * 86_400_000
WAIT = 3600.0


def test_a_level_that_failed_under_a_clock_ahead_is_resumed_when_it_is_right_again(
    talk: TalkingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocketMQ counts such pauses with another clock. The level was paused for a year."""

    def fail(_message: NewMessage, _level: int) -> PutResult:
        raise OSError(errno.EMFILE, "Too many open files")

    talk.send("orders", DELAY="1")
    talk.clock.advance(1)
    delay = talk.broker.delay
    talk.clock.wall_epoch_millis += YEAR_MILLIS
    with monkeypatch.context() as failing:
        failing.setattr(delay, "put", fail)
        delay.deliver_due()
    assert delay.seconds_until_due() == 10
    talk.clock.wall_epoch_millis -= YEAR_MILLIS
    assert delay.seconds_until_due() == 0
    delay.deliver_due()
    assert talk.broker.store.max_queue_offset("orders", 0) == 1


@pytest.mark.parametrize(("ppm", "expected"), [(1_000_000, WAIT / 2), (-500_000, WAIT * 2), (-1_000_000, math.inf)])
def test_a_sleep_lasts_until_the_wrong_clock_has_the_time(ppm: float, expected: float) -> None:
    clock = RatedClock(ClockSettings.starting_now())

    async def main() -> float:
        alarm = DueAlarm(clock.wall_millis)
        clock.set_wrong(ppm=ppm)
        began_at = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(alarm.sleep, WAIT)
            await trio.testing.wait_all_tasks_blocked()
            assert alarm._sleeping is not None
            deadline = alarm._sleeping.deadline
            nursery.cancel_scope.cancel()
        return deadline - began_at

    assert trio.run(main, clock=clock) == pytest.approx(expected, abs=60)


@pytest.mark.parametrize("by_seconds", [WAIT, -WAIT])
def test_a_jump_of_the_clock_ends_the_sleep(by_seconds: float) -> None:
    """RocketMQ looks every 100 ms, so it delivers what is due by the new time at once."""
    clock = RatedClock(ClockSettings.starting_now())

    async def main() -> float:
        alarm = DueAlarm(clock.wall_millis)
        call_on_wall_change(alarm.wake)
        began_at = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(alarm.sleep, WAIT)
            await trio.testing.wait_all_tasks_blocked()
            clock.set_wrong(by_seconds=by_seconds)
        clock.set_wrong()  # nobody sleeps
        return trio.current_time() - began_at

    assert trio.run(main, clock=clock) < WAIT / 2
