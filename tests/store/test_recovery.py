"""What is kept of a log after a stop: the decisions alone, then whole stores torn anywhere."""

import shutil
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remoting.message import MESSAGE_MAGIC
from store.messagestore import MessageStore
from store.recovery import FirstRecord, first_file_after_clean_stop, first_file_after_crash, log_end, record_size
from store.testing import ManualClock, new_message, small_config

Open = Callable[..., MessageStore]


@pytest.mark.parametrize(("count", "start"), [(1, 0), (2, 0), (3, 0), (4, 1), (9, 6)])
def test_a_clean_stop_is_checked_from_the_third_last_file(count: int, start: int) -> None:
    """store-ha#25."""
    assert first_file_after_clean_stop(count) == start


@pytest.mark.parametrize(
    ("stored", "safe", "start"),
    [
        ([100, 200, 300], 250, 1),
        ([100, 200, 300], 200, 1),
        ([100, 200, 300], 300, 2),
        ([100, 200, 300], 99, 0),
        ([100, 0, 300], 250, 0),
        ([], 99, 0),
    ],
)
def test_after_a_crash_it_is_the_newest_file_that_began_in_safety(stored: list[int], safe: int, start: int) -> None:
    """store-ha#25: a store time of 0 is no message's."""
    assert first_file_after_crash([FirstRecord(MESSAGE_MAGIC, at) for at in stored], safe) == start
    assert first_file_after_crash([FirstRecord(0, at) for at in stored], safe) == 0


# ---- torn stores ----


class Torn:
    """A store that ran, as bytes: what a crash leaves. Messages differ in every length."""

    def __init__(self, root: Path) -> None:
        self.root = root
        store = MessageStore.open(small_config(root / "live"), now_millis=ManualClock(step=1))
        self.records = list[tuple[int, int, int]]()  # start, start of the properties text, end
        for number in range(60):
            message = new_message(b"b" * (number * 7 % 50), queue_id=number % 2, keys=f"k{number}" * (1 + number % 3))
            result = store.put(message)
            start, end = result.physical_offset, result.end_offset
            self.records.append((start, end - len(message.properties), end))
        shutil.copytree(root / "live", root / "crashed")
        store.close()

    def reopened(self, root: Path, cut: int, filler: int) -> MessageStore:
        shutil.copytree(self.root / "crashed", root)
        log = root / "commitlog" / f"{0:020d}"
        with log.open("r+b") as file:
            file.seek(cut)
            file.write(bytes([filler]) * (self.records[-1][2] - cut))
        return MessageStore.open(small_config(root), now_millis=ManualClock(2_000_000_000_000))


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Torn:
    return Torn(tmp_path_factory.mktemp("torn"))


@settings(max_examples=60)
@given(data=st.data(), filler=st.sampled_from([0, 0xFF]))
def test_a_tail_torn_at_any_byte_is_cut_at_the_last_whole_record(torn: Torn, data: st.DataObject, filler: int) -> None:
    """store-ha#26. The CRC covers the body alone, as in RocketMQ: a record torn in its properties text passes."""
    cut = data.draw(st.integers(0, torn.records[-1][2]))
    kept = sum(cut >= properties for _, properties, _ in torn.records)
    end = torn.records[kept - 1][2] if kept else 0
    with tempfile.TemporaryDirectory() as directory:
        store = torn.reopened(Path(directory) / "store", cut, filler)
        assert store.max_commit_log_offset == end
        assert [store.max_queue_offset("orders", queue_id) for queue_id in (0, 1)] == [(kept + 1) // 2, kept // 2]
        assert store.dispatch_behind_bytes == 0
        result = store.put(new_message(queue_id=0))
        assert (result.physical_offset, result.queue_offset) == (end, (kept + 1) // 2)
        assert store.get_message("orders", 0, result.queue_offset, 1).count == 1
        store.close()


@given(st.binary(min_size=88, max_size=200))
def test_no_bytes_are_taken_for_a_record_that_reaches_beyond_them(raw: bytes) -> None:
    size = record_size(memoryview(struct.pack(">ii", len(raw), MESSAGE_MAGIC) + raw[8:]), 0, check_crc=False)
    assert size in (0, len(raw))


def test_a_blank_counts_only_if_a_file_follows(open_store: Open) -> None:
    """Section 3.5, end."""
    store = open_store()
    size = store.config.mapped_file_size_commit_log
    first = store.put(new_message(b"x" * 40_000))
    store.put(new_message(b"x" * 40_000))
    views = [file.view for file in store.log.files.files]
    assert log_end(views, [0, size], 0, check_crc=True) == store.max_commit_log_offset
    assert log_end(views[:1], [0], 0, check_crc=True) == first.end_offset


# ---- whole stores ----


def test_a_clean_restart_finds_everything_and_counters_go_on(open_store: Open) -> None:
    store = open_store()
    for number in range(500):
        store.put(new_message(b"x" * 300, queue_id=number % 3, keys=f"k{number}"))
    end = store.max_commit_log_offset
    store.close()
    again = open_store()
    assert (again.max_commit_log_offset, again.dispatched_offset, again.flushed_offset) == (end, end, end)
    assert [again.max_queue_offset("orders", queue_id) for queue_id in range(3)] == [167, 167, 166]
    assert again.put(new_message(queue_id=2)).queue_offset == 166
    assert all(again.query("orders", f"k{number}", 9, 0, 2**62).buffers for number in range(500))


def test_lost_queues_are_built_again_from_the_log(open_store: Open) -> None:
    store = open_store()
    for number in range(300):
        store.put(new_message(b"x" * 300, queue_id=number % 3))
    before = {path.name: path.read_bytes() for path in store.queues.directory.rglob("0*") if path.is_file()}
    store.close()
    shutil.rmtree(store.queues.directory)
    again = open_store()
    assert [again.max_queue_offset("orders", queue_id) for queue_id in range(3)] == [100, 100, 100]
    assert {path.name: path.read_bytes() for path in again.queues.directory.rglob("0*") if path.is_file()} == before


def test_without_a_log_the_queues_go_too(open_store: Open) -> None:
    """Section 3.5, step 7."""
    store = open_store()
    store.put(new_message())
    store.close()
    shutil.rmtree(store.config.store_path_commit_log)
    again = open_store()
    assert list(again.topics_queues()) == []
    assert not any(again.queues.directory.iterdir())


def test_after_a_crash_the_young_index_is_dropped_and_the_walked_messages_indexed_again(
    open_store: Open, tmp_path: Path
) -> None:
    """store-ha#27."""
    store = open_store()
    for number in range(400):  # more than one index file, all in the two last commit log files
        store.put(new_message(b"x" * 100, keys=f"k{number}"))
    shutil.copytree(tmp_path / "store", tmp_path / "crashed")
    names = {path.name for path in (tmp_path / "store" / "index").iterdir()}
    assert len(names) == 2
    again = open_store("crashed")
    assert not names & {path.name for path in (tmp_path / "crashed" / "index").iterdir()}
    assert all(again.query("orders", f"k{number}", 9, 0, 2**62).buffers for number in range(400))


def test_an_all_zero_file_after_the_last_is_normal(open_store: Open) -> None:
    """Section 1.1: RocketMQ makes the next commit log file ahead."""
    store = open_store()
    end = store.put(new_message()).end_offset
    store.close()
    spare = store.config.store_path_commit_log / f"{64 * 1024:020d}"
    spare.write_bytes(bytes(64 * 1024))
    assert open_store().max_commit_log_offset == end
    assert not spare.exists()
