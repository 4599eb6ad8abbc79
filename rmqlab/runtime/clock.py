"""The cluster's clock: trio's time at a configurable rate, and its wall time.

Only this module reads the machine's clocks. All processes of a cluster have the same `ClockSettings`. They count from
one instant of the monotonic clock that all processes of a machine share, so that their times agree to well under a
millisecond, at any rate and for any start time.

At rate 60 an hour takes a minute of real time: trio's sleeps and timeouts are divided by 60, and wall time advances at
the same rate. Threads, the kernel and programs outside the cluster stay in real time.
"""

import math
import sys
import time
from collections.abc import Callable

import attrs
import trio

from rmqlab.runtime.config.validators import LEAST_RATE, MOST_RATE, within

MOCK_WALL_EPOCH = 1_700_000_000.0  # wall time at zero of a mock clock: the same dates in every test run


@attrs.frozen(kw_only=True)
class ClockSettings:
    """The parameters of a cluster's clock, in seconds."""

    rate: float = attrs.field(default=1.0, validator=within(LEAST_RATE, MOST_RATE))
    """Cluster seconds per real second. Reliable up to 60: above, short stalls of the machine cause timeouts."""
    monotonic_epoch: float
    """The machine's monotonic clock at zero of the cluster's clock."""
    wall_epoch: float
    """Wall time at the epoch, in seconds since 1970."""

    @classmethod
    def starting_now(cls, rate: float = 1.0, *, not_before: float = 0.0) -> "ClockSettings":
        """Return settings of a clock that starts now, at the real wall time.

        Or at `not_before` (seconds since 1970) if that is later: the wall time that a previous, faster run reached.
        """
        return cls(rate=rate, monotonic_epoch=time.monotonic(), wall_epoch=max(time.time(), not_before))


class RatedClock(trio.abc.Clock):
    """A clock for `trio.run` at `rate` seconds per real second.

    It counts from an epoch that all processes share.
    """

    def __init__(self, settings: ClockSettings) -> None:
        self.settings = settings
        self.rate = settings.rate
        self._epoch = settings.monotonic_epoch
        self._wall_epoch = settings.wall_epoch
        self._wall_rate = settings.rate
        self.on_wall_change: list[Callable[[], None]] = []
        """Called after each jump of the wall time: waits until a wall time have to be computed again."""

    def start_clock(self) -> None:
        """Make this the clock of all threads of the process.

        Called by trio when the run begins.
        """
        global _process_clock  # noqa: PLW0603 -- a process has one time, and its worker threads have no trio run
        _process_clock = self

    def elapsed(self) -> float:
        """Return the real seconds since the epoch."""
        return time.monotonic() - self._epoch

    def current_time(self) -> float:
        return (time.monotonic() - self._epoch) * self.rate  # `elapsed`, in fewer calls: read several times for a send

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return (deadline - self.current_time()) / self.rate

    def wall_millis(self) -> int:
        """Return this process's wall time in ms since 1970, with injected errors."""
        return int((self._wall_epoch + self.elapsed() * self._wall_rate) * 1000)

    def cluster_millis(self) -> int:
        """Return the correct wall time in ms since 1970, the same in all processes.

        Events have this time.
        """
        return int((self.settings.wall_epoch + self.elapsed() * self.rate) * 1000)

    def set_wrong(self, *, by_seconds: float = 0.0, ppm: float = 0.0) -> None:
        """Make wall time wrong by an offset in seconds and a drift in ppm.

        Zeros correct it.

        Deadlines and periods are unaffected: they use the monotonic clock.
        """
        elapsed = self.elapsed()
        self._wall_rate = self.rate * (1 + ppm / 1e6)
        self._wall_epoch = self.settings.wall_epoch + by_seconds + elapsed * (self.rate - self._wall_rate)
        for call in self.on_wall_change:
            call()

    def until_wall(self, seconds: float) -> float:
        """Return the time in which wall time advances by these seconds; inf if never."""
        if seconds <= 0:
            return 0.0
        return seconds * self.rate / self._wall_rate if self._wall_rate > 0 else math.inf


_process_clock: RatedClock | None = None


def wall_millis() -> int:
    """Return this process's wall time in ms since 1970, in any thread.

    It works with or without a trio run. With a rated clock this is the cluster's time, with trio's mock clock a fixed
    date plus the mock time, otherwise real time.
    """
    try:
        clock = trio.lowlevel.current_clock()
    except RuntimeError:  # a worker thread, or before the run
        return _process_clock.wall_millis() if _process_clock else int(time.time() * 1000)
    if isinstance(clock, RatedClock):
        return clock.wall_millis()
    if _is_mock(clock):
        return int((MOCK_WALL_EPOCH + clock.current_time()) * 1000)
    return int(time.time() * 1000)


def cluster_millis() -> int:
    """Return the cluster's correct wall time in ms since 1970, as used in journals.

    It equals `wall_millis`, except in a process with an injected clock error.
    """
    try:
        clock = trio.lowlevel.current_clock()
    except RuntimeError:
        return _process_clock.cluster_millis() if _process_clock else int(time.time() * 1000)
    return clock.cluster_millis() if isinstance(clock, RatedClock) else wall_millis()


def wall_clock() -> Callable[[], int]:
    """Return the fastest equivalent of `wall_millis` for this trio run."""
    clock = trio.lowlevel.current_clock()
    return clock.wall_millis if isinstance(clock, RatedClock) else wall_millis


def call_on_wall_change(call: Callable[[], None]) -> None:
    """Call a function after each jump of this trio run's wall time."""
    clock = trio.lowlevel.current_clock()
    if isinstance(clock, RatedClock):
        clock.on_wall_change.append(call)


def until_wall(seconds: float) -> float:
    """Return the seconds of this trio run in which wall time advances by these."""
    clock = trio.lowlevel.current_clock()
    return clock.until_wall(seconds) if isinstance(clock, RatedClock) else seconds


def process_time() -> Callable[[], float]:
    """Return the fastest equivalent of `trio.current_time` for this trio run."""
    return trio.lowlevel.current_clock().current_time


def real_seconds(seconds: float) -> float:
    """Convert real seconds to seconds of the running clock.

    For timeouts of disks and processes.
    """
    clock = trio.lowlevel.current_clock()
    return seconds * clock.rate if isinstance(clock, RatedClock) else seconds


def _is_mock(clock: trio.abc.Clock) -> bool:
    # Not imported here: trio.testing is slow to import, and a mock clock exists only if it is already imported.
    testing = sys.modules.get("trio.testing")
    return testing is not None and isinstance(clock, testing.MockClock)
