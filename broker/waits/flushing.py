"""Flushes of the log and of consume queues, for waiting sends and by timers.

Periods are RocketMQ's, in seconds of the process's clock.
"""

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NoReturn

import attrs
import trio

from rmqlab.broker.waits.pending_acks import PendingAcks
from rmqlab.runtime.net.callthread import Caller
from rmqlab.runtime.net.worker import each_in_thread
from rmqlab.store.flush import FlushJob
from rmqlab.store.messagestore import MessageStore

if TYPE_CHECKING:
    from rmqlab.broker.state import Broker

log = logging.getLogger(__name__)

PAGE_SIZE: Final = 4096
ENTRIES_PERIOD: Final = 0.01


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


async def flush_forever(broker: "Broker") -> NoReturn:
    """Flush the commit log by RocketMQ's timers.

    Sends that wait after a failed flush are flushed again.
    """
    store, growth = broker.store, broker.growth
    group = growth.group_flush
    period = store.config.flush_interval_commit_log / 1000
    thorough_period = store.config.flush_commit_log_thorough_interval / 1000
    thorough_at = trio.current_time()
    least_bytes = store.config.flush_commit_log_least_pages * PAGE_SIZE
    while True:
        if store.flushed_offset >= store.max_commit_log_offset:  # then an idle broker is not woken
            await growth.wait_grown()
            while thorough_at <= trio.current_time():  # as if the timer had run meanwhile
                thorough_at += thorough_period
        await trio.sleep(period)
        group.begin()
        if group.is_busy:
            continue
        is_thorough = trio.current_time() >= thorough_at
        if is_thorough:
            thorough_at = trio.current_time() + thorough_period
        is_due = is_thorough or store.max_commit_log_offset - store.flushed_offset >= least_bytes
        job = store.flush_job() if is_due else None
        if job is not None:
            with group.held():
                is_done = await group.syncs.run(job)
            if is_done:
                group.begin()  # for sends that were appended meanwhile


async def flush_entries_forever(broker: "Broker", on_synced: Callable[[], None]) -> NoReturn:
    """Flush the log of a group every 10 ms while it grows (dledger#51).

    In DLedger no send waits for it, because a quorum's memory counts: see `dleger_ack_after_sync`.
    """
    growth = broker.growth
    syncs = growth.group_flush.syncs
    while True:
        await growth.is_flush_wanted.wait()
        growth.is_flush_wanted = trio.Event()
        await trio.sleep(ENTRIES_PERIOD)
        job = broker.store.flush_job()
        if job is None:
            continue
        if await syncs.run(job):
            on_synced()
        else:
            growth.is_flush_wanted.set()


async def flush_queues_forever(broker: "Broker") -> NoReturn:
    """Flush consume queues that are dirty enough, each second.

    At the start and each minute: all of them, and the checkpoint (store-and-ha section 3.6). Only a growing log makes
    queues dirty, so an idle broker is not woken.
    """
    store, growth = broker.store, broker.growth
    syncs = growth.group_flush.syncs
    period = store.config.flush_interval_consume_queue / 1000
    thorough_period = store.config.flush_consume_queue_thorough_interval / 1000
    thorough_at = trio.current_time()
    while True:
        await trio.sleep(period)
        is_thorough = trio.current_time() >= thorough_at
        if is_thorough:
            thorough_at = trio.current_time() + thorough_period
        job = store.flush_queues_job(least_pages=0 if is_thorough else store.config.flush_consume_queue_least_pages)
        if job is not None:
            await syncs.run(job)
        elif store.dispatch_behind_bytes or store.dispatcher.is_index_behind:
            continue
        elif is_thorough:
            await growth.wait_grown()
            while thorough_at <= trio.current_time():  # as if the timer had run meanwhile
                thorough_at += thorough_period
        else:
            with trio.move_on_at(thorough_at):
                await growth.wait_grown()
