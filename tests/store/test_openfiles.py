"""Many queues: number of open files, and queues whose file cannot be opened.

Source: issue 12.5.
"""

import errno
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqlab.faults.disk.full import Quota
from rmqlab.store.config import QUEUE_ENTRY_SIZE
from rmqlab.store.files import logfile, openfiles
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.faulty_disk import FaultyDisk
from rmqlab.store.files.openfiles import OpenFiles, default_limit
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message, small_config
from rmqlab.store.truncate import truncate

Open = Callable[..., MessageStore]


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def put_each(store: MessageStore, topics: int) -> None:
    for number in range(topics):
        store.put(new_message(topic=f"T{number}"))


def offsets_of(store: MessageStore, topic: str) -> list[int]:
    return [entry[0] for entry in store.queue_entries(topic, 0, 0, 50)]


class Refusals:
    """Lets no file of some topics be made or opened, as long as there is a problem."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topics = {"bad"}
        self.problem: Exception | None = None
        self._map_file = logfile.map_file
        monkeypatch.setattr(openfiles, "map_file", self._refuse)

    def _refuse(self, path: Path, size: int, disk: Disk, **how: Any) -> object:
        if self.problem is not None and path.parts[-3] in self.topics:
            raise self.problem
        return self._map_file(path, size, disk, **how)


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> Refusals:
    return Refusals(monkeypatch)


@pytest.fixture
def few_descriptors() -> Iterator[Callable[[int], None]]:
    """Leaves the process so many more descriptors until the test ends."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def leave(count: int) -> None:
        opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(count + 1)]
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (opened[-1], limits[1]))

    yield leave
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


# ---- a bounded number of open files --------------------------------------------------------------------------


def test_all_queues_together_hold_few_files_open(open_store: Open) -> None:
    store = open_store()
    store.queues.open_files.limit = 5
    before = open_descriptors()
    for _ in range(3):
        put_each(store, 40)
    assert len(store.queues.open_files) == 5
    assert open_descriptors() - before <= 5 + 1  # and an index file
    for number in range(40):
        assert store.get_message(f"T{number}", 0, 0, 32).count == 3
    store.close()
    again = open_store()
    assert {again.max_queue_offset(f"T{number}", 0) for number in range(40)} == {3}


def test_a_store_opens_more_queues_than_files_may_be_open(
    open_store: Open, few_descriptors: Callable[[int], None]
) -> None:
    store = open_store()
    put_each(store, 60)
    store.close()
    few_descriptors(30)
    again = open_store()
    put_each(again, 60)
    assert {again.max_queue_offset(f"T{number}", 0) for number in range(60)} == {2}


def test_where_no_descriptor_is_left_other_queues_give_theirs(
    open_store: Open, few_descriptors: Callable[[int], None]
) -> None:
    """Each of 100 new queues gets its file, for any number of connections."""
    store = open_store()
    store.queues.open_files.limit = 1000
    put_each(store, 4)
    few_descriptors(6)
    put_each(store, 100)
    assert not store.queues.stuck
    assert {store.max_queue_offset(f"T{number}", 0) for number in range(4, 100)} == {1}


def test_a_view_outlives_the_closing_of_its_file(open_store: Open) -> None:
    store = open_store()
    store.queues.open_files.limit = 1
    put_each(store, 1)
    entries = store.queues.table["T0", 0].entries(0, QUEUE_ENTRY_SIZE)
    raw = bytes(entries)
    put_each(store, 10)
    assert bytes(entries) == raw


@pytest.mark.parametrize(("soft", "limit"), [(1024, 256), (20, 16), (10**6, 16_384)])
def test_a_part_of_the_descriptors_is_for_queues(monkeypatch: pytest.MonkeyPatch, soft: int, limit: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (soft, soft))
    assert default_limit() == limit


def test_an_error_that_is_no_lack_of_descriptors_closes_nothing() -> None:
    class File:
        def unmap(self) -> None:
            raise AssertionError

    files = OpenFiles(4)
    files.add(File())

    def fail() -> None:
        raise OSError(errno.EACCES, "no")

    with pytest.raises(OSError, match="no"):
        files.opening(fail)
    assert len(files) == 1


# ---- a queue whose file cannot be opened ---------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.EACCES])
def test_a_queue_that_cannot_be_created_waits_and_blocks_no_other(
    open_store: Open, refusals: Refusals, number: int
) -> None:
    store = open_store()
    refusals.problem = OSError(number, os.strerror(number))
    wanted = []
    for _ in range(70):
        wanted.append(store.put(new_message(topic="bad")).physical_offset)
        store.put(new_message(topic="good"))
    assert store.write_refused() is None
    assert (store.max_queue_offset("bad", 0), store.max_queue_offset("good", 0)) == (0, 70)
    refusals.problem = None
    wanted.append(store.put(new_message(topic="bad")).physical_offset)
    store.flush_queues_job()
    assert store.max_queue_offset("bad", 0) == 71
    entries = [entry[0] for at in (0, 50) for entry in store.queue_entries("bad", 0, at, 50)]
    assert entries == wanted
    store.queues.recover_counters()
    assert store.put(new_message(topic="bad")).queue_offset == 71


def test_a_bulk_and_a_batch_proceed_while_another_queue_waits(open_store: Open, refusals: Refusals) -> None:
    master, slave = open_store("master"), open_store("slave", is_slave=True)
    for _ in range(100):
        put_each(master, 2)
        master.put(new_message(topic="bad"))
    refusals.problem = OSError(errno.EMFILE, "Too many open files")
    while view := master.read_log(slave.max_commit_log_offset, 2**20):
        slave.append_raw(slave.max_commit_log_offset, view)
    while slave.dispatch(2**20):
        pass
    assert slave.dispatched_offset == master.max_commit_log_offset
    assert [slave.max_queue_offset(topic, 0) for topic in ("T0", "T1", "bad")] == [100, 100, 0]
    refusals.problem = None
    slave.flush_queues_job()
    assert [slave.queue_entries("bad", 0, at, 50) for at in (0, 50)] == [
        master.queue_entries("bad", 0, at, 50) for at in (0, 50)
    ]


def test_a_stop_or_a_kill_loses_no_entry_that_waits(open_store: Open, refusals: Refusals, tmp_path: Path) -> None:
    """The checkpoint stays behind them, and `abort` stays: a start re-enters them.

    The entries are read from the log.
    """
    store = open_store()
    store.put(new_message(topic="good"))
    refusals.problem = OSError(errno.EMFILE, "Too many open files")
    waiting = store.put(new_message(topic="bad")).physical_offset
    for _ in range(900):  # several files of the log
        store.put(new_message(b"x" * 200, topic="good"))
    job = store.flush_queues_job()
    assert job is not None
    job.run()
    store.flushed(job)
    assert store.flusher.marks.queues == waiting
    shutil.copytree(tmp_path / "store", tmp_path / "killed")
    store.close()
    refusals.problem = None
    for name in ("store", "killed"):
        again = open_store(name)
        assert offsets_of(again, "bad") == [waiting]
        assert again.max_queue_offset("good", 0) == 901


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_truncation_drops_entries_that_wait(open_store: Open, refusals: Refusals, kept: int) -> None:
    store = open_store()
    store.put(new_message(topic="good"))
    refusals.problem = OSError(errno.EMFILE, "Too many open files")
    ends = [store.max_commit_log_offset, *(store.put(new_message(topic="bad")).end_offset for _ in range(3))]
    truncate(store, ends[kept])
    assert store.put(new_message(topic="bad")).queue_offset == kept
    refusals.problem = None
    store.flush_queues_job()
    assert offsets_of(store, "bad") == ends[: kept + 1]


def test_a_full_disk_at_the_second_try_loses_nothing(open_store: Open, refusals: Refusals) -> None:
    disk = FaultyDisk()
    store = open_store(disk=disk)
    refusals.problem = OSError(errno.EMFILE, "Too many open files")
    wanted = [store.put(new_message(topic="bad")).physical_offset for _ in range(60)]
    refusals.problem = None
    disk.set_effects([Quota(1000)])  # room for one of the two files
    store.flush_queues_job()
    assert store.max_queue_offset("bad", 0) == 50
    disk.set_effects([])
    store.flush_queues_job()
    assert [entry[0] for at in (0, 50) for entry in store.queue_entries("bad", 0, at, 50)] == wanted


def test_a_queue_that_begins_late_begins_there_also_at_a_second_try(open_store: Open) -> None:
    """A first file without space for its earlier entries is not left empty."""
    disk = FaultyDisk()
    store = open_store(disk=disk)
    queue = store.queues.open("late", 0)
    disk.set_effects([Quota(0)])
    with pytest.raises(OSError, match="No space left"):
        queue.append(75, 1000, 100, 0)
    disk.set_effects([])
    queue.append(75, 1000, 100, 0)
    assert (queue.min_offset, queue.max_offset) == (75, 76)


def test_a_queue_file_of_another_length_stops_its_queue_alone(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    store.queues.open_files.limit = 1
    for topic in ("bad", "good"):
        store.put(new_message(topic=topic))
    path = tmp_path / "store" / "consumequeue" / "bad" / "0" / f"{0:020d}"
    os.truncate(path, 7)
    for topic in ("bad", "good"):
        store.put(new_message(topic=topic))
    assert store.max_queue_offset("good", 0) == 2
    os.truncate(path, 1000)
    store.flush_queues_job()
    assert store.max_queue_offset("bad", 0) == 2


def test_a_topic_too_long_for_a_directory_has_no_queue(open_store: Open, tmp_path: Path) -> None:
    """The checksum excludes a record's topic: invalid UTF-8 triples its length."""
    master = open_store("master")
    topic = "t" * 127
    master.put(new_message(topic=topic))
    master.put(new_message(topic="good"))
    raw = bytes(master.read_log(0, 2**20)).replace(topic.encode(), b"\xff" * 127)
    slave = MessageStore.open(small_config(tmp_path / "slave"), now_millis=ManualClock(), is_slave=True)
    slave.append_raw(0, raw)
    slave.dispatch()
    assert list(slave.topics_queues()) == [("good", 0)]
    assert not slave.queues.stuck
    slave.close()
