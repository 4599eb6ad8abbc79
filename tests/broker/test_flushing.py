"""Flushes: for waiting sends in groups, the rest by timers.

A disk that fails is tried again.
"""

import errno
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from rmqlab.broker.flushloops import flush_forever, flush_queues_forever
from rmqlab.broker.waits.flushing import GroupFlush, Syncs
from rmqlab.broker.waits.pending_acks import PendingAcks, WaitingSend
from rmqlab.runtime.net.callthread import Calls, Done
from rmqlab.store.files.disk import Disk
from rmqlab.store.flush import FlushJob
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import PutStatus
from rmqlab.store.testing import ManualClock, new_message, small_config


@attrs.define(eq=False)
class CountingDisk(Disk):
    """Counts syncs, and refuses them while it is broken."""

    syncs: int = 0
    is_broken: bool = False

    def sync(self, descriptor: int) -> None:
        self.syncs += 1
        if self.is_broken:
            fail()
        Disk.sync(self, descriptor)


def fail() -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture
def disk() -> CountingDisk:
    return CountingDisk()


@pytest.fixture
def store(tmp_path: Path, disk: CountingDisk) -> Iterator[MessageStore]:
    opened = MessageStore.open(small_config(tmp_path), now_millis=ManualClock(), disk=disk)
    yield opened
    disk.is_broken = False
    opened.close()


@attrs.define(eq=False)
class ScriptedCaller:
    """In the place of a thread: calls are made when the test says so."""

    job: tuple[Calls, Done] | None = None
    starts: int = 0
    is_closed: bool = False
    refusal: Exception | None = None

    def start(self, calls: Calls, done: Done) -> None:
        assert self.job is None
        if self.refusal is not None:
            raise self.refusal
        self.starts += 1
        self.job = calls, done

    def finish(self) -> None:
        assert self.job is not None
        (calls, done), self.job, error = self.job, None, None
        try:
            for call in calls:
                call()
        except Exception as exc:  # noqa: BLE001 - as a thread does
            error = exc
        done(error)

    async def close(self) -> None:
        self.is_closed = True


@attrs.define(eq=False)
class Sends:
    """Sends that wait for the disk."""

    store: MessageStore
    waits: PendingAcks = attrs.field(factory=lambda: PendingAcks(5.0, PutStatus.FLUSH_DISK_TIMEOUT))
    statuses: list[PutStatus] = attrs.field(factory=list)

    def put(self) -> None:
        end = self.store.put(new_message()).end_offset
        self.waits.add(end, WaitingSend(lambda status, _cause: self.statuses.append(status)), now=0.0)


@attrs.define(eq=False)
class Growth:
    """In the place of AppendFollowUp: counts who waits for growth."""

    group_flush: GroupFlush
    grown: trio.Event = attrs.field(factory=trio.Event)
    waits: int = 0

    async def wait_grown(self) -> None:
        self.waits += 1
        await self.grown.wait()
        self.grown = trio.Event()


@attrs.define(eq=False)
class InlineSyncs(Syncs):
    """Runs jobs without a thread: a clock that jumps would not wait for one."""

    async def run(self, job: FlushJob) -> bool:
        error = None
        try:
            for step in job.steps:
                step()
        except OSError as exc:
            error = exc
        await trio.lowlevel.checkpoint()
        return self.ended(job, error)


def at_once(fn: Callable[[], None]) -> None:
    """In the place of the end of a pass."""
    fn()


def flush_by(sends: Sends, caller: ScriptedCaller, syncs: Syncs | None = None) -> GroupFlush:
    return GroupFlush(syncs or Syncs(sends.store), sends.waits, caller, at_once)


async def test_a_disk_failure_and_its_recovery_are_reported_once_each(
    store: MessageStore, caplog: pytest.LogCaptureFixture
) -> None:
    def job(step: Callable[[], None]) -> FlushJob:
        return FlushJob(0, [step], epoch=0, log_stored_at=0)

    syncs = Syncs(store)
    assert [await syncs.run(job(fail)) for _ in range(3)] == [False] * 3
    assert caplog.text.count("cannot write to disk: [Errno 5] Input/output error") == 1
    assert [await syncs.run(job(lambda: None)) for _ in range(2)] == [True] * 2
    assert caplog.text.count("the disk can be written to again") == 1


def test_sends_that_arrive_during_a_sync_share_the_next_one(store: MessageStore) -> None:
    sends, caller = Sends(store), ScriptedCaller()
    group = flush_by(sends, caller)
    sends.put()
    group.begin()
    for _ in range(3):
        sends.put()
        group.begin()
    assert caller.starts == 1
    caller.finish()
    assert len(sends.statuses) == 1, "those that were appended after the sync began wait for the next"
    assert group.is_busy
    caller.finish()
    assert sends.statuses == [PutStatus.PUT_OK] * 4
    assert not group.is_busy
    assert caller.starts == 2


def test_without_waiting_sends_nothing_is_synced(store: MessageStore) -> None:
    sends, caller = Sends(store), ScriptedCaller()
    store.put(new_message())
    flush_by(sends, caller).begin()
    assert caller.starts == 0


def test_after_a_failed_sync_no_other_begins_until_a_send_or_the_period(
    store: MessageStore, disk: CountingDisk
) -> None:
    sends, caller = Sends(store), ScriptedCaller()
    group = flush_by(sends, caller)
    disk.is_broken = True
    sends.put()
    group.begin()
    sends.put()
    caller.finish()
    assert store.flush_error == "Input/output error"
    assert (caller.starts, group.is_busy, sends.statuses) == (1, False, [])
    disk.is_broken = False
    group.begin()
    caller.finish()
    assert sends.statuses == [PutStatus.PUT_OK] * 2
    assert store.flush_error == ""


def test_an_error_that_is_not_the_disks_is_raised_and_the_next_sync_can_begin(store: MessageStore) -> None:
    sends, caller = Sends(store), ScriptedCaller()
    group = flush_by(sends, caller)
    sends.put()
    group.begin()
    assert caller.job is not None
    (_, done), caller.job = caller.job, None
    with pytest.raises(ZeroDivisionError):
        done(ZeroDivisionError())
    group.begin()
    caller.finish()
    assert sends.statuses == [PutStatus.PUT_OK]


def test_without_a_thread_or_a_descriptor_a_sync_counts_as_failed(
    store: MessageStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The sends wait for the next try."""
    sends, caller = Sends(store), ScriptedCaller()
    group = flush_by(sends, caller)
    sends.put()
    for refusal in (OSError(24, "Too many open files"), RuntimeError("can't start new thread")):
        caller.refusal = refusal
        group.begin()
        assert (caller.job, group.is_busy, sends.statuses) == (None, False, [])
    assert store.flush_error == "can't start new thread"
    assert caplog.text.count("cannot start a thread to flush the log: [Errno 24] Too many open files; retrying") == 1
    assert "cannot write to disk" not in caplog.text
    caller.refusal = None
    group.begin()
    caller.finish()
    assert sends.statuses == [PutStatus.PUT_OK]


async def test_at_the_end_no_other_sync_begins(store: MessageStore) -> None:
    sends, caller = Sends(store), ScriptedCaller()
    group = flush_by(sends, caller)
    sends.put()
    group.begin()
    sends.put()
    await group.end()
    assert caller.is_closed
    caller.finish()
    assert (caller.starts, len(sends.statuses)) == (1, 1)


async def test_sends_that_wait_for_a_failing_disk_do_not_make_it_spin(
    store: MessageStore, disk: CountingDisk, autojump_clock: MockClock
) -> None:
    """store-ha#29: it is tried every half second, until the sends time out."""
    del autojump_clock
    disk.is_broken = True
    sends, caller = Sends(store), ScriptedCaller()
    growth = Growth(flush_by(sends, caller))
    broker = cast("Any", SimpleNamespace(store=store, growth=growth))

    async def finish_forever() -> None:
        while True:
            await trio.sleep(0.01)
            if caller.job is not None:
                caller.finish()

    sends.put()
    with trio.move_on_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flush_forever, broker)
            nursery.start_soon(finish_forever)
    assert 8 <= disk.syncs <= 11
    sends.waits.expire(10.0)
    assert sends.statuses == [PutStatus.FLUSH_DISK_TIMEOUT]


async def test_a_flush_by_the_timer_and_one_for_sends_do_not_run_at_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    del autojump_clock

    @attrs.define(eq=False)
    class SlowSyncs(InlineSyncs):
        async def run(self, job: FlushJob) -> bool:
            await trio.sleep(1)
            return await InlineSyncs.run(self, job)

    store = MessageStore.open(small_config(tmp_path), now_millis=ManualClock())
    sends, caller = Sends(store), ScriptedCaller()
    growth = Growth(flush_by(sends, caller, SlowSyncs(store)))
    broker = cast("Any", SimpleNamespace(store=store, growth=growth))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flush_forever, broker)
        store.put(new_message())
        growth.grown.set()
        await trio.sleep(0.75)
        assert growth.group_flush.is_busy
        sends.put()
        growth.group_flush.begin()
        assert caller.starts == 0
        await trio.sleep(1)
        assert caller.starts == 1
        flushed = store.flushed_offset
        assert 0 < flushed < store.max_commit_log_offset
        await trio.sleep(30)
        assert store.flushed_offset == flushed, "the timer leaves the log alone while a sync for sends runs"
        caller.finish()
        assert sends.statuses == [PutStatus.PUT_OK]
        nursery.cancel_scope.cancel()
    store.close()


async def test_a_flushed_log_is_flushed_again_once_it_grows_by_the_long_timer(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Section 3.6: a page or less is flushed within 10 s.

    Not at once, however long nothing came before.
    """
    del autojump_clock
    store = MessageStore.open(small_config(tmp_path), now_millis=ManualClock())
    growth = Growth(flush_by(Sends(store), ScriptedCaller(), InlineSyncs(store)))
    broker = cast("Any", SimpleNamespace(store=store, growth=growth))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flush_forever, broker)
        for idle in (105, 200):  # in the middle between two of its times
            await trio.sleep(idle)
            waits = growth.waits
            end = store.put(new_message()).end_offset
            growth.grown.set()
            await trio.sleep(1)
            assert store.flushed_offset < end
            await trio.sleep(11)
            assert store.flushed_offset == end
            assert growth.waits == waits + 1
        nursery.cancel_scope.cancel()
    store.close()


async def test_flushed_queues_are_flushed_again_within_a_minute_of_growth(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Section 3.6: few entries are flushed by the long timer.

    While the log does not grow, nothing is checked.
    """
    del autojump_clock
    store = MessageStore.open(small_config(tmp_path), now_millis=ManualClock())
    growth = Growth(flush_by(Sends(store), ScriptedCaller(), InlineSyncs(store)))
    checks = 0
    make_job = MessageStore.flush_queues_job

    def counted(opened: MessageStore, **options: Any) -> FlushJob | None:
        nonlocal checks
        checks += 1
        return make_job(opened, **options)

    monkeypatch.setattr(MessageStore, "flush_queues_job", counted)
    broker = cast("Any", SimpleNamespace(store=store, growth=growth))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flush_queues_forever, broker)
        for idle in (100, 600):
            await trio.sleep(idle)
            checks = 0
            end = store.put(new_message()).end_offset
            growth.grown.set()
            await trio.sleep(63)
            assert store.flusher.marks.queues == end
            assert checks < 5
        nursery.cancel_scope.cancel()
    store.close()


@pytest.mark.parametrize("loop", [flush_forever, flush_queues_forever])
async def test_with_a_long_timer_of_0_each_flush_is_thorough(
    tmp_path: Path, autojump_clock: MockClock, loop: Callable[[Any], Awaitable[None]]
) -> None:
    """Less than a page is flushed within the short period.

    Source: classes FlushRealTimeService, FlushConsumeQueueService. A period of 0 blocked the event loop for ever.
    """
    del autojump_clock
    intervals = {"flush_commit_log_thorough_interval": 0, "flush_consume_queue_thorough_interval": 0}
    store = MessageStore.open(small_config(tmp_path, **intervals), now_millis=ManualClock())
    growth = Growth(flush_by(Sends(store), ScriptedCaller(), InlineSyncs(store)))
    broker = cast("Any", SimpleNamespace(store=store, growth=growth))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loop, broker)
        for idle in (5, 100):
            await trio.sleep(idle)
            end = store.put(new_message()).end_offset
            growth.grown.set()
            await trio.sleep(2)
            assert (store.flushed_offset if loop is flush_forever else store.flusher.marks.queues) == end
        nursery.cancel_scope.cancel()
    store.close()
