"""Handling of received bytes by a slave, in virtual time (section 3.4)."""

import shutil
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import rmqlab.store.dispatch
from rmqlab.broker.ha.intake import WARM_AHEAD, dispatch_forever, warm_forever
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message, small_config

FILE = 16 * 2**20


@attrs.define
class Growth:
    """In the place of AppendFollowUp."""

    dispatch_due: trio.Event = attrs.field(factory=trio.Event)
    bulk_begun: trio.Event = attrs.field(factory=trio.Event)


@pytest.fixture
def open_store(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., MessageStore]:
    def opener(name: str, *, is_slave: bool = False) -> MessageStore:
        config = small_config(tmp_path / name, mapped_file_size_commit_log=FILE, max_index_num=9000)
        opened = MessageStore.open(config, now_millis=ManualClock(), is_slave=is_slave)
        request.addfinalizer(opened.close)
        return opened

    return opener


async def test_a_master_brings_up_the_index_that_a_crash_took(
    open_store: Callable[..., MessageStore], nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unasked, after its start."""
    killed = open_store("master")
    for number in range(1000):
        killed.put(new_message(b"x" * 200, keys=f"k{number}"))
    shutil.copytree(tmp_path / "master", tmp_path / "again")
    monkeypatch.setattr(rmqlab.store.dispatch, "INDEX_AT_ONCE", 0)
    again = open_store("again")
    assert again.dispatcher.is_index_behind
    nursery.start_soon(dispatch_forever, again, Growth(), lambda: None)
    await wait_all_tasks_blocked()
    assert again.query("orders", "k900", 9, 0, 2**62).buffers


async def test_the_index_waits_until_the_stream_is_quiet(
    open_store: Callable[..., MessageStore], mock_clock: MockClock, nursery: trio.Nursery
) -> None:
    """A bulk every 10 ms keeps it waiting, a trickle does not."""
    master, slave, growth = open_store("master"), open_store("slave", is_slave=True), Growth()
    for number in range(1000):
        master.put(new_message(b"x" * 2000, keys=f"k{number}"))

    async def receive(size: int) -> None:
        slave.append_raw(slave.max_commit_log_offset, master.read_log(slave.max_commit_log_offset, size))
        growth.dispatch_due.set()
        await wait_all_tasks_blocked()
        mock_clock.jump(0.01)
        await wait_all_tasks_blocked()

    progress: list[int] = []
    nursery.start_soon(dispatch_forever, slave, growth, lambda: progress.append(slave.dispatched_offset))
    await receive(10_000)
    assert not slave.dispatcher.is_index_behind
    assert not growth.bulk_begun.is_set()
    indexed = slave.dispatcher.indexed
    for _ in range(4):
        await receive(500_000)
    assert growth.bulk_begun.is_set()
    assert slave.dispatcher.indexed == indexed
    assert slave.dispatched_offset > 2_000_000 - 3000
    mock_clock.jump(0.02)
    await wait_all_tasks_blocked()
    assert not slave.dispatcher.is_index_behind
    assert progress == sorted(progress)
    assert progress, "who waits for dispatched messages hears of them"
    assert slave.query("orders", "k900", 9, 0, 2**62).buffers


async def test_a_bulk_has_the_log_warmed_ahead(
    open_store: Callable[..., MessageStore], nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    slave, growth, warmed, is_warmed = open_store("slave", is_slave=True), Growth(), [], trio.Event()

    def note(file: LogFile, ahead: int) -> None:
        warmed.append((file.first_offset, ahead))
        trio.from_thread.run_sync(is_warmed.set)

    monkeypatch.setattr(LogFile, "warm", note)
    nursery.start_soon(warm_forever, slave, growth)
    growth.bulk_begun.set()  # before there is a file
    await wait_all_tasks_blocked()
    slave.append_raw(0, b"x" * 2**20)
    growth.bulk_begun.set()
    await is_warmed.wait()
    await wait_all_tasks_blocked()
    assert warmed == [(0, WARM_AHEAD)]
