"""Flushes of the log for waiting sends.

Those by timers are in `rmqlab.broker.flushloops`.
"""

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator

import attrs

from rmqlab.broker.waits.pending_acks import PendingAcks
from rmqlab.runtime.net.callthread import Caller
from rmqlab.runtime.net.worker import each_in_thread
from rmqlab.store.flush import FlushJob
from rmqlab.store.messagestore import MessageStore

log = logging.getLogger(__name__)


@attrs.define(eq=False)
class Syncs:
    """Runs flushes in threads.

    Logs once that the disk fails, and once that it works again.
    """

    store: MessageStore
    _is_failing: bool = attrs.field(default=False, init=False)

    async def run(self, job: FlushJob) -> bool:
        """Run a job; True if it succeeded."""
        try:
            await each_in_thread(job.steps)
        except OSError as exc:
            return self.ended(job, exc)
        return self.ended(job, None)

    def not_started(self, job: FlushJob, error: OSError | RuntimeError) -> None:
        """Drop a job that no thread could run: no thread or descriptor is left."""
        self._failed(job, OSError(str(error)), f"cannot start a thread to flush the log: {error}")

    def _failed(self, job: FlushJob, error: OSError, cause: str) -> None:
        job.failed(error)
        if not self._is_failing:
            log.error("%s; retrying", cause)
        self._is_failing = True

    def ended(self, job: FlushJob, error: BaseException | None) -> bool:
        """Apply a job whose steps have been called; True if it succeeded.

        A failed job is dropped: the sends that wait for it time out. Raises an error that is not the disk's.
        """
        if isinstance(error, OSError):
            self._failed(job, error, f"cannot write to disk: {error}")
            return False
        if error is not None:
            raise error
        if self._is_failing:
            log.warning("the disk can be written to again")
        self._is_failing = False
        self.store.flushed(job)
        return True


@attrs.define(eq=False)
class GroupFlush:
    """Syncs the log for waiting sends, in groups.

    One sync serves every send that was appended before it began, and the next one begins when it has ended
    (store-and-ha section 3.6).
    """

    syncs: Syncs
    waits: PendingAcks
    _caller: Caller
    _defer: Callable[[Callable[[], None]], None]
    is_busy: bool = attrs.field(default=False, init=False)
    """True while a sync of the log runs."""
    _has_ended: bool = attrs.field(default=False, init=False)

    def begin(self) -> None:
        """Sync the log if sends wait for it.

        Only one sync runs at a time: the next one begins at its end.
        """
        if self.is_busy or self._has_ended or not len(self.waits):
            return
        job = self.syncs.store.flush_job()
        if job is None:
            self.waits.advance(self.syncs.store.flushed_offset)
            return
        try:
            self._caller.start(job.steps, functools.partial(self._ended, job))
        except (OSError, RuntimeError) as exc:  # the sends wait for the next try
            self.syncs.not_started(job, exc)
        else:
            self.is_busy = True

    def _ended(self, job: FlushJob, error: BaseException | None) -> None:
        self.is_busy = False
        is_done = self.syncs.ended(job, error)
        self.waits.advance(self.syncs.store.flushed_offset)
        if is_done:  # a failed flush is retried after the period, or for the next send
            self._defer(self.begin)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Suspend syncs during the block, which runs its own sync."""
        self.is_busy = True
        try:
            yield
        finally:
            self.is_busy = False
            self.waits.advance(self.syncs.store.flushed_offset)

    async def end(self) -> None:
        """Stop starting syncs, and wait for the end of the last one."""
        self._has_ended = True
        await self._caller.close()
