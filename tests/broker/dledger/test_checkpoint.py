"""The file with the committed index of a member."""

import logging
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rmqlab.broker.loops import ENTRIES_CHECKPOINT_PERIOD, save_entries_checkpoint_forever
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.diskcalls import run_calls

DATA_FILE = 1024
INDEX_FILE = 16 * 32


class FullDisk(Disk):
    """Refuses small files while it is full."""

    is_full = True

    def write_file(self, path: Path, content: bytes) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        Disk.write_file(self, path, content)


async def test_a_checkpoint_that_fails_is_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """dledger#51: a full disk is no internal error, and is named once."""
    assert autojump_clock.rate == 0
    disk = FullDisk()
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE, disk)
    store.append(1, b"body")
    store.commit(0)
    with caplog.at_level(logging.WARNING):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(save_entries_checkpoint_forever, store)
            await trio.sleep(3.5 * ENTRIES_CHECKPOINT_PERIOD)
            assert not (tmp_path / "checkpoint").exists()
            disk.is_full = False
            await trio.sleep(ENTRIES_CHECKPOINT_PERIOD)
            nursery.cancel_scope.cancel()
    assert (tmp_path / "checkpoint").read_text() == "committedIndex=0\nendIndex=0\n"
    assert [record.message for record in caplog.records] == [
        f"cannot write {tmp_path}/checkpoint: No space left on device; retrying"
    ]
    store.unmap()


def test_a_committed_index_behind_the_end_is_lowered_on_disk(tmp_path: Path) -> None:
    """As after a power loss.

    Other entries that follow are not committed after a second stop.
    """
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    for _ in range(4):
        store.append(1, bytes(40))
    store.commit(3)
    path, end = store.data.files[0].path, store.get(1).end
    store.close()
    path.write_bytes(path.read_bytes()[:end].ljust(DATA_FILE, b"\0"))
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    assert store.committed_index == 1
    for _ in range(2):
        store.append(2, bytes(40))
    store.unmap()
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    assert (store.end_index, store.committed_index) == (3, 1)
    store.unmap()


async def test_a_checkpoint_is_not_written_during_a_truncation(tmp_path: Path, autojump_clock: MockClock) -> None:
    """A thread writes the same file then."""
    assert autojump_clock.rate == 0
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    for _ in range(2):
        store.append(1, b"body")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(save_entries_checkpoint_forever, store)
        store.cut_at(store.get(0))
        await trio.sleep(1.5 * ENTRIES_CHECKPOINT_PERIOD)
        assert not (tmp_path / "checkpoint").exists()
        run_calls(store.completion_of_cut())
        await trio.sleep(ENTRIES_CHECKPOINT_PERIOD)
        assert (tmp_path / "checkpoint").read_text() == "committedIndex=-1\nendIndex=0\n"
        nursery.cancel_scope.cancel()
    store.unmap()
