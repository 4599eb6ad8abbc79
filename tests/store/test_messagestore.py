"""A store's directory: names, lock, abort, failed starts, and stops."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from rmqlab.store.files.disk import Disk, StoreCorrupt, StoreLocked
from rmqlab.store.files.diskcalls import run_calls
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import new_message
from rmqlab.store.truncate import deletion_of_all

Open = Callable[..., MessageStore]


def test_files_are_named_by_their_first_byte_and_have_full_length(open_store: Open) -> None:
    """store-ha#1, #2."""
    store = open_store(max_index_num=40)
    for number in range(400):
        store.put(new_message(b"x" * 200, keys=f"k{number}"))
    root = store.config.store_path_root_dir
    assert [path.name for path in sorted((root / "commitlog").iterdir())] == [
        "00000000000000000000", "00000000000000065536",
    ]  # fmt: skip
    queue_files = sorted((root / "consumequeue" / "orders" / "0").iterdir())
    assert [path.name for path in queue_files] == [f"{1000 * n:020d}" for n in range(8)]
    assert {path.stat().st_size for path in queue_files} == {1000}
    index_files = sorted((root / "index").iterdir())
    assert len(index_files) == -(-400 // 39)
    for path in index_files:
        assert len(path.name) == 17
        assert path.name.isdigit()
        assert path.stat().st_size == 40 + 100 * 4 + 40 * 20


def test_a_second_gibibyte_is_named_00000000001073741824(open_store: Open) -> None:
    """store-ha#1, with the default sizes; the files are sparse."""
    store = open_store(mapped_file_size_commit_log=2**30, mapped_file_size_consume_queue=6_000_000)
    blank = (2**30).to_bytes(4, "big") + 0xCBD43194.to_bytes(4, "big")
    store.append_raw(0, blank)
    store.log.files.files[-1].wrote = 2**30
    store.put(new_message())
    names = sorted(path.name for path in store.config.store_path_commit_log.iterdir())
    assert names == ["00000000000000000000", "00000000001073741824"]
    assert sum(path.stat().st_blocks for path in store.config.store_path_commit_log.iterdir()) * 512 < 2**24


def test_lock_holds_its_name_and_keeps_a_second_process_out(open_store: Open) -> None:
    """store-ha#4."""
    store = open_store()
    root = store.config.store_path_root_dir
    with pytest.raises(StoreLocked, match=str(root / "lock")):
        open_store()
    code = "import sys; from pathlib import Path; from rmqlab.store.files.lock import StoreLock; StoreLock.acquire(Path(sys.argv[1]))"
    taken = subprocess.run(
        [sys.executable, "-c", code, root / "lock"], capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert "StoreLocked" in taken.stderr
    store.close()
    assert (root / "lock").read_bytes() == b"lock"  # not before: closing a descriptor would free our lock
    open_store()


def test_the_abort_file_exists_while_running_and_is_removed_by_a_clean_stop(open_store: Open) -> None:
    """store-ha#5."""
    store = open_store()
    abort = store.config.store_path_root_dir / "abort"
    assert abort.read_bytes() == b""
    store.close()
    assert not abort.exists()


def test_abort_stays_if_dispatch_was_behind_at_the_stop(open_store: Open) -> None:
    """store-ha#5: a slave whose dispatch is stuck."""
    store = open_store(is_slave=True)
    store.append_raw(0, b"\xff" * 200)
    assert store.dispatch() == 0
    assert store.dispatch_behind_bytes == 200
    store.close()
    assert (store.config.store_path_root_dir / "abort").exists()


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue/orders/0"])
@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_of_another_length_prevents_the_start(open_store: Open, folder: str, change: int) -> None:
    """store-ha#6: the error names file, length and expectation.

    The lock is free again.
    """
    store = open_store()
    store.put(new_message(keys="k"))
    store.close()
    (path,) = (store.config.store_path_root_dir / folder).iterdir()
    size = path.stat().st_size
    os.truncate(path, size + change)
    with pytest.raises(StoreCorrupt, match=f"{path} has {size + change} bytes, expected {size}"):
        open_store()
    os.truncate(path, size)
    assert open_store().max_commit_log_offset > 0


def test_checkpoint_is_4096_bytes_with_three_times(open_store: Open) -> None:
    """store-ha#3."""
    store = open_store()
    path = store.config.store_path_root_dir / "checkpoint"
    assert path.read_bytes() == bytes(4096)
    stored_at = store.put(new_message(keys="k")).store_timestamp
    store.close()
    times = stored_at.to_bytes(8, "big")
    assert path.read_bytes() == times + times + bytes(8) + bytes(4072)


def test_only_readable_and_whole_ranges_are_answered(open_store: Open) -> None:
    store = open_store()
    end = store.put(new_message(b"x" * 100)).end_offset
    assert len(store.read_log(0, 50)) == 50
    assert len(store.read_log(0, 5000)) == end
    assert len(store.read_log(end, 10)) == 0
    assert len(store.read_log(10**9, 10)) == 0
    assert store.message_at(0, end) == store.message_at(0)
    for offset, size in [(0, end + 1), (0, 0), (-1, 10), (10**9, 10)]:
        assert store.message_at(offset, size) is None
    assert store.message_at(1) is None


def test_unknown_queues_are_empty_and_reads_do_not_create_them(open_store: Open) -> None:
    """Section 3.2: 4.9 returns 0, never -1."""
    store = open_store()
    assert (store.min_queue_offset("t", 0), store.max_queue_offset("t", 0)) == (0, 0)
    assert (store.earliest_store_time("t", 0), store.message_store_time("t", 0, 0)) == (-1, -1)
    assert store.offset_by_time("t", 0, 1) == 0
    assert store.is_in_memory("t", 0, 0)
    assert list(store.topics_queues()) == []


def test_a_deleted_topic_restarts_empty_and_others_stay(open_store: Open) -> None:
    store = open_store()
    for topic in ("gone", "kept"):
        store.put(new_message(topic=topic))
    store.delete_topic("gone")
    assert list(store.topics_queues()) == [("kept", 0)]
    assert not (store.queues.directory / "gone").exists()
    assert store.put(new_message(topic="gone")).queue_offset == 0
    assert store.get_message("gone", 0, 0, 1).count == 1
    assert store.max_queue_offset("kept", 0) == 1


def test_the_files_of_a_deleted_topic_are_moved_in_one_call(open_store: Open) -> None:
    """A topic of 1,000 queues stopped a broker for 7 s."""
    store = open_store()
    for queue_id in range(3):
        store.put(new_message(topic="gone", queue_id=queue_id))
    for _ in range(2):
        store.put(new_message(topic="gone"))
        store.delete_topic("gone")
    deleted = store.queues.deleted
    first, second = deleted.topics()
    assert [path.name for path in store.disk.list_directory(first)] == ["0", "1", "2"]
    assert [path.name for path in store.disk.list_directory(second)] == ["0"]
    assert len(store.queues.open_files) == 4
    assert not deleted.close_some()
    assert len(store.queues.open_files) == 0


def test_the_queues_of_a_store_that_is_emptied_are_moved(open_store: Open) -> None:
    """Deleting 1,000 queues stopped a slave that was reset for 7 s."""
    store = open_store()
    for topic in ("one", "two"):
        for queue_id in range(3):
            store.put(new_message(topic=topic, queue_id=queue_id))
    run_calls(deletion_of_all(store))
    assert list(store.topics_queues()) == []
    assert store.disk.names_in(store.queues.directory) == []
    assert [len(store.disk.names_in(path)) for path in store.queues.deleted.topics()] == [3, 3]
    assert store.put(new_message(topic="two")).queue_offset == 0


def test_views_that_outlive_their_file_stay_readable(open_store: Open) -> None:
    """Callers' errors must not crash the process: the last view ends the mapping."""
    store = open_store()
    store.put(new_message(b"x" * 100))
    view = store.message_at(0)
    store.close()
    assert view is not None
    assert b"x" * 100 in bytes(view)


def test_is_in_memory_counts_from_the_end_of_the_log(open_store: Open) -> None:
    """store-ha#67: far means more than 40 % of the machine's memory, here 4000 bytes."""
    store = open_store(total_memory=10_000)
    for _ in range(6):
        store.put(new_message(b"x" * 903))  # records of 1000 bytes
    assert [store.is_in_memory("orders", 0, offset) for offset in range(7)] == [False, False, *[True] * 5]


@attrs.define(eq=False)
class SparingDisk(Disk):
    """Refuses to make or to delete the file `abort`."""

    spared: str = "abort"

    def unlink(self, path: Path) -> None:
        self._check(path)
        super().unlink(path)

    def open(self, path: Path, flags: int = os.O_RDWR) -> int:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            self._check(path)
        return super().open(path, flags)

    def _check(self, path: Path) -> None:
        if path.name == self.spared:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))


def test_a_stop_that_cannot_delete_abort_frees_the_lock(open_store: Open) -> None:
    """issue 12.13: a failed last unlink locked the store for the rest of the process."""
    disk = SparingDisk(spared="")
    store = open_store(disk=disk)
    end = store.put(new_message()).end_offset
    disk.spared = "abort"
    store.close()
    assert (store.config.store_path_root_dir / "abort").exists()
    assert open_store().max_commit_log_offset == end


@pytest.mark.parametrize("spared", ["abort", "rmqlab.flushed", "00000000000000000000", "checkpoint"])
def test_a_start_that_fails_leaves_nothing_open(open_store: Open, spared: str) -> None:
    first = open_store()
    end = first.put(new_message()).end_offset
    first.close()
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the directory's own descriptor is in both
    if spared == "checkpoint":
        first.checkpoint.path.unlink()  # as on a full disk: a later flush makes it
        assert open_store(disk=SparingDisk(spared=spared)).max_commit_log_offset == end
        return
    with pytest.raises(OSError, match="Input/output error"):
        open_store(disk=SparingDisk(spared=spared))
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert open_store().max_commit_log_offset == end


def test_queues_continue_after_a_restart_and_older_files_are_closed(open_store: Open) -> None:
    """store-ha#26."""
    store = open_store()
    for _ in range(3):
        store.put(new_message())
    (file,) = store.log.files.files
    assert [entry[0] for entry in store.queue_entries("orders", 0, 0, 1)] == [0]
    store.close()
    assert file.map.closed
    again = open_store()
    assert again.put(new_message()).queue_offset == 3
