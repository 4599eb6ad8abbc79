"""Slow calls on a member's files, which its owner makes in a thread."""

from collections.abc import Callable
from typing import Final

import attrs

from rmqlab.store.files.diskcalls import DiskCalls

RETRY_MS: Final = 500
"""Pause, in ms, after an error of the disk."""


@attrs.define
class DiskWork:
    """Calls that are made again, after a pause, while something is not durable."""

    name: str
    """What is made durable, for the log."""
    is_due: Callable[[], bool]
    """True while something is not durable."""
    repair: Callable[[], DiskCalls[None]]
    """Returns the calls that make it durable."""
    is_busy: bool = False
    """True from `start` until the owner has made the last call."""
    error: str = ""
    """Why the last calls failed; empty if they did not."""
    _started: list[DiskCalls[None]] = attrs.field(factory=list)
    _retry_at: int | None = None

    def take_started(self) -> list[DiskCalls[None]]:
        """Return the calls to make, once."""
        started, self._started = self._started, []
        return started

    def start(self, calls: DiskCalls[None]) -> None:
        """Let the owner make calls. Their OSError is noted; `fail` notes any other error."""
        self.is_busy = True
        self._started.append(self._until_end(calls))

    def _until_end(self, calls: DiskCalls[None]) -> DiskCalls[None]:
        try:
            yield from calls
        except OSError as exc:
            self.error = exc.strerror or str(exc)
        else:
            self.error = ""
        finally:
            self.is_busy = False

    def fail(self, error: Exception) -> None:
        """Note another error that ended the last calls.

        They are made again after a pause, as after an OSError.
        """
        self.error = f"{type(error).__name__}: {error}"

    @property
    def wake_at(self) -> int | None:
        """Time of the next try; None without an error."""
        return self._retry_at

    def work(self, now: int) -> None:
        """Start what is due: at once, or after a pause if it failed."""
        if self.is_busy or not self.is_due():
            self._retry_at = None
        elif self.error and self._retry_at is None:
            self._retry_at = now + RETRY_MS
        elif self._retry_at is None or now >= self._retry_at:
            self._retry_at = None
            self.start(self.repair())
