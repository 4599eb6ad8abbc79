"""Tasks beside the event loop.

Background loops, and short tasks that handlers and replication start.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

import attrs
import trio

from rmqlab.runtime.boundary import InternalErrors


class TaskStarter(Protocol):
    """Starts a task; a `trio.Nursery` is one."""

    def start_soon(self, fn: Callable[..., Awaitable[object]], /, *args: object) -> object:
        """Start `fn(*args)` at the next checkpoint."""


@attrs.frozen
class BackgroundTasks:
    """The tasks of one broker, in its nursery.

    A task that fails is logged and counted, and the others go on.
    """

    nursery: trio.Nursery
    errors: InternalErrors

    def start_soon(self, fn: Callable[..., Awaitable[object]], /, *args: object) -> None:
        """Start a task that ends by itself."""
        self.nursery.start_soon(self.errors.run, getattr(fn, "__qualname__", "task"), fn, *args)

    def keep_running(self, place: str, loop: Callable[..., Awaitable[object]], /, *args: object) -> None:
        """Start a loop that is run again after a pause when it fails.

        `place` is its name in the error counts.
        """
        self.nursery.start_soon(self.errors.keep_running, place, loop, *args)
