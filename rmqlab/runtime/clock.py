"""The one place that reads the machine's clocks: trio's time at a rate, and wall time derived from it.

All processes of a cluster are given the same `ClockSettings`. They count from one instant of the machine's
monotonic clock, which all processes of a machine share, so that their times agree to well under a millisecond
however late each of them started, and at any rate.

At rate 60 an hour passes in a minute: every sleep and time-out of trio is divided, and wall time runs along.
Threads, the kernel and programs outside the cluster stay in real time.
"""

import sys
import time
from collections.abc import Callable

import attrs
import trio

from rmqlab.runtime.validators import above, within

MOCK_WALL_EPOCH = 1_700_000_000.0  # wall time at zero of a mock clock: tests see the same dates on every run


@attrs.frozen(kw_only=True)
class ClockSettings:
    """What a process must be told to live in the cluster's time. Seconds."""

    rate: float = attrs.field(default=1.0, validator=[above(0), within(0, 1000)])
    """Cluster seconds per real second. Sound up to 60: beyond it, a stall of the machine looks like a time-out."""
    monotonic_epoch: float
    """The instant of the machine's monotonic clock that is zero of the cluster's."""
    wall_epoch: float
    """Wall time at that instant, in seconds since 1970."""

    @classmethod
    def starting_now(cls, rate: float = 1.0, *, not_before: float = 0.0) -> "ClockSettings":
        """Time begins now, at the real wall time, or later where a faster cluster had already lived past it."""
        return cls(rate=rate, monotonic_epoch=time.monotonic(), wall_epoch=max(time.time(), not_before))


class RatedClock(trio.abc.Clock):
    """A clock for `trio.run` that gains `rate` seconds per real second from a shared epoch."""

    def __init__(self, settings: ClockSettings) -> None:
        self.settings = settings
        self.rate = settings.rate
        self._epoch = settings.monotonic_epoch
        self._wall_epoch = settings.wall_epoch
        self._wall_rate = settings.rate

    def start_clock(self) -> None:
        """Called by trio as the run begins. From now on the threads of this process live by this clock too."""
        global _process_clock  # noqa: PLW0603 -- a process has one time, and its worker threads know no trio run
        _process_clock = self

    def current_time(self) -> float:
        return (time.monotonic() - self._epoch) * self.rate

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return (deadline - self.current_time()) / self.rate

    def wall_millis(self) -> int:
        """The time on this process's wall clock, which may have been set wrong."""
        return int((self._wall_epoch + (time.monotonic() - self._epoch) * self._wall_rate) * 1000)

    def cluster_millis(self) -> int:
        """The true wall time, in which events are told: the same for all processes."""
        return int((self.settings.wall_epoch + (time.monotonic() - self._epoch) * self.rate) * 1000)

    def set_wrong(self, *, by_seconds: float = 0.0, ppm: float = 0.0) -> None:
        """Let wall time be wrong from now on: so far off, and so many millionths too fast. Zeros set it right.

        Nothing else goes wrong: deadlines and periods are of the monotonic clock.
        """
        elapsed = time.monotonic() - self._epoch
        self._wall_rate = self.rate * (1 + ppm / 1e6)
        self._wall_epoch = self.settings.wall_epoch + by_seconds + elapsed * (self.rate - self._wall_rate)


_process_clock: RatedClock | None = None


def wall_millis() -> int:
    """Milliseconds since 1970 as this process sees them; callable from any thread, with or without a trio run.

    Under a rated clock: the cluster's time. Under trio's mock clock: a fixed date plus the mock time. Otherwise
    real time.
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
    """Milliseconds since 1970 of the clock that all processes of a cluster share: the time of the journal.

    It is `wall_millis`, except in a process whose own wall time was put wrong on purpose.
    """
    try:
        clock = trio.lowlevel.current_clock()
    except RuntimeError:
        return _process_clock.cluster_millis() if _process_clock else int(time.time() * 1000)
    return clock.cluster_millis() if isinstance(clock, RatedClock) else wall_millis()


def wall_clock() -> Callable[[], int]:
    """Give the quickest function that answers as `wall_millis` does, for as long as this trio run lasts."""
    clock = trio.lowlevel.current_clock()
    return clock.wall_millis if isinstance(clock, RatedClock) else wall_millis


def real_seconds(seconds: float) -> float:
    """So many real seconds, in seconds of the running clock: for bounds on what stays in real time (disks, processes)."""
    clock = trio.lowlevel.current_clock()
    return seconds * clock.rate if isinstance(clock, RatedClock) else seconds


def _is_mock(clock: trio.abc.Clock) -> bool:
    # Looked up, not imported: trio.testing is slow to import, and a clock of its kind exists only if someone else did.
    testing = sys.modules.get("trio.testing")
    return testing is not None and isinstance(clock, testing.MockClock)
