"""Loops of a broker: flushes, late sends, files of tables. Idle ones sleep."""

import errno
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from rmqlab.broker.copy_waits import CopyWaits
from rmqlab.broker.loops import (
    _expire_waits_forever,
    _flush_forever,
    _flush_queues_forever,
    _save_offsets_forever,
    _Syncs,
    sample_log_forever,
)
from rmqlab.broker.pending_acks import PendingAcks, WaitingSend
from rmqlab.broker.testing import open_talking_broker
from rmqlab.runtime.beat import Beat
from rmqlab.store.configfile import keep_config_file
from rmqlab.store.disk import Disk
from rmqlab.store.flush import FlushJob
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import PutStatus
from rmqlab.store.testing import ManualClock, new_message, small_config


@attrs.define(eq=False)
class Broken(Disk):
    """Counts the syncs that it refuses."""

    syncs: int = 0

    def sync(self, descriptor: int) -> None:
        del descriptor
        self.syncs += 1
        fail()


def fail() -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture
def disk() -> Broken:
    return Broken()


@pytest.fixture
def store(tmp_path: Path, disk: Broken) -> Iterator[MessageStore]:
    opened = MessageStore.open(small_config(tmp_path), now_millis=ManualClock(), disk=disk)
    yield opened
    opened.close()


async def test_a_disk_that_fails_is_told_once_and_that_it_works_again_too(
    store: MessageStore, caplog: pytest.LogCaptureFixture
) -> None:
    def job(step: Callable[[], None]) -> FlushJob:
        return FlushJob(0, [step], epoch=0, log_stored_at=0)

    syncs = _Syncs(store)
    assert [await syncs.run(job(fail)) for _ in range(3)] == [False] * 3
    assert caplog.text.count("cannot write to disk: [Errno 5] Input/output error") == 1
    assert [await syncs.run(job(lambda: None)) for _ in range(2)] == [True] * 2
    assert caplog.text.count("the disk can be written to again") == 1


async def test_sends_that_wait_for_a_failing_disk_do_not_make_it_spin(
    store: MessageStore, disk: Broken, autojump_clock: MockClock
) -> None:
    """store-ha#29: it is tried every half second, until the sends time out."""
    del autojump_clock
    waits = PendingAcks(5.0, PutStatus.FLUSH_DISK_TIMEOUT)
    growth = SimpleNamespace(is_flush_wanted=trio.Event())
    broker = cast("Any", SimpleNamespace(store=store, growth=growth, flush_waits=waits))
    statuses: list[PutStatus] = []
    waits.add(
        store.put(new_message()).end_offset,
        WaitingSend(lambda status, _cause: statuses.append(status)),
        now=trio.current_time(),
    )
    growth.is_flush_wanted.set()
    with trio.move_on_after(5):
        await _flush_forever(broker, _Syncs(store))
    assert 1 <= disk.syncs <= 11
    waits.expire(trio.current_time())
    assert statuses == [PutStatus.FLUSH_DISK_TIMEOUT]


@attrs.define(eq=False)
class Growth:
    """In the place of AppendFollowUp: counts who waits for growth."""

    is_flush_wanted: trio.Event = attrs.field(factory=trio.Event)
    grown: trio.Event = attrs.field(factory=trio.Event)
    waits: int = 0

    async def wait_grown(self) -> None:
        self.waits += 1
        await self.grown.wait()
        self.grown = trio.Event()


@attrs.define(eq=False)
class InlineSyncs:
    """In the place of `_Syncs`: runs jobs without a thread.

    A clock that jumps would not wait for one.
    """

    store: MessageStore

    async def run(self, job: FlushJob) -> bool:
        for step in job.steps:
            step()
        self.store.flushed(job)
        await trio.lowlevel.checkpoint()
        return True


async def test_a_flushed_log_is_flushed_again_once_it_grows_by_the_long_timer(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Section 3.6: a page or less is flushed within 10 s.

    Not at once, however long nothing came before.
    """
    del autojump_clock
    store = MessageStore.open(small_config(tmp_path), now_millis=ManualClock())
    growth = Growth()
    broker = cast("Any", SimpleNamespace(store=store, growth=growth, flush_waits=PendingAcks(5.0, PutStatus.PUT_OK)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_flush_forever, broker, cast("Any", InlineSyncs(store)))
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
    growth, checks = Growth(), 0
    make_job = MessageStore.flush_queues_job

    def counted(opened: MessageStore, **options: Any) -> FlushJob | None:
        nonlocal checks
        checks += 1
        return make_job(opened, **options)

    monkeypatch.setattr(MessageStore, "flush_queues_job", counted)
    broker = cast("Any", SimpleNamespace(store=store, growth=growth))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_flush_queues_forever, broker, cast("Any", InlineSyncs(store)))
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


async def test_the_end_of_the_log_is_sampled_at_the_next_second_after_it_grew(autojump_clock: MockClock) -> None:
    del autojump_clock
    growth, samples = Growth(), list[tuple[float, int]]()
    store = SimpleNamespace(max_commit_log_offset=0)
    meter = SimpleNamespace(sent=0, received=0)
    broker = cast(
        "Any",
        SimpleNamespace(
            store=store,
            growth=growth,
            ha_master=SimpleNamespace(push_to_slave_max_offset=0),
            replication=meter,
            traffic=meter,
            emit=lambda _kind, *, max_offset, **_fields: samples.append((trio.current_time(), max_offset)),
        ),
    )
    second = math.ceil(trio.current_time())
    await trio.sleep_until(second + 0.5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sample_log_forever, broker, Beat())
        await trio.sleep_until(second + 100.25)
        store.max_commit_log_offset = 10
        growth.grown.set()
        await trio.sleep_until(second + 102.5)
        assert samples == [(second + 1, 0), (second + 101, 10)]
        store.max_commit_log_offset = 5  # truncated: nothing wakes the loop
        await trio.sleep(7)
        nursery.cancel_scope.cancel()
    assert [end for _, end in samples[2:]] == [5]


async def test_late_sends_are_released_and_without_any_nothing_is_scanned(autojump_clock: MockClock) -> None:
    del autojump_clock
    growth, statuses = Growth(), list[PutStatus]()
    waits = PendingAcks(5.0, PutStatus.FLUSH_SLAVE_TIMEOUT)
    broker = cast(
        "Any",
        SimpleNamespace(
            growth=growth, flush_waits=waits, slave_waits=CopyWaits(5.0), ha_master=None, now=trio.current_time
        ),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_expire_waits_forever, broker)
        await trio.sleep(100)
        assert growth.waits == 1
        waits.add(100, WaitingSend(lambda status, _cause: statuses.append(status)), now=trio.current_time())
        growth.grown.set()
        await trio.sleep(4.9)
        assert statuses == []
        await trio.sleep(0.7)
        assert statuses == [PutStatus.FLUSH_SLAVE_TIMEOUT]
        assert growth.waits == 2
        nursery.cancel_scope.cancel()


async def test_offsets_and_large_tables_are_saved_every_five_seconds(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 12.6: in slices, so that they do not delay requests."""
    del autojump_clock
    monkeypatch.setattr("rmqlab.broker.tablefile.SAVED_AT_ONCE", 0)
    broker = open_talking_broker(tmp_path).broker
    try:
        monkeypatch.setattr(broker.offsets, "save", lambda: pytest.fail("not in slices"))
        broker.offsets.commit("g", "T", 0, 1)
        broker.topics.create_plain("T", 1)
        broker.subscriptions.find("g")
        unsaved = tmp_path / "full" / "topics.json"
        unsaved.parent.write_text("a file where the directory should be")
        keep_config_file(unsaved, b"2")
        unsaved.parent.unlink()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_save_offsets_forever, broker, Beat())
            await trio.sleep(11)
            nursery.cancel_scope.cancel()
    finally:
        broker.store.close()
    assert unsaved.read_bytes() == b"2"
    saved = {path.name for path in (tmp_path / "store" / "config").iterdir()}
    assert saved >= {"consumerOffset.json", "topics.json", "subscriptionGroup.json"}
