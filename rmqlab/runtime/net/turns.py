"""Decides when the event loop may wait for sockets itself, instead of in trio.

To wait in trio costs three system calls and a pass of trio's scheduler, 10 to 15 us. A master waits twice for each
send of a single sender: for the request, and for the slave's acknowledgement. While sockets become ready in quick
succession, and trio has nothing else to do, the event loop of a server waits for them in its own selector.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

from rmqlab.runtime import stopwatch
from rmqlab.runtime.net.worker import ThreadCalls, thread_calls

LINGER: Final = 0.001
"""Seconds of such a wait: the shortest of epoll. Timers and other files of trio can be late by so much."""

SHORT_PASS: Final = 0.0003
"""Seconds of a pass that serves few requests."""


class Turns(trio.abc.Instrument):
    """Observes the scheduler of a trio run: which tasks and deadlines are due."""

    def __init__(self, calls: ThreadCalls) -> None:
        self._calls = calls
        self._scheduled = 0
        self._due_at = -math.inf
        self._last_pass = -math.inf

    def task_scheduled(self, _task: trio.lowlevel.Task) -> None:
        """Count a task that becomes ready."""
        self._scheduled += 1

    def before_task_step(self, _task: trio.lowlevel.Task) -> None:
        """Count a ready task that runs.

        The first tasks became ready before this was installed.
        """
        self._scheduled = max(self._scheduled - 1, 0)

    def before_io_wait(self, timeout: float) -> None:
        """Note when the next deadline is due."""
        self._due_at = stopwatch.wall() + timeout

    def seconds_to_spare(self, pass_began: float) -> float:
        """Return how long to wait for sockets after a pass, 0 if trio should run.

        Trio runs if a task is ready, if a deadline is near, if a worker thread may finish, or if the pass before this
        one is longer ago than this wait: then the next one probably is not near, either. It also runs after a long
        pass: its turn costs little of that, and what arrives meanwhile shares the next pass.
        """
        last, self._last_pass = self._last_pass, pass_began
        if pass_began - last > LINGER or self._scheduled or self._calls.are_running:
            return 0.0
        now = stopwatch.wall()
        return LINGER if now - pass_began < SHORT_PASS and now + LINGER < self._due_at else 0.0


@contextmanager
def observed_turns() -> Iterator[Turns]:
    """Observe this trio run until the block ends."""
    turns = Turns(thread_calls())
    trio.lowlevel.add_instrument(turns)
    try:
        yield turns
    finally:
        trio.lowlevel.remove_instrument(turns)
