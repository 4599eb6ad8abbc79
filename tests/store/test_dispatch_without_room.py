"""Dispatch while the disk has no room for the files of one queue."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from rmqlab.store.files.disk import Disk
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message, small_config
from tests.store.sweepworkload import kill

QUEUES = 3
FULL = 1
"""The queue whose files get no room."""


@attrs.define(eq=False)
class FullForOneQueue(Disk):
    """Refuses blocks to files of a queue while `is_full`."""

    is_full: bool = True
    _paths: dict[int, Path] = attrs.field(factory=dict)

    def open(self, path: Path, flags: int = os.O_RDWR) -> int:
        descriptor = Disk.open(self, path, flags)
        self._paths[descriptor] = path
        return descriptor

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        if self.is_full and self._paths[descriptor].parent.name == str(FULL):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        Disk.allocate(self, descriptor, offset, length)


@attrs.define
class Arrivals:
    """Notes the messages that can be pulled."""

    seen: list[tuple[int, int]] = attrs.field(factory=list)

    def messages_dispatched(
        self, _topic: str, queue_id: int, queue_offset: int, tags_codes: Sequence[int], _store_timestamp: int
    ) -> None:
        self.seen += [(queue_id, queue_offset + number) for number in range(len(tags_codes))]


def _flush_queues(store: MessageStore) -> None:
    if (job := store.flush_queues_job()) is not None:
        job.run()
        store.flushed(job)


@pytest.mark.parametrize("count", [2 * QUEUES, 100 * QUEUES], ids=["a few", "many"])
def test_records_count_as_dispatched_once_all_queues_have_room(tmp_path: Path, count: int) -> None:
    """Until then the checkpoint names none of them.

    A start after a crash relies on it.
    """
    config, clock = small_config(tmp_path / "master", mapped_file_size_commit_log=1 << 20), ManualClock(step=1000)
    master = MessageStore.open(config, now_millis=clock)
    for number in range(count):
        last = master.put(new_message(b"%d" % number * 60, queue_id=number % QUEUES))
    disk, arrivals = FullForOneQueue(), Arrivals()
    config = small_config(tmp_path / "slave", mapped_file_size_commit_log=1 << 20)
    slave = MessageStore.open(config, now_millis=clock, is_slave=True, disk=disk, observer=arrivals)
    slave.dispatcher.is_observed = True
    slave.append_raw(0, master.read_log(0, 1 << 20))
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            slave.dispatch()
        _flush_queues(slave)
        assert (slave.dispatched_offset, slave.dispatcher.last_stored_at, arrivals.seen) == (0, 0, [])
        assert slave.checkpoint.physic_msg_timestamp == slave.checkpoint.logics_msg_timestamp == 0
    disk.is_full = False
    slave.dispatch()
    assert slave.dispatched_offset == slave.max_commit_log_offset
    assert slave.checkpoint.physic_msg_timestamp == slave.dispatcher.last_stored_at == last.store_timestamp
    assert sorted(arrivals.seen) == [(queue, at) for queue in range(QUEUES) for at in range(count // QUEUES)]
    for queue in range(QUEUES):
        assert slave.queue_entries("orders", queue, 0, count) == master.queue_entries("orders", queue, 0, count)
    slave.close()
    master.close()


def test_a_kill_before_a_queue_has_room_loses_no_entry(tmp_path: Path) -> None:
    master = MessageStore.open(small_config(tmp_path / "master"), now_millis=ManualClock(step=1000))
    for number in range(2 * QUEUES):
        master.put(new_message(b"%d" % number, queue_id=number % QUEUES))
    root = tmp_path / "slave"
    slave = MessageStore.open(small_config(root), now_millis=ManualClock(), is_slave=True, disk=FullForOneQueue())
    slave.append_raw(0, master.read_log(0, 1 << 20))
    with pytest.raises(OSError, match="No space left"):
        slave.dispatch()
    _flush_queues(slave)
    kill(slave)
    slave = MessageStore.open(small_config(root), now_millis=ManualClock(), is_slave=True)
    assert [slave.max_queue_offset("orders", queue) for queue in range(QUEUES)] == [2] * QUEUES
    slave.close()
    master.close()
