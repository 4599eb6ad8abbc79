import time

import pytest
import trio
from trio.testing import MockClock

from rmqlab.runtime import clock
from rmqlab.runtime.clock import MOCK_WALL_EPOCH, ClockSettings, RatedClock, real_seconds, wall_millis


@pytest.fixture(autouse=True)
def _leave_the_process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_process_clock", None)


def test_two_clocks_of_the_same_settings_tell_the_same_time_however_late_they_start() -> None:
    settings = ClockSettings.starting_now(rate=60)
    first, second = RatedClock(settings), RatedClock(settings)
    first.start_clock()
    times = first.current_time(), second.current_time(), first.current_time()
    assert times[0] <= times[1] <= times[2]


def test_a_rated_run_sleeps_its_own_seconds() -> None:
    async def main() -> float:
        began = trio.current_time()
        await trio.sleep(2)
        return trio.current_time() - began

    assert trio.run(main, clock=RatedClock(ClockSettings.starting_now(rate=1000))) >= 2


def test_sleep_time_is_the_distance_divided_by_the_rate() -> None:
    rated = RatedClock(ClockSettings(rate=10, monotonic_epoch=time.monotonic() - 5, wall_epoch=0))
    now = rated.current_time()
    assert 50 <= now < 150
    assert 99 < rated.deadline_to_sleep_time(now + 1000) <= 100


def test_wall_time_begins_at_real_wall_time() -> None:
    before = int(time.time() * 1000)
    rated = RatedClock(ClockSettings.starting_now())
    assert before <= rated.wall_millis() <= int(time.time() * 1000) + 1000


def test_a_cluster_that_lived_fast_does_not_start_in_its_own_past() -> None:
    later = time.time() + 86_400
    assert ClockSettings.starting_now(not_before=later).wall_epoch == later


async def test_wall_time_under_the_mock_clock_is_a_fixed_date_plus_its_time(autojump_clock: MockClock) -> None:
    await trio.sleep(90)
    assert autojump_clock.current_time() == 90
    assert wall_millis() == int((MOCK_WALL_EPOCH + 90) * 1000)


async def test_wall_time_under_trios_own_clock_is_real() -> None:
    before = int(time.time() * 1000)
    assert before <= wall_millis() <= int(time.time() * 1000)


def test_threads_of_a_rated_process_see_the_clusters_time() -> None:
    settings = ClockSettings(rate=1, monotonic_epoch=time.monotonic(), wall_epoch=86_400)

    async def main() -> int:
        return await trio.to_thread.run_sync(wall_millis)

    assert 86_400_000 <= trio.run(main, clock=RatedClock(settings)) < 2 * 86_400_000


def test_real_seconds_grow_with_the_rate() -> None:
    async def main() -> float:
        return real_seconds(2)

    assert trio.run(main, clock=RatedClock(ClockSettings.starting_now(rate=30))) == 60
    assert trio.run(main) == 2


def test_a_wall_clock_that_is_stepped_is_off_by_so_much_and_the_clusters_time_is_not() -> None:
    rated = RatedClock(ClockSettings.starting_now(rate=10))
    rated.set_wrong(by_seconds=-3600)
    assert rated.cluster_millis() - rated.wall_millis() == pytest.approx(3_600_000, abs=2000)
    rated.set_wrong()
    assert abs(rated.cluster_millis() - rated.wall_millis()) < 2000


def test_a_skewed_wall_clock_gains_from_the_moment_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    rated = RatedClock(ClockSettings(rate=10, monotonic_epoch=0, wall_epoch=0))
    rated.set_wrong(ppm=100_000)
    assert rated.wall_millis() == 1_000_000
    now = 110.0
    assert rated.wall_millis() == 1_110_000
    assert rated.cluster_millis() == 1_100_000
    assert rated.current_time() == 1100
    rated.set_wrong()
    assert rated.wall_millis() == 1_100_000


@pytest.mark.parametrize(
    ("ppm", "seconds", "expected"),
    [(0, 10, 10), (1_000_000, 10, 5), (-500_000, 10, 20), (-1_000_000, 10, float("inf")), (-1_000_000, 0, 0)],
)
def test_a_wall_clock_that_is_too_fast_has_a_time_sooner(ppm: float, seconds: float, expected: float) -> None:
    rated = RatedClock(ClockSettings.starting_now(rate=60))
    rated.set_wrong(ppm=ppm)
    assert rated.until_wall(seconds) == pytest.approx(expected)
