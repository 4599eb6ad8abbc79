"""Appending messages: stored bytes and their places, and rejections."""

import errno
import mmap
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from rmqlab.faults.disk.full import Quota
from rmqlab.remoting.batch import Batch, BatchItem
from rmqlab.remoting.message import BLANK_MAGIC, StoredMessage, decode_message
from rmqlab.store.config import StoreConfig
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.faulty_disk import FaultyDisk
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import PutStatus
from rmqlab.store.testing import ManualClock, new_message

Open = Callable[..., MessageStore]


def record_at(store: MessageStore, offset: int) -> StoredMessage:
    view = store.message_at(offset)
    assert view is not None
    return decode_message(view)


def test_a_stored_message_reads_back_field_by_field(open_store: Open, clock: ManualClock) -> None:
    """store-ha#8."""
    store = open_store()
    clock.now, clock.step = 1000, 0
    message = new_message(
        b"body", "orders", 3, tags="TagA", keys="k1 k2", unique_key="U", flag=7, reconsume_times=2,
        prepared_transaction_offset=99, sys_flag=0x1,
    )  # fmt: skip
    result = store.put(message)
    assert (result.status, result.queue_offset, result.store_timestamp) == (PutStatus.PUT_OK, 0, 1000)
    record = record_at(store, result.physical_offset)
    assert record.store_size == result.end_offset == 91 + 4 + 6 + len(message.properties)
    assert (record.topic, record.queue_id, record.body, record.flag) == ("orders", 3, b"body", 7)
    assert (record.born_timestamp, record.store_timestamp) == (message.born_timestamp, 1000)
    assert (record.born_host, record.store_host) == (message.born_host, message.store_host)
    assert (record.reconsume_times, record.prepared_transaction_offset, record.sys_flag) == (2, 99, 1)
    assert record.properties_text == message.properties
    assert record.is_intact


@pytest.mark.parametrize("born", ["10.0.0.1", "fd00::1"])
@pytest.mark.parametrize("stored", ["10.0.0.2", "::1"])
@pytest.mark.parametrize("batch", [False, True])
def test_ipv6_hosts_set_their_bits(open_store: Open, born: str, stored: str, batch: bool) -> None:  # noqa: FBT001
    """store-ha#10; and such records are dispatched like others."""
    store = open_store()
    message = new_message(born_host=(born, 1), store_host=(stored, 2), sys_flag=0x30, keys="k")
    if batch:
        store.put_batch(
            new_message(born_host=(born, 1), store_host=(stored, 2), sys_flag=0x30), Batch.of([BatchItem(b"hello")])
        )
    else:
        store.put(message)
    record = record_at(store, 0)
    assert record.sys_flag == (0x10 if ":" in born else 0) | (0x20 if ":" in stored else 0)
    assert (record.born_host, record.store_host) == ((born, 1), (stored, 2))
    slave = open_store("slave", is_slave=True)
    slave.append_raw(0, store.read_log(0, 10_000))
    assert slave.dispatch() == store.max_commit_log_offset
    assert slave.get_message("orders", 0, 0, 1).size == record.store_size
    assert slave.message_store_time("orders", 0, 0) == record.store_timestamp


def filled_to(store: MessageStore, end: int, size: int = 1000) -> None:
    """Put messages until the log ends exactly at `end`."""
    while (left := end - store.max_commit_log_offset) > 0:
        record = left if left <= size + 200 else size
        assert store.put(new_message(b"x" * (record - 91 - 6))).end_offset == store.max_commit_log_offset


@pytest.mark.parametrize(("spare", "blank"), [(8, 8), (7, None), (50, 50)])
def test_a_record_needs_8_more_bytes_than_its_own(open_store: Open, spare: int, blank: int | None) -> None:
    """store-ha#11: 200 bytes are put where 200 + spare are left.

    With fewer than 8 spare they go to the next file.
    """
    store = open_store()
    size = store.config.mapped_file_size_commit_log
    filled_to(store, size - 200 - spare)
    second = store.put(new_message(b"y" * (200 - 97)))
    if blank is None:
        assert second.physical_offset == size
        raw = bytes(store.read_log(size - 200 - spare, 8))
        assert int.from_bytes(raw[:4], "big") == 200 + spare
    else:
        assert second.end_offset == size - blank
        assert store.put(new_message(b"z" * 300)).physical_offset == size
        raw = bytes(store.read_log(size - blank, 8))
        assert int.from_bytes(raw[:4], "big") == blank
    assert int.from_bytes(raw[4:], "big", signed=True) == BLANK_MAGIC
    assert not any(store.read_log(size - 200 - spare + 8, 100)) or blank
    assert store.dispatch_behind_bytes == 0
    names = sorted(path.name for path in store.config.store_path_commit_log.iterdir())
    assert names == [f"{0:020d}", f"{size:020d}"]


def test_a_batch_becomes_single_records_with_consecutive_queue_offsets(open_store: Open) -> None:
    """store-ha#17: item properties, a separator where it lacks, then the batch's."""
    store = open_store()
    store.put(new_message())
    items = [
        BatchItem(b"one", b"KEYS\x01k1\x02UNIQ_KEY\x01U1", 5),
        BatchItem(b"two", b"TAGS\x01TagA\x02"),
        BatchItem(b"three"),
    ]
    result = store.put_batch(new_message(properties={"WAIT": "true", "CLUSTER": "c"}), Batch.of(items))
    assert result.physical_offsets is not None
    records = [record_at(store, offset) for offset in result.physical_offsets]
    assert result.queue_offset == 1
    assert [record.queue_offset for record in records] == [1, 2, 3]
    assert [record.body for record in records] == [b"one", b"two", b"three"]
    assert [record.flag for record in records] == [5, 0, 0]
    assert [record.properties_text for record in records] == [
        "KEYS\x01k1\x02UNIQ_KEY\x01U1\x02WAIT\x01true\x02CLUSTER\x01c",
        "TAGS\x01TagA\x02WAIT\x01true\x02CLUSTER\x01c",
        "WAIT\x01true\x02CLUSTER\x01c",
    ]
    assert records[-1].physical_offset + records[-1].store_size == result.end_offset == store.dispatched_offset
    assert store.get_message("orders", 0, 1, 32, {2598919}.__contains__).count == 1
    assert len(store.query("orders", "U1", 9, 0, 2**62).buffers) == 1


def test_a_batch_goes_to_the_next_file_as_a_whole_or_is_refused(open_store: Open) -> None:
    """store-ha#12."""
    store = open_store()
    size = store.config.mapped_file_size_commit_log
    items = [BatchItem(b"x" * 20_000), BatchItem(b"y" * 20_000)]
    assert store.put_batch(new_message(), Batch.of(items)).physical_offset == 0
    assert store.put_batch(new_message(), Batch.of(items)).physical_offset == size
    refused = store.put_batch(new_message(), Batch.of(items + items))
    assert refused.status is PutStatus.MESSAGE_ILLEGAL
    assert store.put_batch(new_message(), Batch.of([])).status is PutStatus.MESSAGE_ILLEGAL
    assert store.put_batch(new_message(sys_flag=0x4), Batch.of(items)).status is PutStatus.MESSAGE_ILLEGAL
    assert store.max_queue_offset("orders", 0) == 4


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"body": b"x" * 4_194_304}, PutStatus.PUT_OK),
        ({"body": b"x" * 4_194_305}, PutStatus.MESSAGE_ILLEGAL),
        ({"body": b""}, PutStatus.PUT_OK),
        ({"topic": "t" * 127}, PutStatus.PUT_OK),
        ({"topic": "t" * 128}, PutStatus.MESSAGE_ILLEGAL),
        ({"properties": {"k": "v" * 32765}}, PutStatus.PUT_OK),
        ({"properties": {"k": "v" * 32766}}, PutStatus.MESSAGE_ILLEGAL),
        ({"properties": {"k": "é" * 17000}}, PutStatus.PROPERTIES_SIZE_EXCEEDED),
    ],
)
def test_messages_that_are_too_large_are_rejected_and_not_stored(
    open_store: Open, changes: dict[str, Any], status: PutStatus
) -> None:
    """store-ha#15, in the part that the store decides."""
    store = open_store(mapped_file_size_commit_log=8 * 2**20)
    result = store.put(new_message(**changes))
    assert (result.status, result.reason == "") == (status, status is PutStatus.PUT_OK)
    assert (store.max_commit_log_offset > 0) is (status is PutStatus.PUT_OK)


def test_a_record_larger_than_a_file_is_illegal(open_store: Open) -> None:
    """store-ha#12: 4.9 loses it and says SUCCESS; section 2.3 asks a port to refuse."""
    store = open_store()
    room = store.config.mapped_file_size_commit_log - 8 - 97
    assert store.put(new_message(b"x" * (room + 1))).status is PutStatus.MESSAGE_ILLEGAL
    assert store.put(new_message(b"x" * room)).status is PutStatus.PUT_OK


def test_a_batch_that_holds_up_others_or_grows_without_measure_is_illegal(open_store: Open) -> None:
    store = open_store(mapped_file_size_commit_log=2**27, max_message_size=4000)
    many = store.put_batch(new_message(), Batch.of([BatchItem(b"")] * 32_769))
    assert (many.status, many.reason) == (PutStatus.MESSAGE_ILLEGAL, "a batch of 32769 messages; at most 32768")
    wide = store.put_batch(new_message(properties={"a": "x" * 30_000}), Batch.of([BatchItem(b"")] * 3))
    assert (wide.status, wide.reason.endswith("at most 64000")) == (PutStatus.MESSAGE_ILLEGAL, True)
    assert store.max_commit_log_offset == 0


@pytest.mark.parametrize("kind", [0x4, 0xC])
def test_prepared_and_rollback_records_have_no_entry_and_no_queue_offset(open_store: Open, kind: int) -> None:
    """store-ha#22; only rollbacks stay out of the index."""
    store = open_store()
    store.put(new_message())
    half = store.put(new_message(sys_flag=kind, keys="half"))
    assert half.queue_offset == record_at(store, half.physical_offset).queue_offset == 0
    assert store.put(new_message(sys_flag=0x8)).queue_offset == 1
    assert store.max_queue_offset("orders", 0) == 2
    assert len(store.query("orders", "half", 9, 0, 2**62).buffers) == (1 if kind == 0x4 else 0)


@pytest.mark.parametrize(("level", "delay"), [("1", 1000), ("18", 7_200_000), ("99", 7_200_000)])
def test_a_schedule_entry_says_when_it_is_due(open_store: Open, level: str, delay: int) -> None:
    """store-ha#20, by put and by dispatch alike."""
    store, slave = open_store(), open_store("slave", is_slave=True)
    result = store.put(new_message(topic="SCHEDULE_TOPIC_XXXX", tags="TagA", properties={"DELAY": level}))
    slave.append_raw(0, store.read_log(0, 10_000))
    slave.dispatch()
    for one in (store, slave):
        assert one.queue_entries("SCHEDULE_TOPIC_XXXX", 0, 0, 1)[0][2] == result.store_timestamp + delay


@pytest.mark.parametrize(("tags", "code"), [("TagA", 2598919), ("", 0), ("polygenelubricants", -(2**31))])
def test_tags_codes_are_sign_extended(open_store: Open, tags: str, code: int) -> None:
    """store-ha#19, by put and by dispatch alike."""
    store, slave = open_store(), open_store("slave", is_slave=True)
    store.put(new_message(tags=tags))
    slave.append_raw(0, store.read_log(0, 10_000))
    slave.dispatch()
    for one in (store, slave):
        assert one.queue_entries("orders", 0, 0, 1) == [(0, one.max_commit_log_offset, code)]


@attrs.define
class Observer:
    """Notes what dispatch reports."""

    events: list[tuple[Any, ...]] = attrs.field(factory=list)

    def messages_dispatched(self, *event: Any) -> None:
        self.events.append(event)


def test_every_put_reports_the_new_queue_end_to_the_observer(open_store: Open) -> None:
    """store-ha#28: a message is there for consumers when put returns."""
    observer = Observer()
    store = open_store(observer=observer)
    first = store.put(new_message(tags="TagA"))
    batch = store.put_batch(new_message(queue_id=1), Batch.of([BatchItem(b"1"), BatchItem(b"2")]))
    assert observer.events == [
        ("orders", 0, 0, (2598919,), first.store_timestamp),
        ("orders", 1, 0, [0, 0], batch.store_timestamp),
    ]


def test_a_slave_and_a_closed_store_take_no_messages(open_store: Open) -> None:
    """store-ha#33: the broker makes code 14 of it."""
    slave, closed = open_store("slave", is_slave=True), open_store("closed")
    closed.close()
    for store in (slave, closed):
        assert store.write_refused()
        assert store.put(new_message()).status is PutStatus.SERVICE_NOT_AVAILABLE
        assert store.put_batch(new_message(), Batch.of([BatchItem(b"")])).status is PutStatus.SERVICE_NOT_AVAILABLE


@pytest.mark.parametrize("quota", [0, 5_000, 40_000, 300_000, 600_000])
def test_a_full_disk_refuses_puts_and_loses_nothing(open_store: Open, quota: int) -> None:
    """With a full log, queue or index disk, confirmed messages are stored.

    Puts continue when there is space.
    """
    disk = FaultyDisk([Quota(quota)])
    store = open_store(disk=disk)
    stored = []
    for number in range(2000):
        result = store.put(new_message(b"x" * 200, queue_id=number % 3, keys=f"k{number}"))
        if result.status is not PutStatus.PUT_OK:
            assert result.status is PutStatus.SERVICE_NOT_AVAILABLE
            break
        stored.append(result.physical_offset)
    refusal = store.write_refused()
    assert refusal
    assert "No space left" in refusal
    disk.set_effects([])
    store.check_disk()
    assert store.write_refused() is None
    stored.append(store.put(new_message(b"after")).physical_offset)
    assert store.dispatch_behind_bytes == 0
    for queue_id in range(3):
        at = 0
        while (got := store.get_message("orders", queue_id, at, 32)).count:
            at = got.next_begin_offset
        assert at == store.max_queue_offset("orders", queue_id)
    assert all(store.message_at(offset) is not None for offset in stored)
    assert sum(store.max_queue_offset("orders", queue_id) for queue_id in range(3)) == len(stored)


@pytest.mark.parametrize("quota", [0, 30_000, 300_000, 500_000])
def test_batches_on_a_full_disk_are_whole_or_refused(open_store: Open, quota: int) -> None:
    disk = FaultyDisk([Quota(quota)])
    store = open_store(disk=disk)
    sent = 0
    nine = Batch.of([BatchItem(b"x" * 100, b"UNIQ_KEY\x01%d" % n) for n in range(9)])
    while store.put_batch(new_message(), nine).is_stored:
        sent += 9
    assert sent < 10_000
    disk.set_effects([])
    store.check_disk()
    assert store.write_refused() is None
    assert (store.max_queue_offset("orders", 0), store.dispatch_behind_bytes) == (sent, 0)
    last = store.put_batch(new_message(), Batch.of([BatchItem(b"last", b"UNIQ_KEY\x01last")]))
    assert last.queue_offset == sent
    assert len(store.query("orders", "last", 9, 0, 2**62).buffers) == 1


@attrs.define(eq=False)
class ScarceDisk(Disk):
    """Maps no file any more, or writes the half of a piece and no more."""

    map_error: int = 0
    writes_half: bool = False

    def map(self, descriptor: int, size: int) -> mmap.mmap:
        if self.map_error:
            raise OSError(self.map_error, os.strerror(self.map_error))
        return super().map(descriptor, size)

    def write(self, descriptor: int, data: bytes | memoryview, offset: int) -> int:
        if self.writes_half and len(data) > 1000:
            super().write(descriptor, data[: len(data) // 2], offset)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write(descriptor, data, offset)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EACCES])
def test_a_failed_log_file_creation_rejects_puts_until_it_succeeds(open_store: Open, number: int) -> None:
    """issue 12.5: such an error ended the broker."""
    disk = ScarceDisk()
    store = open_store(disk=disk)
    store.put(new_message(b"x" * 40_000))
    disk.map_error = number
    assert store.put(new_message(b"x" * 40_000)).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert os.strerror(number) in str(store.write_refused())
    assert len(list((store.config.store_path_commit_log).iterdir())) == 1
    assert store.get_message("orders", 0, 0, 1).count == 1
    disk.map_error = 0
    store.check_disk()
    assert store.write_refused() is None
    assert store.put(new_message(b"x" * 40_000)).physical_offset == 65536


def test_a_batch_that_was_written_in_part_is_not_there_after_a_kill(open_store: Open, tmp_path: Path) -> None:
    """Its first records were whole, and had been refused."""
    disk = ScarceDisk()
    store = open_store(disk=disk)
    end = store.put(new_message()).end_offset
    disk.writes_half = True
    batch = Batch.of([BatchItem(b"x" * 100) for _ in range(30)])
    assert store.put_batch(new_message(), batch).status is PutStatus.SERVICE_NOT_AVAILABLE
    shutil.copytree(tmp_path / "store", tmp_path / "killed")
    assert open_store("killed").max_commit_log_offset == end
    disk.writes_half = False
    store.check_disk()
    assert store.put_batch(new_message(), batch).physical_offset == end


def test_config_names_are_those_of_rocketmq() -> None:
    """store-ha#7: the key that 4.6 introduced; defaults of section 1.1."""
    config = StoreConfig(store_path_root_dir="/nowhere")
    assert config.mapped_file_size_commit_log == 1_073_741_824
    assert config.mapped_file_size_consume_queue == 6_000_000
    assert 40 + 4 * config.max_hash_slot_num + 20 * config.max_index_num == 420_000_040
    assert str(config.store_path_commit_log) == "/nowhere/commitlog"
    assert StoreConfig(mapped_file_size_consume_queue=41).mapped_file_size_consume_queue == 60


@pytest.mark.parametrize(("spare", "status"), [(0, PutStatus.PUT_OK), (-1, PutStatus.MESSAGE_ILLEGAL)])
def test_a_batch_fills_a_file_but_for_its_blank(open_store: Open, spare: int, status: PutStatus) -> None:
    store = open_store()
    first = store.put_batch(new_message(), Batch.of([BatchItem(b"x")] * 4))
    overhead = first.end_offset - 4
    room = store.config.mapped_file_size_commit_log - 8 - overhead - spare
    bodies = [b"x" * (room // 4)] * 3 + [b"x" * (room - 3 * (room // 4))]
    assert store.put_batch(new_message(), Batch.of([BatchItem(body) for body in bodies])).status is status
