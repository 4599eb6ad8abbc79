"""A slave's raw log bytes in any pieces, dispatched when whole.

Source: sections 3.4, 4.5.
"""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqlab.remoting.message import decode_message
from rmqlab.store.files.disk import StoreCorrupt
from rmqlab.store.files.diskcalls import run_calls
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message, small_config
from rmqlab.store.truncate import deletion_of_all, truncate

Open = Callable[..., MessageStore]


def everything(store: MessageStore) -> bytes:
    return b"".join(bytes(file.view[: file.wrote]) for file in store.log.files.files)


def busy_master(store: MessageStore, count: int = 300) -> MessageStore:
    for number in range(count):
        store.put(new_message(b"x" * (number % 400), queue_id=number % 3, tags=f"T{number % 5}", keys=f"k{number}"))
    return store


def queue_bytes(store: MessageStore) -> dict[str, bytes]:
    directory = store.queues.directory
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("0*") if path.is_file()}


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 20_000), min_size=1, max_size=12))
def test_any_pieces_give_the_same_log_and_queues(tmp_path_factory: pytest.TempPathFactory, pieces: list[int]) -> None:
    """store-ha#45, #46, #48: blanks, cut records, and dispatch after every piece."""
    root = tmp_path_factory.mktemp("pieces")
    master = busy_master(MessageStore.open(small_config(root / "master"), now_millis=ManualClock()))
    slave = MessageStore.open(small_config(root / "slave"), now_millis=ManualClock(), is_slave=True)
    at, step = 0, 0
    while at < master.max_commit_log_offset:
        piece = master.read_log(at, pieces[step % len(pieces)])
        assert slave.append_raw(at, piece)
        slave.dispatch()
        at, step = at + len(piece), step + 1
    assert everything(slave) == everything(master)
    assert slave.dispatch_behind_bytes == 0
    assert queue_bytes(slave) == queue_bytes(master)
    for key in ("k1", "k299"):
        assert slave.query("orders", key, 9, 0, 2**62).buffers == master.query("orders", key, 9, 0, 2**62).buffers
    slave.close()
    master.close()


def test_a_heartbeat_at_a_file_start_makes_an_empty_slave_begin_there(open_store: Open) -> None:
    """store-ha#44."""
    slave = open_store(is_slave=True)
    assert slave.append_raw(3 * 65536, b"")
    assert slave.max_commit_log_offset == slave.min_commit_log_offset == 3 * 65536
    slave.close()
    assert open_store(is_slave=True).max_commit_log_offset == 3 * 65536


def test_a_first_frame_inside_a_file_is_written_at_the_files_start(open_store: Open) -> None:
    """Section 4.5: so that the next frame mismatches, as in RocketMQ."""
    slave = open_store(is_slave=True)
    assert slave.append_raw(65536 + 100, b"x" * 10)
    assert slave.max_commit_log_offset == 65536 + 10


def test_a_slave_with_a_first_frame_from_inside_a_file_starts_again(open_store: Open) -> None:
    """As in RocketMQ. Its first record states another offset within the file."""
    master, slave = open_store("master"), open_store("slave", is_slave=True)
    record = master.put(new_message(b"x" * 400)).end_offset
    master.put(new_message(b"x" * 400))
    assert slave.append_raw(record, bytes(master.read_log(record, 65536)))
    slave.close()
    assert open_store("slave", is_slave=True).max_commit_log_offset > 0


def test_bytes_that_do_not_fit_into_the_file_are_dropped(open_store: Open) -> None:
    """Section 4.5: what differing file sizes lead to."""
    slave = open_store(is_slave=True)
    assert slave.append_raw(0, b"x" * 65000)
    assert not slave.append_raw(65000, b"x" * 537)
    assert slave.max_commit_log_offset == 65000
    assert slave.append_raw(65000, b"x" * 536)
    assert slave.append_raw(65536, b"x")
    assert slave.max_commit_log_offset == 65537


@pytest.mark.parametrize("cut", [500, 36, 35, 8, 1])
def test_a_record_of_another_file_does_not_begin_a_file(open_store: Open, cut: int) -> None:
    """With it the slave would not start again."""
    master = busy_master(open_store("master"), count=10)
    stream = everything(master)
    size = int.from_bytes(stream[:4], "big")
    record = stream[:28] + (2**40).to_bytes(8, "big") + stream[36:size]
    slave = open_store("slave", is_slave=True)
    pieces = [record[at : at + cut] for at in range(0, size, cut)]
    while slave.max_commit_log_offset + len(pieces[0]) < 36:
        slave.append_raw(slave.max_commit_log_offset, pieces.pop(0))
    with pytest.raises(StoreCorrupt, match=f"would begin with the record of commit log offset {2**40}"):
        slave.append_raw(slave.max_commit_log_offset, pieces.pop(0))
    assert slave.max_commit_log_offset < 36
    slave.close()
    slave = open_store("slave", is_slave=True)
    end = slave.max_commit_log_offset
    assert slave.append_raw(end, stream[end:])
    assert everything(slave) == stream


def test_a_slave_that_begins_in_mid_log_fills_its_queues_with_entries_that_point_nowhere(open_store: Open) -> None:
    """store-ha#21: (0, 0x7FFFFFFF, 0) precedes the first known entry, which is min."""
    master, slave = open_store("master"), open_store("slave", is_slave=True)
    for number in range(330):
        master.put(new_message(b"x" * 400, queue_id=number % 3))
    start = 65536
    while start < master.max_commit_log_offset:
        piece = master.read_log(start, 10_000)
        slave.append_raw(start, piece)
        start += len(piece)
    slave.dispatch()
    for queue_id in range(3):
        first = slave.min_queue_offset("orders", queue_id)
        size = master.queue_entries("orders", queue_id, 0, 1)[0][1]
        assert first == (65536 // size - queue_id + 2) // 3 > 0
        assert slave.max_queue_offset("orders", queue_id) == 110
        assert slave.queue_entries("orders", queue_id, first, 1) == master.queue_entries("orders", queue_id, first, 1)
        path = min((slave.queues.directory / "orders" / str(queue_id)).iterdir())
        blanks = (first * 20 - int(path.name)) // 20
        assert path.read_bytes()[: blanks * 20] == (bytes(8) + b"\x7f\xff\xff\xff" + bytes(8)) * blanks
        assert slave.get_message("orders", queue_id, first, 32).count > 0
    slave.close()
    again = open_store("slave", is_slave=True)
    assert again.min_queue_offset("orders", 1) == (65536 // size - 1 + 2) // 3


def test_a_slave_stops_at_bytes_it_cannot_read_and_a_master_skips_the_file(open_store: Open) -> None:
    """Section 3.4."""
    for is_slave, stop in ((True, 97), (False, 297)):
        store = open_store(f"slave-{is_slave}", is_slave=is_slave)
        good = open_store(f"good-{is_slave}")
        good.put(new_message(b""))
        store.append_raw(0, bytes(good.read_log(0, 97)) + b"\xff" * 200)
        store.dispatch()
        assert store.dispatched_offset == stop
        assert store.max_queue_offset("orders", 0) == 1


def test_dispatch_can_be_asked_for_a_part(open_store: Open) -> None:
    master, slave = busy_master(open_store("master")), open_store("slave", is_slave=True)
    piece = master.read_log(0, 60_000)
    slave.append_raw(0, piece)
    done = slave.dispatch(10_000)
    assert 10_000 <= done < 11_000
    assert done == slave.dispatched_offset
    while slave.dispatch(1):
        pass
    assert 0 <= slave.dispatch_behind_bytes < 600


def test_a_slave_restart_cuts_to_whole_records(open_store: Open) -> None:
    """store-ha#49."""
    master, slave = busy_master(open_store("master"), 3), open_store("slave", is_slave=True)
    end = master.put(new_message(b"x" * 300)).physical_offset
    slave.append_raw(0, master.read_log(0, end + 200))
    slave.close()
    again = open_store("slave", is_slave=True)
    assert (again.max_commit_log_offset, again.dispatched_offset) == (end, end)


def test_a_truncated_slave_accepts_another_history_from_there(open_store: Open, clock: ManualClock) -> None:
    """For the switch that mends a slave ahead of its master (section 4.9).

    Log, queues and index follow the new history.
    """
    old, new = open_store("old"), open_store("new")
    clock.step = 0  # up to the fork both logs are the same
    for number in range(200):
        for master in (old, new):
            master.put(new_message(b"x" * 300, queue_id=number % 2, keys=f"k{number}"))
    common = old.max_commit_log_offset
    for number in range(200, 300):
        old.put(new_message(b"y" * 500, queue_id=number % 2, keys=f"old{number}"))
        new.put(new_message(b"z" * 400, queue_id=number % 3, keys=f"new{number}"))
    slave = open_store("slave", is_slave=True)
    replicate(old, slave)
    truncate(slave, common)
    assert (slave.max_commit_log_offset, slave.dispatched_offset) == (common, common)
    assert slave.max_queue_offset("orders", 1) == 100
    replicate(new, slave)
    assert everything(slave) == everything(new)
    for queue_id in range(3):
        assert slave.queue_entries("orders", queue_id, 0, 999) == new.queue_entries("orders", queue_id, 0, 999)
    for number in range(200, 300):
        assert slave.query("orders", f"new{number}", 9, 0, 2**62).buffers
    slave.close()
    assert open_store("slave", is_slave=True).max_commit_log_offset == new.max_commit_log_offset


@pytest.mark.parametrize("how", ["clean", "crash"])
def test_truncated_records_are_not_recovered_by_a_restart(open_store: Open, how: str) -> None:
    """The records behind the cut were whole; recovery would find them again."""
    slave = open_store("slave", is_slave=True)
    replicate(busy_master(open_store("master"), 60), slave)
    end = slave.queue_entries("orders", 0, 10, 1)[0][0]
    truncate(slave, end)
    slave.close()
    if how == "crash":
        (slave.config.store_path_root_dir / "abort").touch()
    again = open_store("slave", is_slave=True)
    assert (again.max_commit_log_offset, again.max_queue_offset("orders", 0)) == (end, 10)


def test_a_reset_slave_accepts_a_log_with_another_first_offset(open_store: Open) -> None:
    """For the switch for expired slaves (section 4.8): log, queues, index, counters."""
    master, slave = busy_master(open_store("master")), open_store("slave", is_slave=True)
    replicate(master, slave)
    busy_master(master, 900)
    while master.log.min_offset <= slave.max_commit_log_offset:
        master.log.files.drop_first()
    first = master.log.min_offset
    run_calls(deletion_of_all(slave))
    assert (slave.min_commit_log_offset, slave.max_commit_log_offset) == (0, 0)
    assert list(slave.topics_queues()) == []
    assert slave.query("orders", "k1", 9, 0, 2**62).buffers == []
    slave.append_raw(first, master.read_log(first, 2**20))
    replicate(master, slave)
    assert everything(slave) == everything(master)
    end, entries = slave.max_commit_log_offset, slave.queue_entries("orders", 0, slave.min_queue_offset("orders", 0), 9)
    assert entries == master.queue_entries("orders", 0, slave.min_queue_offset("orders", 0), 9)
    slave.close()
    again = open_store("slave", is_slave=True)
    assert (again.min_commit_log_offset, again.max_commit_log_offset, again.dispatched_offset) == (first, end, end)


@pytest.mark.parametrize("max_index_num", [400, 31])
def test_a_truncation_removes_the_index_entries(open_store: Open, max_index_num: int) -> None:
    """issue 12.13: they pointed to the records that were stored there next.

    Kept records are found, also after a restart.
    """
    old = busy_master(open_store("old"), 60)
    slave = open_store("slave", is_slave=True, max_index_num=max_index_num)
    replicate(old, slave)
    end = slave.queue_entries("orders", 0, 10, 1)[0][0]
    truncate(slave, end)
    assert slave.index is not None
    entries = [
        offset
        for file in slave.index.files
        for _, offset, _, _ in struct.iter_unpack(">iqii", file.file.map[40 + 400 : 440 + 20 * file.index_count])
    ]
    assert entries
    assert max(entries) < end
    assert slave.index.end_physical <= end
    slave.append_raw(end, old.read_log(end, 1000))
    slave.dispatch()
    slave.close()
    again = open_store("slave", is_slave=True, max_index_num=max_index_num)
    for number in range(60):
        found, there = (
            [decode_message(one) for one in store.query("orders", f"k{number}", 9, 0, 2**62).buffers]
            for store in (again, old)
        )
        assert {message.properties["KEYS"] for message in found} <= {f"k{number}"}
        offsets = {message.physical_offset for message in found}
        assert offsets == {one.physical_offset for one in there if one.physical_offset < again.dispatched_offset}


def replicate(master: MessageStore, slave: MessageStore) -> None:
    while slave.max_commit_log_offset < master.max_commit_log_offset:
        slave.append_raw(slave.max_commit_log_offset, master.read_log(slave.max_commit_log_offset, 32768))
    slave.dispatch()
