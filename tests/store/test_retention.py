"""Deletion of commit log files, and full disks (sections 3.7, 3.9)."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from rmqlab.faults.disk.full import Quota
from rmqlab.faults.disk.used import ClaimedUsage
from rmqlab.store.config import StoreConfig
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.diskcalls import run_calls
from rmqlab.store.files.faulty_disk import FaultyDisk
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import PutStatus
from rmqlab.store.retention import expired_count
from rmqlab.store.testing import ManualClock, new_message
from rmqlab.store.truncate import deletion_of_all

Open = Callable[..., MessageStore]

HOUR = 3_600_000
OLD, YOUNG = 0, 90 * HOUR  # written; now is 100 h, so the old is older than 72 h


@pytest.mark.parametrize(
    ("written", "hour", "used", "expected"),
    [
        ([OLD, OLD, YOUNG, OLD], 4, 10, 2),
        ([OLD, OLD], 3, 10, 0),
        ([OLD, OLD], 3, 75, 0),
        ([OLD, OLD, YOUNG], 3, 76, 2),
        ([YOUNG, YOUNG], 3, 85, 0),
        ([YOUNG, YOUNG], 3, 86, 2),
        ([OLD] * 15, 4, 10, 10),
        ([], 4, 99, 0),
    ],
)
def test_old_files_go_at_the_hour_or_when_the_disk_fills(
    written: list[int], hour: int, used: int, expected: int
) -> None:
    """store-ha#30; `written` omits the last file, which is never deleted."""
    config = StoreConfig(store_path_root_dir=Path("/nowhere"))
    assert expired_count(written, config, now=100 * HOUR, hour=hour, used_percent=used) == expected


@pytest.mark.parametrize(
    ("changes", "arguments", "expected"),
    [
        ({"delete_when": "03;05"}, {"hour": 5}, 1),
        ({"delete_when": "03;05"}, {"hour": 4}, 0),
        ({"file_reserved_time": 101}, {"hour": 4}, 0),
        ({"clean_file_forcibly_enable": False}, {"hour": 4, "used_percent": 99}, 1),
        ({}, {"hour": 7, "by_hand": True}, 1),
        ({"disk_max_used_space_ratio": 5}, {"hour": 7, "used_percent": 11}, 1),  # clamped to 10
        ({"disk_max_used_space_ratio": 5}, {"hour": 7, "used_percent": 10}, 0),
        ({"disk_max_used_space_ratio": 99}, {"hour": 7, "used_percent": 95}, 0),  # clamped to 95, and age not ignored
        ({"disk_max_used_space_ratio": 99}, {"hour": 7, "used_percent": 96}, 2),
        ({}, {"hour": 7, "used_percent": -1}, 1),
    ],
)
def test_settings_decide_when_and_what(changes: dict[str, Any], arguments: dict[str, Any], expected: int) -> None:
    """store-ha#30."""
    config = StoreConfig(store_path_root_dir=Path("/nowhere"), **changes)
    assert expired_count([OLD, YOUNG], config, **{"now": 100 * HOUR, "used_percent": 10} | arguments) == expected


def test_deleting_a_log_file_deletes_its_queue_and_index_files(open_store: Open, clock: ManualClock) -> None:
    """Sections 3.2 and 3.7: what reaches into the kept log stays.

    Queue minimum is its first kept message.
    """
    store = open_store(max_index_num=50)
    for number in range(400):
        store.put(new_message(b"x" * 400, queue_id=number % 2, keys=f"k{number}"))
    clock.now += 73 * HOUR
    assert run_calls(store.deletion_of_expired(3)) == []
    assert run_calls(store.deletion_of_expired(4)) == [f"{0:020d}", f"{65536:020d}", f"{131072:020d}"]
    low = store.min_commit_log_offset
    assert low == 3 * 65536
    for queue_id in (0, 1):
        first = store.min_queue_offset("orders", queue_id)
        offset, _, _ = store.queue_entries("orders", queue_id, first, 1)[0]
        assert low <= offset < low + 2 * 600
        files = sorted((store.queues.directory / "orders" / str(queue_id)).iterdir())
        assert int(files[0].name) // 20 <= first < int(files[0].name) // 20 + 50
        assert store.earliest_store_time("orders", queue_id) == store.log.stored_at(offset)
    index_files = list((store.config.store_path_root_dir / "index").iterdir())
    assert 1 <= len(index_files) < 9
    assert store.query("orders", "k399", 1, 0, 2**62).buffers
    store.close()
    again = open_store(max_index_num=50)
    assert (again.min_commit_log_offset, again.min_queue_offset("orders", 0)) == (
        low,
        store.min_queue_offset("orders", 0),
    )
    assert again.put(new_message(queue_id=0)).queue_offset == 200


def test_a_young_file_stays_though_nothing_whole_is_in_the_next(open_store: Open, clock: ManualClock) -> None:
    """A slave with only part of a record: the file before is not from the year 1970."""
    master, slave = open_store("master"), open_store("slave", is_slave=True)
    for _ in range(200):
        master.put(new_message(b"x" * 400))
    while slave.max_commit_log_offset < 65536:
        slave.append_raw(slave.max_commit_log_offset, master.read_log(slave.max_commit_log_offset, 65536))
    slave.append_raw(65536, master.read_log(65536, 50))
    assert run_calls(slave.deletion_of_expired(4)) == []
    clock.now += 73 * HOUR
    assert run_calls(slave.deletion_of_expired(4)) == []
    slave.append_raw(65586, master.read_log(65586, 5000))
    assert run_calls(slave.deletion_of_expired(4)) == [f"{0:020d}"]


def test_a_stop_on_a_disk_that_is_too_full_keeps_abort(open_store: Open) -> None:
    """Section 1.3: of either role."""
    disk = FaultyDisk([ClaimedUsage(91)])
    for name, is_slave in [("master", False), ("slave", True)]:
        store = open_store(name, disk=disk, is_slave=is_slave)
        store.check_disk()
        store.close()
        assert (store.config.store_path_root_dir / "abort").exists()


def test_queue_files_that_a_stop_left_behind_go_at_the_next_start(open_store: Open) -> None:
    store = open_store()
    for _ in range(400):
        store.put(new_message(b"x" * 400))
    store.log.files.drop_first()
    store.close()
    again = open_store()
    before = len(again.queues.table["orders", 0].files.files)
    run_calls(again.deletion_of_expired(12))
    assert len(again.queues.table["orders", 0].files.files) < before


@pytest.mark.parametrize("quota", [0, 20_000, 300_000])
def test_a_store_opens_on_a_full_disk_and_resumes_when_space_is_freed(
    open_store: Open, tmp_path: Path, quota: int
) -> None:
    """After a crash that lost queues and index: the log is entered later.

    That happens when there is space.
    """
    store = open_store()
    for number in range(300):
        store.put(new_message(b"x" * 300, queue_id=number % 3, keys=f"k{number}"))
    shutil.copytree(tmp_path / "store", tmp_path / "dead")
    shutil.rmtree(tmp_path / "dead" / "consumequeue" / "orders" / "1")
    disk = FaultyDisk([Quota(quota)])
    again = open_store("dead", disk=disk)
    if quota == 0:
        assert again.max_queue_offset("orders", 0) == 100
        assert again.max_queue_offset("orders", 1) == 0
    while again.put(new_message(b"x" * 300)).status is PutStatus.PUT_OK:
        pass
    assert "No space left" in str(again.write_refused())
    assert again.get_message("orders", 0, 0, 1).count == 1
    disk.set_effects([])
    again.check_disk()
    assert again.write_refused() is None
    assert again.dispatch_behind_bytes == 0
    assert again.put(new_message(queue_id=1)).queue_offset == 100
    assert all(again.query("orders", f"k{number}", 9, 0, 2**62).buffers for number in range(300))


@pytest.mark.parametrize("stored_at", [0, "a year ago", "in a year"])
def test_a_slave_keeps_a_file_from_when_it_copied_it(
    open_store: Open, clock: ManualClock, stored_at: int | str
) -> None:
    """4.9.8 uses the modification time of the slave's own file."""
    year = 365 * 24 * HOUR
    now = clock.now
    clock.now = {"a year ago": now - year, "in a year": now + year}.get(str(stored_at), 0)
    master = open_store("master")
    while len(master.log.files.files) < 3:
        master.put(new_message(body=bytes(3000)))
    clock.now = now
    slave = open_store("slave", is_slave=True)
    slave.check_disk()
    while (at := slave.max_commit_log_offset) < master.max_commit_log_offset:
        slave.append_raw(at, master.read_log(at, 10_000))
    slave.check_disk()
    clock.now = now + 71 * HOUR
    assert not run_calls(slave.deletion_of_expired(4))
    clock.now = now + 73 * HOUR
    assert len(run_calls(slave.deletion_of_expired(4))) == 2


def test_the_last_file_is_never_deleted(open_store: Open, clock: ManualClock) -> None:
    """store-ha#30."""
    disk = FaultyDisk([ClaimedUsage(99)])
    store = open_store(disk=disk)
    store.put(new_message())
    clock.now += 1000 * HOUR
    assert run_calls(store.deletion_of_expired(4)) == []
    assert store.max_queue_offset("orders", 0) == 1


def test_above_90_percent_puts_are_rejected_and_everything_else_works(open_store: Open) -> None:
    """store-ha#31: pulls and the slave's append do not care."""
    disk = FaultyDisk([ClaimedUsage(90)])
    store, slave = open_store(disk=disk), open_store("slave", is_slave=True, disk=disk)
    store.put(new_message())
    store.check_disk()
    assert store.write_refused() is None
    disk.set_effects([ClaimedUsage(91)])
    assert store.cleaner.used_percent() == 91
    store.check_disk()
    slave.check_disk()
    assert "91 %" in str(store.write_refused())
    assert store.put(new_message()).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert store.get_message("orders", 0, 0, 1).count == 1
    assert slave.append_raw(0, store.read_log(0, 1000))
    assert slave.dispatch()
    disk.set_effects([ClaimedUsage(90)])
    store.check_disk()
    assert store.put(new_message()).status is PutStatus.PUT_OK


@attrs.define(eq=False)
class KeepingDisk(Disk):
    """Deletes no file below a directory of this name."""

    kept: str = ""

    def unlink(self, path: Path) -> None:
        if self.kept and self.kept in path.parts:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        super().unlink(path)


@pytest.mark.parametrize("kept", ["commitlog", "consumequeue", "index"])
def test_a_failed_deletion_is_retried_and_logged_once(
    open_store: Open, clock: ManualClock, caplog: pytest.LogCaptureFixture, kept: str
) -> None:
    """issue 12.7: an unlink that failed ended the broker. RocketMQ ends the round."""
    disk = KeepingDisk(kept=kept)
    store = open_store(disk=disk, max_index_num=40)
    for number in range(400):
        store.put(new_message(b"x" * 400, queue_id=number % 2, keys=f"k{number}"))
    root = store.config.store_path_root_dir
    names = sorted(path.name for path in (root / "commitlog").iterdir())
    assert len(names) == 4
    clock.now += 100 * HOUR
    store.put(new_message(b"x" * 400))
    deleted = [run_calls(store.deletion_of_expired(4)) for _ in range(3)]
    assert deleted == [[] if kept == "commitlog" else names[:3], [], []]
    assert [record.message for record in caplog.records if "not deleted" in record.message] == [
        record.message for record in caplog.records[-1:]
    ]
    assert kept in caplog.text
    assert (store.get_message("orders", 0, 0, 1).count == 1) == (kept == "commitlog")
    disk.kept = ""
    if kept == "commitlog":
        assert run_calls(store.deletion_of_expired(4)) == names[:3]
    else:
        run_calls(store.deletion_of_expired(5))
    assert [path.name for path in (root / "commitlog").iterdir()] == names[3:]
    assert min(int(path.name) for path in (root / "consumequeue" / "orders" / "0").iterdir()) > 0
    assert len(list((root / "index").iterdir())) < 5
    assert store.put(new_message()).is_stored


def test_a_log_may_be_emptied_between_two_calls_of_a_deletion(open_store: Open, clock: ManualClock) -> None:
    """A thread makes the calls, and a slave may be reset meanwhile."""
    for stop in range(12):
        store = open_store(f"store{stop}", max_index_num=50)
        for number in range(400):
            store.put(new_message(b"x" * 400, queue_id=number % 2, keys=f"k{number}"))
        clock.now += 100 * HOUR
        deletion = store.deletion_of_expired(4)
        for _ in range(stop):
            next(deletion)()
        run_calls(deletion_of_all(store))
        run_calls(deletion)
        assert store.max_commit_log_offset == 0
        assert list(store.topics_queues()) == []
        assert store.put(new_message(keys="new")).queue_offset == 0
        assert store.query("orders", "new", 9, 0, 2**62).buffers
        store.close()
