"""The flushed offset after failed syncs or truncations (issue 12.7, 12.14)."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from rmqlab.faults.disk.failing_sync import SyncError
from rmqlab.store.files.checkpoint import Checkpoint
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.diskcalls import run_calls
from rmqlab.store.files.faulty_disk import FaultyDisk
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.flush import FlushJob
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.offline.powerloss import lose_unsynced
from rmqlab.store.testing import new_message, small_config
from rmqlab.store.truncate import deletion_of_all, save_from, truncate

Open = Callable[..., MessageStore]
Rewritten = list[tuple[str, int, int]]


@pytest.fixture
def rewritten(monkeypatch: pytest.MonkeyPatch) -> Rewritten:
    """The rewritten ranges: directory of the file, start, end."""
    calls: Rewritten = []
    rewrite = LogFile.rewrite

    def note(self: LogFile, start: int, end: int) -> None:
        if end > start:
            calls.append((self.path.parent.name, start, end))
        rewrite(self, start, end)

    monkeypatch.setattr(LogFile, "rewrite", note)
    return calls


def log_job(store: MessageStore) -> FlushJob:
    job = store.flush_job()
    assert job is not None
    return job


def queues_job(store: MessageStore, **arguments: Any) -> FlushJob:
    job = store.flush_queues_job(**arguments)
    assert job is not None
    return job


def run(store: MessageStore, job: FlushJob) -> None:
    job.run()
    store.flushed(job)


def fail(job: FlushJob) -> None:
    with pytest.raises(OSError, match="Input/output error"):
        job.run()


# ---- a failed sync -----------------------------------------------------------------------------------------------


def test_bytes_that_a_failed_sync_covered_are_written_once_more_before_they_count(
    open_store: Open, rewritten: Rewritten
) -> None:
    """The kernel reports an error once and marks the pages clean.

    The next sync would write nothing.
    """
    disk = FaultyDisk()
    store = open_store(disk=disk)
    store.put(new_message(b"a" * 9000))
    run(store, log_job(store))
    flushed = store.flushed_offset
    covered = store.put(new_message(b"b" * 9000)).end_offset
    disk.set_effects([SyncError()])
    fail(log_job(store))
    assert (store.flush_error, store.flushed_offset) == ("Input/output error", flushed)
    disk.set_effects([])
    end = store.put(new_message(b"c" * 9000)).end_offset
    assert rewritten == []
    run(store, log_job(store))
    assert rewritten == [("commitlog", flushed, covered)]
    assert (store.flush_error, store.flushed_offset) == ("", end)


@pytest.mark.parametrize("place", [0, 3])
def test_pages_lost_by_the_disk_never_count_as_synced(open_store: Open, place: int) -> None:
    """A page that was dropped after the error reads as before the write: as zeros."""
    disk = FaultyDisk()
    store = open_store(disk=disk)
    store.put(new_message(b"a" * 3000))
    run(store, log_job(store))
    records = [store.put(new_message(b"b" * 3000)) for _ in range(5)]
    disk.set_effects([SyncError()])
    fail(log_job(store))
    disk.set_effects([])
    lost = records[place]
    store.log.files.files[0].map[lost.physical_offset + 100 : lost.physical_offset + 200] = bytes(100)
    if place:  # what comes before it does
        run(store, log_job(store))
    assert store.flushed_offset == lost.physical_offset
    for _ in range(3):
        with pytest.raises(OSError, match=f"the disk lost the log at {lost.physical_offset}"):
            log_job(store).run()
        store.put(new_message())
    assert str(lost.physical_offset) in store.flush_error
    assert store.flushed_offset == lost.physical_offset
    store.close()
    assert (store.config.store_path_root_dir / "abort").exists()


def test_a_failed_sync_is_remembered_over_files_and_by_a_slave_within_a_record(
    open_store: Open, rewritten: Rewritten
) -> None:
    disk = FaultyDisk()
    master, slave = open_store("master"), open_store("slave", is_slave=True, disk=disk)
    for number in range(300):
        master.put(new_message(b"x" * 400, queue_id=number % 3))
    part = 1000  # not where a record ends
    slave.append_raw(0, master.read_log(0, part))
    slave.dispatch()
    run(slave, log_job(slave))
    while (at := slave.max_commit_log_offset) < master.max_commit_log_offset:
        slave.append_raw(at, master.read_log(at, 1 << 20))
    disk.set_effects([SyncError()])
    fail(log_job(slave))
    disk.set_effects([])
    run(slave, log_job(slave))
    assert slave.flushed_offset == master.max_commit_log_offset
    assert rewritten == [
        ("commitlog", part, 65536), ("commitlog", 0, 65536), ("commitlog", 0, slave.max_commit_log_offset - 131072),
    ]  # fmt: skip


def test_a_bulk_is_rewritten_in_parts(open_store: Open, rewritten: Rewritten, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqlab.store.flush._REWRITTEN_AT_ONCE", 10_000)
    disk = FaultyDisk([SyncError()])
    store = open_store(disk=disk)
    ends = [store.put(new_message(b"b" * 3000)).end_offset for _ in range(8)]
    fail(log_job(store))
    disk.set_effects([])
    run(store, log_job(store))
    assert store.flushed_offset == ends[3]
    assert store.checkpoint.physic_msg_timestamp == 0
    while (job := store.flush_job()) is not None:
        run(store, job)
    assert store.flushed_offset == ends[-1]
    assert [end for _, _, end in rewritten] == [ends[3], ends[7]]


def test_after_a_kill_what_was_not_synced_is_written_once_more(
    open_store: Open, rewritten: Rewritten, tmp_path: Path
) -> None:
    """The process that was killed may have seen a failed sync."""
    store = open_store()
    flushed = store.put(new_message()).end_offset
    run(store, log_job(store))
    store.put(new_message())
    shutil.copytree(tmp_path / "store", tmp_path / "killed")
    again = open_store("killed")
    run(again, log_job(again))
    assert rewritten == [("commitlog", flushed, again.max_commit_log_offset)]


def test_queue_entries_are_written_once_more_too(open_store: Open, rewritten: Rewritten) -> None:
    disk = FaultyDisk()
    store = open_store(disk=disk)
    for _ in range(60):
        store.put(new_message())
    disk.set_effects([SyncError()])
    fail(queues_job(store))
    disk.set_effects([])
    run(store, queues_job(store))
    assert rewritten == [("0", 0, 1000), ("0", 0, 200)]
    store.put(new_message())
    run(store, queues_job(store))
    assert len(rewritten) == 2


def test_an_index_file_whose_sync_failed_is_not_trusted_by_the_next_start(open_store: Open) -> None:
    """Its pages cannot all be written again: most are holes.

    So it is made again from the log.
    """
    disk = FaultyDisk()
    store = open_store(disk=disk, max_index_num=5)
    for number in range(10):
        store.put(new_message(keys=f"k{number}"))
    disk.set_effects([SyncError()])
    fail(queues_job(store))
    disk.set_effects([])
    run(store, queues_job(store))
    root = store.config.store_path_root_dir
    assert Checkpoint.load(root / "checkpoint").index_msg_timestamp == 0
    store.close()
    assert (root / "abort").exists()
    again = open_store(max_index_num=5)
    for number in range(10):
        assert len(again.query("orders", f"k{number}", 9, 0, 2**62).buffers) == 1


# ---- a job in flight while the log is truncated ------------------------------------------------------------------


def test_a_flush_of_what_was_truncated_meanwhile_does_not_count(open_store: Open) -> None:
    """issue 12.7: the flushed offset was beyond the log's end.

    Nothing was synced until the log had grown again.
    """
    store = open_store(is_slave=True)
    feed(store, open_store("master"), 60)
    kept = store.queue_entries("orders", 0, 6, 1)[0][0]
    job, jobs_of_queues = log_job(store), queues_job(store)
    job.run()
    jobs_of_queues.run()
    truncate(store, kept)
    store.flushed(job)
    store.flushed(jobs_of_queues)
    assert store.flushed_offset <= store.max_commit_log_offset
    assert store.flusher.marks.queues <= store.max_commit_log_offset
    assert all(queue.flushed <= queue.files.max_offset for queue in store.queues)
    feed(store, open_store("other"), 12)
    run(store, log_job(store))
    run(store, queues_job(store))
    assert store.flushed_offset == store.flusher.marks.queues == store.max_commit_log_offset


@pytest.mark.parametrize("is_anew", [False, True])
def test_the_checkpoint_claims_nothing_that_was_truncated(open_store: Open, *, is_anew: bool) -> None:
    """Not even until the next flush.

    What the master sends again may have earlier times than the file.
    """
    store = open_store(is_slave=True)
    feed(store, open_store("master"), 60)
    run(store, log_job(store))
    in_flight = queues_job(store)
    in_flight.run()
    path = store.config.store_path_root_dir / "checkpoint"
    assert Checkpoint.load(path).logics_msg_timestamp == store.message_store_time("orders", 0, 59)
    last = 0 if is_anew else store.message_store_time("orders", 0, 9)
    if is_anew:
        run_calls(deletion_of_all(store))
    else:
        truncate(store, store.queue_entries("orders", 0, 10, 1)[0][0])
    written = Checkpoint.load(path)
    assert max(written.physic_msg_timestamp, written.logics_msg_timestamp) <= last
    in_flight.steps[-1]()  # in a thread
    store.flushed(in_flight)
    written = Checkpoint.load(path)
    assert max(written.physic_msg_timestamp, written.logics_msg_timestamp) <= last
    run(store, queues_job(store))
    written = Checkpoint.load(path)
    assert (written.physic_msg_timestamp, written.logics_msg_timestamp) == (last, last)


def test_a_power_loss_after_such_a_race_removes_unsynced_bytes(open_store: Open, tmp_path: Path) -> None:
    store, other = open_store(is_slave=True), open_store("other")
    feed(store, open_store("master"), 60)
    job = log_job(store)
    job.run()
    truncate(store, store.queue_entries("orders", 0, 6, 1)[0][0])
    store.flushed(job)
    end = store.max_commit_log_offset
    feed(store, other, 30)
    shutil.copytree(tmp_path / "store", tmp_path / "dead")
    assert lose_unsynced(small_config(tmp_path / "dead")).flushed <= end
    assert open_store("dead", is_slave=True).max_commit_log_offset <= end


def feed(slave: MessageStore, master: MessageStore, count: int) -> None:
    """Bring a slave up to so many messages of one size."""
    for _ in range(count):
        master.put(new_message(b"x" * 800))
    while (at := slave.max_commit_log_offset) < master.max_commit_log_offset:
        slave.append_raw(at, master.read_log(at, 1 << 20))
    slave.dispatch()


# ---- the copy of what is cut -------------------------------------------------------------------------------------


@attrs.define(eq=False)
class OrderlyDisk(Disk):
    """Records the synced ranges, and may fail."""

    synced: list[str] = attrs.field(factory=list)
    refuses: str = ""

    def sync(self, descriptor: int) -> None:
        self._note(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    def sync_directory(self, path: Path) -> None:
        self._note(path.name)

    def _note(self, name: str) -> None:
        if self.refuses and self.refuses in name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.synced.append(name)


def test_the_copy_of_what_is_cut_is_on_the_disk_before_the_original_is_erased(open_store: Open) -> None:
    """issue 12.14: the copy, its name, and the name of its directory."""
    disk = OrderlyDisk()
    store = open_store(disk=disk, is_slave=True)
    feed(store, open_store("master"), 60)
    wanted = bytes(store.read_log(1000, 1 << 20))
    disk.synced.clear()
    path = save_from(store, 1000)
    assert path is not None
    assert path.read_bytes() == wanted
    assert disk.synced == [path.name, "diverged", "store"]


@pytest.mark.parametrize("refuses", ["0000", "diverged"])
def test_a_copy_that_fails_to_sync_is_an_error_and_leaves_the_log(open_store: Open, refuses: str) -> None:
    store = open_store(disk=(disk := OrderlyDisk()), is_slave=True)
    feed(store, open_store("master"), 60)
    disk.refuses = refuses
    with pytest.raises(OSError, match="Input/output error"):
        save_from(store, 1000)
    assert list((store.config.store_path_root_dir / "diverged").iterdir()) == []
