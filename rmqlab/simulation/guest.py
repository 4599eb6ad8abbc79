"""One node of a simulated machine: a trio run that the machine advances.

trio's guest mode lets another loop run a trio run tick by tick. It allows one run per thread, and keeps its state in
one place, `trio._core._run.GLOBAL_RUN_CONTEXT`; a guest puts its own state there while it runs. It also sends the ticks
itself, because guest mode asks the kernel for events before each: a fifth of the time, for a network that has no
descriptors. Only this module depends on trio's internals.
"""

import math
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio
from outcome import Outcome
from trio._core import _run
from trio._core._run import GLOBAL_RUN_CONTEXT, GuestState

from rmqlab.runtime.clock import ClockSettings, RatedClock

BUSY_TICKS = 1000
"""Ticks at one instant after which a guest must wait for the next millisecond: virtual time passes in endless loops."""
BUSY_SECONDS = 0.001


class VirtualClock(RatedClock):
    """The clock of one guest: the machine's time, with the guest's clock errors."""

    def __init__(self, now: Callable[[], float], wall_epoch: float) -> None:
        super().__init__(ClockSettings(monotonic_epoch=0.0, wall_epoch=wall_epoch))
        self.elapsed = self.current_time = now  # type: ignore[method-assign]  # called about 20 times per message

    def start_clock(self) -> None:
        """Do nothing: a simulated process is not the whole process."""

    def deadline_to_sleep_time(self, deadline: float) -> float:  # noqa: ARG002 -- the machine decides when it passes
        return 0.0


@attrs.define(eq=False)
class Guest:
    """A trio run inside a simulated machine."""

    name: str
    clock: VirtualClock
    result: Outcome[Any] | None = attrs.field(default=None, init=False)
    """The result of its main function, once that has ended."""
    _state: GuestState | None = attrs.field(default=None, init=False)
    _inbox: list[Callable[[], object]] = attrs.field(factory=list, init=False)
    _run_context: dict[str, Any] = attrs.field(factory=dict, init=False)
    _generator_hooks: Any = attrs.field(factory=sys.get_asyncgen_hooks, init=False)

    def start(self, main: Callable[[], Awaitable[object]]) -> None:
        """Start `main` and run its first ticks."""

        def begin() -> None:
            trio.lowlevel.start_guest_run(
                main,
                run_sync_soon_threadsafe=self._take_state,
                done_callback=self._end,
                host_uses_signal_set_wakeup_fd=True,
                clock=self.clock,
            )

        self._inside(begin)

    def outcome(self) -> Any:
        """Return or raise the result of a guest that has ended."""
        if self.result is None:
            raise RuntimeError(f"{self.name} has not ended")
        return self.result.unwrap()

    def call_soon(self, fn: Callable[[], object]) -> None:
        """Call `fn` inside the guest when it runs next."""
        self._inbox.append(fn)

    def run(self) -> float:
        """Run until all tasks wait. Return when to run it again, at the latest.

        Infinity without a deadline.
        """
        again_at: float = self._inside(self._run)
        return again_at

    def _run(self) -> float:
        now, state = self.clock.current_time(), self._state
        for _ in range(BUSY_TICKS):
            inbox, self._inbox = self._inbox, []
            for fn in inbox:
                fn()
            if state is None or self.result is not None:
                return math.inf
            runner = state.runner
            if not self._inbox and not runner.runq and runner.entry_queue.size() == 0:
                deadline = runner.deadlines.next_deadline()
                if deadline > now:  # a tick would run no task
                    return deadline
            self._tick(state)
        return now + BUSY_SECONDS

    def _tick(self, state: GuestState) -> None:
        """Let trio run the tasks that are ready now."""
        try:
            if state.runner.entry_queue.size():  # it is woken over a descriptor, at the end of a run
                state.unrolled_run_gen.send(state.runner.io_manager.get_events(0))
            else:
                state.unrolled_run_gen.send([])
        except StopIteration:
            assert state.runner.main_task_outcome is not None
            self.result = state.runner.main_task_outcome

    def _take_state(self, tick: Callable[[], object]) -> None:
        """Keep the state of guest mode at its first tick, to advance it from now on."""
        self._state = tick.__self__  # type: ignore[attr-defined]  # a method of GuestState
        # trio tests `instruments` several times per tick; its own mapping is ten times slower than a dict.
        self._state.runner.instruments = {}

    def _end(self, result: Outcome[Any]) -> None:
        self.result = result

    def _inside(self, fn: Callable[[], Any]) -> Any:
        """Call `fn` while this is the current trio run of the thread."""
        before, context = sys.get_asyncgen_hooks(), GLOBAL_RUN_CONTEXT.__dict__
        context.update(self._run_context)
        sys.set_asyncgen_hooks(*self._generator_hooks)
        try:
            return fn()
        finally:
            self._generator_hooks = sys.get_asyncgen_hooks()
            sys.set_asyncgen_hooks(*before)
            self._run_context = dict(context)
            context.clear()


def seed_scheduler(seed: str) -> None:
    """Make the order of tasks depend on this seed only, in the whole process."""
    _run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]  # noqa: SLF001 -- as Hypothesis does
    _run._r.seed(seed)  # noqa: SLF001
