"""Flushing in two steps, what the checkpoint says, and what a power loss leaves."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from rmqlab.faults.disk.failing_sync import SyncError
from rmqlab.store.files.checkpoint import Checkpoint
from rmqlab.store.files.disk import Disk, StoreLocked
from rmqlab.store.files.faulty_disk import FaultyDisk
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.offline.powerloss import lose_unsynced
from rmqlab.store.testing import new_message, small_config

Open = Callable[..., MessageStore]


@attrs.define(eq=False)
class SyncCounter(Disk):
    """Counts syncs."""

    syncs: int = 0

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        self.syncs += 1


def flush_log(store: MessageStore) -> None:
    job = store.flush_job()
    assert job is not None
    job.run()
    store.flushed(job)


def flush_queues(store: MessageStore) -> None:
    job = store.flush_queues_job()
    assert job is not None
    job.run()
    store.flushed(job)


def test_a_flush_covers_what_was_put_before_the_job_was_made(open_store: Open) -> None:
    store = open_store()
    assert store.flush_job() is None
    first = store.put(new_message())
    job = store.flush_job()
    assert job is not None
    second = store.put(new_message())
    assert store.flushed_offset == 0
    job.run()
    store.flushed(job)
    assert store.flushed_offset == first.end_offset
    assert store.checkpoint.physic_msg_timestamp == first.store_timestamp
    flush_log(store)
    assert store.flushed_offset == second.end_offset
    assert store.flush_job() is None


def test_flushed_offsets_are_recorded_for_a_power_loss(open_store: Open) -> None:
    store = open_store()
    end = store.put(new_message()).end_offset
    marks = store.config.store_path_root_dir / "config" / "rmqlab.flushed"
    flush_log(store)
    assert struct.unpack(">qq", marks.read_bytes()) == (end, 0)
    flush_queues(store)
    assert struct.unpack(">qq", marks.read_bytes()) == (end, end)
    store.flusher.cut(7)
    assert struct.unpack(">qq", marks.read_bytes()) == (7, 7)


def test_a_flush_syncs_every_file_that_grew(open_store: Open) -> None:
    store = open_store()
    for _ in range(100):
        store.put(new_message(b"x" * 1000))
    job = store.flush_job()
    assert job is not None
    assert len(job.syncs) == 2
    flush_log(store)
    store.put(new_message())
    job = store.flush_job()
    assert job is not None
    assert len(job.syncs) == 1


def test_a_failed_sync_changes_nothing(open_store: Open) -> None:
    disk = FaultyDisk()
    store = open_store(disk=disk)
    end = store.put(new_message()).end_offset
    disk.set_effects([SyncError()])
    job = store.flush_job()
    assert job is not None
    with pytest.raises(OSError, match="Input/output error"):
        job.run()
    assert store.flushed_offset == 0
    disk.set_effects([])
    flush_log(store)
    assert store.flushed_offset == end


def test_the_checkpoint_is_written_with_the_queues(open_store: Open) -> None:
    """Sections 1.2, 3.6.

    store-ha#3: its index time stays 0 until an index file is full.
    """
    store = open_store(max_index_num=5)
    path = store.config.store_path_root_dir / "checkpoint"
    stored_at = store.put(new_message(keys="k1 k2")).store_timestamp
    flush_log(store)
    assert path.read_bytes() == bytes(4096)
    flush_queues(store)
    written = Checkpoint.load(path)
    assert (written.physic_msg_timestamp, written.logics_msg_timestamp) == (stored_at, stored_at)
    assert written.index_msg_timestamp == 0
    assert store.flush_queues_job() is None
    store.put(new_message(keys="k3 k4 k5"))
    full = store.query("orders", "k1", 1, 0, 2**62).index_last_update_timestamp
    flush_queues(store)
    assert Checkpoint.load(path).index_msg_timestamp == full
    assert path.stat().st_size == 4096


def test_the_checkpoint_claims_3_s_less_than_it_holds_and_is_synced(tmp_path: Path) -> None:
    """store-ha#3, store-ha#25."""
    disk = SyncCounter()
    checkpoint = Checkpoint(tmp_path / "checkpoint", 10_000, 12_000, 0, disk)
    assert checkpoint.safe_timestamp == 7000
    checkpoint.write()
    assert disk.syncs == 1


def test_queues_that_were_written_before_a_crash_are_synced_again(open_store: Open) -> None:
    store = open_store()
    store.put(new_message())
    flush_log(store)
    root = store.config.store_path_root_dir
    crashed = root.with_name("crashed")
    shutil.copytree(root, crashed)  # `abort` is there
    store.close()
    again = open_store("crashed")
    assert [queue.flushed for queue in again.queues] == [0]
    job = again.flush_queues_job()
    assert job is not None
    assert job.syncs


def test_between_thorough_flushes_only_queues_that_grew_by_pages_are_synced(open_store: Open) -> None:
    """Section 3.6: two pages each second, everything and the checkpoint each minute."""
    store = open_store(mapped_file_size_consume_queue=20 * 1000, mapped_file_size_commit_log=1 << 20)
    path = store.config.store_path_root_dir / "checkpoint"
    for number in range(405):  # 8100 bytes of the first queue: one page and a part
        store.put(new_message(queue_id=0))
        store.put(new_message(queue_id=number % 100 + 1))
    assert store.flush_queues_job(least_pages=2) is None
    for _ in range(5):
        store.put(new_message(queue_id=0))
    job = store.flush_queues_job(least_pages=2)
    assert job is not None
    assert (len(job.syncs), job.checkpoint) == (1, None)
    job.run()
    store.flushed(job)
    assert path.read_bytes() == bytes(4096)
    assert store.flusher.marks.queues == 0
    assert store.flush_queues_job(least_pages=2) is None
    for _ in range(590):
        store.put(new_message(queue_id=0))
    job = store.flush_queues_job(least_pages=200)
    assert job is not None
    assert len(job.syncs) == 1  # its file is full
    flush_queues(store)
    assert store.flusher.marks.queues == store.max_commit_log_offset
    assert Checkpoint.load(path).logics_msg_timestamp == store.dispatcher.last_stored_at
    assert store.flush_queues_job() is None
    flush_log(store)
    flush_queues(store)  # the checkpoint alone has moved
    assert Checkpoint.load(path).physic_msg_timestamp == store.dispatcher.last_stored_at


def test_a_slaves_dispatch_moves_its_physic_time(open_store: Open) -> None:
    """Section 1.2."""
    master, slave = open_store("master"), open_store("slave", is_slave=True)
    stored_at = master.put(new_message()).store_timestamp
    slave.append_raw(0, master.read_log(0, 10_000))
    slave.dispatch()
    assert slave.checkpoint.physic_msg_timestamp == stored_at


def test_the_flushed_position_outlives_a_kill(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    end = store.put(new_message()).end_offset
    flush_log(store)
    store.put(new_message())
    shutil.copytree(tmp_path / "store", tmp_path / "killed")
    assert open_store("killed").flushed_offset == end


def test_a_power_loss_removes_exactly_the_unsynced_bytes(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    for number in range(100):
        store.put(new_message(b"x" * 1000, queue_id=number % 2, keys=f"k{number}"))
    flush_queues(store)
    flush_log(store)
    end = store.max_commit_log_offset
    for number in range(100):
        store.put(new_message(b"x" * 1000, queue_id=number % 2))
    with pytest.raises(StoreLocked):
        lose_unsynced(store.config)
    shutil.copytree(tmp_path / "store", tmp_path / "dead")
    lost = lose_unsynced(small_config(tmp_path / "dead"))
    assert lost.queue_entries == 100
    assert 100 * 1000 < lost.log_bytes < 140_000
    after = open_store("dead")
    assert (after.max_commit_log_offset, after.dispatched_offset) == (end, end)
    assert [after.max_queue_offset("orders", queue_id) for queue_id in (0, 1)] == [50, 50]
    assert after.put(new_message()).queue_offset == 50


def test_queues_that_were_synced_further_than_the_log_are_cut_to_it(open_store: Open, tmp_path: Path) -> None:
    """store-ha#26."""
    store = open_store()
    first = store.put(new_message())
    flush_log(store)
    for _ in range(60):
        store.put(new_message())
    flush_queues(store)
    shutil.copytree(tmp_path / "store", tmp_path / "dead")
    assert lose_unsynced(small_config(tmp_path / "dead")).queue_entries == 0
    after = open_store("dead")
    assert after.max_commit_log_offset == first.end_offset
    assert after.max_queue_offset("orders", 0) == 1
    assert len(list((tmp_path / "dead" / "consumequeue" / "orders" / "0").iterdir())) == 1


def test_a_stop_on_a_failing_disk_leaves_abort_and_frees_the_lock(open_store: Open) -> None:
    disk = FaultyDisk()
    store = open_store(disk=disk)
    end = store.put(new_message()).end_offset
    disk.set_effects([SyncError()])
    store.close()
    assert (store.config.store_path_root_dir / "abort").exists()
    assert open_store().max_commit_log_offset == end
