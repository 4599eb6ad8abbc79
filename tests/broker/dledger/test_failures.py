"""A member after a kill or a power loss."""

import shutil
from pathlib import Path

import attrs
import pytest

from rmqlab.broker.dledger.groupstore import group_log
from rmqlab.dledger.group import GroupSettings
from rmqlab.remoting.message import decode_message
from rmqlab.store.files.disk import Disk
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import PutStatus
from rmqlab.store.testing import ManualClock, small_config
from tests.broker.dledger.test_store import ALONE, Member
from tests.store.forgetfuldisk import ForgetfulDisk, Forgets, forgets_all, forgets_even, forgets_odd
from tests.store.test_dispatch_without_room import FULL, FullForOneQueue

COUNT = 600
"""Messages of two queues: each has six files."""


def opened(root: Path, disk: Disk | None = None, settings: GroupSettings = ALONE) -> Member:
    now, clock = [1_000_000], ManualClock(step=1)
    kind = group_log(settings, lambda: now[0], lambda limit: limit - 1)
    store = MessageStore.open(small_config(root), now_millis=clock, is_slave=True, log_kind=kind, disk=disk)
    return Member(root, store, now, clock)


@pytest.mark.parametrize("keeps_names", [False, True])
@pytest.mark.parametrize("forgets", [forgets_all, forgets_even, forgets_odd])
def test_a_start_that_makes_a_queue_again_may_lose_power_before_the_flush(
    tmp_path: Path, forgets: Forgets, *, keeps_names: bool
) -> None:
    member = opened(tmp_path)
    member.lead()
    for number in range(COUNT):
        member.put(b"%d" % number, queue_id=number % 2)
    member.store.close()
    shutil.rmtree(tmp_path / "consumequeue" / "orders" / "0")
    disk = ForgetfulDisk(root=tmp_path)
    opened(tmp_path, disk).kill()
    disk.lose_power(forgets, keeps_names=keeps_names)
    store = opened(tmp_path).store
    for number in range(COUNT):
        (record,) = store.get_message("orders", number % 2, number // 2, 1).buffers
        assert decode_message(record).body == b"%d" % number
    assert store.max_queue_offset("orders", 0) == COUNT // 2
    store.close()


@pytest.mark.parametrize("body", [b"junk", bytes(4), bytes(300), bytes(9000), b"wrong checksum", b"lost"])
def test_entries_that_are_no_message_stop_no_flush_after_a_kill(tmp_path: Path, body: bytes) -> None:
    """The flush after a kill reads what may not be on disk.

    A member that only claims to lead may send any bytes; those that the disk lost are zero sectors of a record. The log
    ends before such a record, for the leader to send it again.
    """
    member = opened(tmp_path)
    member.lead()
    first = member.put(b"first" * 500)
    record = bytearray(member.store.message_at(first.physical_offset) or b"")
    if body == b"wrong checksum":
        record[8] ^= 1
    record[1024:2048] = bytes(1024) if body == b"lost" else record[1024:2048]
    is_record = body in (b"lost", b"wrong checksum")
    member.log.entries.append(member.log.entries.end_term, bytes(record) if is_record else body)
    member.put(b"second")
    member.kill()
    again = opened(tmp_path)
    again.lead()
    again.put(b"third")
    job = again.store.flush_job()
    assert job is not None
    job.run()
    again.store.flushed(job)
    assert again.store.flushed_offset == again.log.max_offset
    assert again.log.entries.end_index == (1 if body == b"lost" else 3)
    again.store.close()


def test_a_put_is_decided_after_the_sync_of_its_entry(tmp_path: Path) -> None:
    """With `dleger_ack_after_sync`, in a group of one."""
    member = opened(tmp_path, settings=attrs.evolve(ALONE, ack_after_sync=True))
    member.lead()
    result = member.put(b"message")
    assert result.decision is not None
    assert result.decision.status is None
    job = member.store.flush_job()
    assert job is not None
    job.run()
    member.store.flushed(job)
    member.log.server.note_synced(member.now[0])
    member.work()
    assert result.decision.status is PutStatus.PUT_OK
    member.store.close()


def test_entries_count_as_dispatched_once_all_queues_have_room(tmp_path: Path) -> None:
    """Also after a kill before that: the checkpoint names none of those behind."""
    disk = FullForOneQueue()
    member = opened(tmp_path, disk)
    member.lead()
    first = member.put(b"first")
    with pytest.raises(OSError, match="No space left"):
        member.put(b"refused by its queue", queue_id=FULL)
    with pytest.raises(OSError, match="No space left"):
        member.put(b"behind it")
    store = member.store
    assert store.dispatched_offset == first.end_offset
    assert store.dispatcher.last_stored_at == first.store_timestamp
    job = store.flush_queues_job()
    assert job is not None
    job.run()
    store.flushed(job)
    assert store.checkpoint.physic_msg_timestamp <= first.store_timestamp
    member.kill()
    disk.is_full = False
    again = opened(tmp_path, disk)
    again.lead()
    assert [again.store.max_queue_offset("orders", queue) for queue in (0, FULL)] == [2, 1]
    assert again.store.dispatched_offset == again.log.max_offset
    again.store.close()
