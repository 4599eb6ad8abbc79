"""One node of a simulated machine: a trio run that runs when the machine says so.

trio's guest mode lets another loop run a trio run tick by tick. It allows one run per thread, and keeps its state in
one place, `trio._core._run.GLOBAL_RUN_CONTEXT`; a guest puts its own state there while it runs. This module is the only
one that knows so much of trio's inside.
"""

import math
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import trio
from outcome import Outcome
from trio._core import _run
from trio._core._run import GLOBAL_RUN_CONTEXT

from rmqlab.runtime.clock import ClockSettings, RatedClock

BUSY_TICKS = 1000
"""Ticks at one instant after which a guest must wait for the next millisecond: virtual time passes in endless loops."""
BUSY_SECONDS = 0.001


class VirtualClock(RatedClock):
    """The clock of one guest: the machine's time, with the guest's clock errors."""

    def __init__(self, now: Callable[[], float], wall_epoch: float) -> None:
        super().__init__(ClockSettings(monotonic_epoch=0.0, wall_epoch=wall_epoch))
        self._now = now
        self.idle_until: float | None = None
        """Set when all tasks of the guest wait: the time of its next deadline."""

    def start_clock(self) -> None:
        """Do nothing: a simulated process is not the whole process."""

    def elapsed(self) -> float:
        return self._now()

    def current_time(self) -> float:
        return self._now()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        self.idle_until = deadline
        return 0.0


@attrs.define(eq=False)
class Guest:
    """A trio run inside a simulated machine."""

    name: str
    clock: VirtualClock
    result: Outcome[Any] | None = attrs.field(default=None, init=False)
    """The result of its main function, once that has ended."""
    _tick: Callable[[], object] | None = attrs.field(default=None, init=False)
    _inbox: list[Callable[[], object]] = attrs.field(factory=list, init=False)
    _run_context: dict[str, Any] = attrs.field(factory=dict, init=False)
    _generator_hooks: Any = attrs.field(factory=sys.get_asyncgen_hooks, init=False)

    def start(self, main: Callable[[], Awaitable[object]]) -> None:
        """Start `main` as far as its first ticks."""
        with self._entered():
            trio.lowlevel.start_guest_run(
                main,
                run_sync_soon_threadsafe=self._schedule,
                run_sync_soon_not_threadsafe=self._schedule,
                done_callback=self._end,
                host_uses_signal_set_wakeup_fd=True,
                clock=self.clock,
            )

    def outcome(self) -> Any:
        """Return or raise the result of a guest that has ended."""
        if self.result is None:
            raise RuntimeError(f"{self.name} has not ended")
        return self.result.unwrap()

    def tell(self, fn: Callable[[], object]) -> None:
        """Call `fn` inside the guest when it runs next."""
        self._inbox.append(fn)

    def run(self) -> float:
        """Run until all tasks wait. Return when to run it again, at the latest: infinity without a deadline."""
        clock = self.clock
        clock.idle_until = None
        with self._entered():
            for _ in range(BUSY_TICKS):
                inbox, self._inbox = self._inbox, []
                for fn in inbox:
                    fn()
                tick, self._tick = self._tick, None
                if tick is None:  # it has ended
                    return math.inf
                clock.idle_until = None
                tick()
                if clock.idle_until is not None and not self._inbox and not self._has_calls():
                    return clock.idle_until
        return clock.current_time() + BUSY_SECONDS

    def _has_calls(self) -> bool:
        """True if trio itself has something to do, which is so at the end of a run."""
        is_endless = self.clock.idle_until == math.inf
        return is_endless and trio.lowlevel.current_statistics().run_sync_soon_queue_size > 0

    def _schedule(self, fn: Callable[[], object]) -> None:
        self._tick = fn

    def _end(self, result: Outcome[Any]) -> None:
        self.result = result

    @contextmanager
    def _entered(self) -> Iterator[None]:
        """Make this the current trio run of the thread."""
        before, state = sys.get_asyncgen_hooks(), GLOBAL_RUN_CONTEXT.__dict__
        state.update(self._run_context)
        sys.set_asyncgen_hooks(*self._generator_hooks)
        try:
            yield
        finally:
            self._generator_hooks = sys.get_asyncgen_hooks()
            sys.set_asyncgen_hooks(*before)
            self._run_context = dict(state)
            state.clear()


def seed_scheduler(seed: str) -> None:
    """Let trio run tasks in an order that depends on this seed only, in the whole process."""
    _run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]  # noqa: SLF001 -- as Hypothesis does
    _run._r.seed(seed)  # noqa: SLF001
