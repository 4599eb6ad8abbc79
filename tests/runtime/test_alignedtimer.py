"""Instants that the loops of a process share."""

import pytest
import trio
from trio.testing import MockClock

from rmqlab.runtime.net.alignedtimer import AlignedTimer


async def test_loops_of_one_beat_wake_together_whenever_they_began(autojump_clock: MockClock) -> None:
    del autojump_clock
    timer, began, wakes = AlignedTimer(), trio.current_time(), dict[float, list[float]]()

    async def note(late: float, period: float) -> None:
        await trio.sleep(late)
        while True:
            await timer.sleep(period)
            wakes.setdefault(period, []).append(trio.current_time() - began)

    with trio.move_on_after(30.5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(note, 0, 5)
            nursery.start_soon(note, 0.25, 10)
    assert wakes[5] == pytest.approx([5, 10, 15, 20, 25, 30])
    assert wakes[10] == pytest.approx([10, 20, 30])


@pytest.mark.parametrize("period", [0.1, 1 / 3, 5, 7.7])
async def test_each_period_ends_once_in_spite_of_rounding(autojump_clock: MockClock, period: float) -> None:
    del autojump_clock
    await trio.sleep(1e6 / 3)
    timer = AlignedTimer()
    for count in range(1, 200):
        await timer.sleep(period)
        assert trio.current_time() - timer.began == pytest.approx(count * period)


async def test_periods_that_passed_are_not_made_up_for(mock_clock: MockClock) -> None:
    timer = AlignedTimer()
    mock_clock.jump(23)
    assert timer.next(5) == pytest.approx(timer.began + 25)
