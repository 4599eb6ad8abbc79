"""Flushes on a failing disk: repeated with a pause, and without flooding the log."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from rmqlab.broker.loops import _flush_forever, _save_offsets_forever, _Syncs
from rmqlab.broker.pending_acks import PendingAcks, WaitingSend
from rmqlab.broker.testing import open_talking_broker
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


async def test_offsets_and_large_tables_are_saved_every_five_seconds(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 12.6: in slices, so that they do not delay requests."""
    del autojump_clock
    monkeypatch.setattr("rmqlab.broker.topics.SAVED_AT_ONCE", 0)
    monkeypatch.setattr("rmqlab.broker.subscriptions.SAVED_AT_ONCE", 0)
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
            nursery.start_soon(_save_offsets_forever, broker)
            await trio.sleep(11)
            nursery.cancel_scope.cancel()
    finally:
        broker.store.close()
    assert unsaved.read_bytes() == b"2"
    saved = {path.name for path in (tmp_path / "store" / "config").iterdir()}
    assert saved >= {"consumerOffset.json", "topics.json", "subscriptionGroup.json"}
