"""Recovery of a log after a stop: the decisions, and stores torn at any place."""

import shutil
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqlab.remoting.message import BLANK_MAGIC, MESSAGE_MAGIC
from rmqlab.store.files import fileimage
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.log.recovery import (
    FirstRecord,
    LogWalk,
    Walk,
    first_file_after_clean_stop,
    first_file_after_crash,
    first_missing,
    log_end,
    record_size,
    walk_records,
)
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.queue.consumequeue import ConsumeQueue
from rmqlab.store.queue.queues import EnteredOffsets
from rmqlab.store.testing import ManualClock, new_message, small_config
from tests.store.forgetfuldisk import ForgetfulDisk
from tests.store.sweepworkload import kill

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


class Careless(Disk):
    """Does not sync: hundreds of stores are closed here, and never read again."""

    def sync(self, descriptor: int) -> None:
        """Nothing."""


class Torn:
    """A store that ran, as bytes: what a crash leaves.

    Messages differ in every length.
    """

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
        return MessageStore.open(small_config(root), now_millis=ManualClock(2_000_000_000_000), disk=Careless())


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Torn:
    return Torn(tmp_path_factory.mktemp("torn"))


@settings(max_examples=60)
@given(data=st.data(), filler=st.sampled_from([0, 0xFF]))
def test_a_tail_torn_at_any_byte_is_cut_at_the_last_whole_record(torn: Torn, data: st.DataObject, filler: int) -> None:
    """store-ha#26.

    The CRC covers the body alone, as in RocketMQ: a record torn in its properties text passes.
    """
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


@pytest.mark.parametrize("filler", [0, 0xFF])
def test_the_last_record_torn_at_each_of_its_bytes_is_gone_from_log_queues_and_index(
    torn: Torn, tmp_path: Path, filler: int
) -> None:
    """store-ha#26: at every byte of the last two messages.

    See above for the properties text.
    """
    starts = [start for start, _, _ in torn.records]
    for cut in range(starts[-2], torn.records[-1][2] + 1):
        kept = sum(cut >= properties for _, properties, _ in torn.records)
        store = torn.reopened(tmp_path / f"{cut}", cut, filler)
        assert store.max_commit_log_offset == torn.records[kept - 1][2]
        assert sum(store.max_queue_offset("orders", queue_id) for queue_id in (0, 1)) == kept
        untouched = sum(cut >= end for _, _, end in torn.records)
        for number in (untouched - 1, kept):  # the last message that is all there, the first that is not
            found = store.query("orders", f"k{number}" * (1 + number % 3), 9, 0, 2**62).buffers
            assert len(found) == (number < kept)
        assert store.put(new_message(queue_id=1)).queue_offset == kept // 2
        store.close()
        shutil.rmtree(tmp_path / f"{cut}")


@given(
    at=st.integers(0, 2**16),
    bit=st.integers(0, 7),
    check_crc=st.booleans(),
    window=st.integers(1, 3000),
    step=st.integers(1, 5000),
)
def test_the_fast_walk_judges_as_the_plain_one(
    torn: Torn,
    at: int,
    bit: int,
    check_crc: bool,  # noqa: FBT001
    window: int,
    step: int,
) -> None:
    """Any bit turned over, any windows, read in any pieces."""
    raw = bytearray((torn.root / "crashed" / "commitlog" / f"{0:020d}").read_bytes()[: torn.records[-1][2] + 200])
    raw[at % len(raw)] ^= 1 << bit
    view, plain = memoryview(bytes(raw)), 0
    starts = []
    while size := record_size(view, plain, check_crc=check_crc):
        if not view[plain + 39] & 0x4:
            starts.append(plain)
        plain += size
    path = torn.root / "0"
    path.write_bytes(raw)
    walk = LogWalk([LogFile.open(path, len(raw), Disk(), create=False)], 0, check_crc)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fileimage, "_STEP", step)
        found = list(walk.windows(window))
    assert walk.end == plain
    assert [start for _, _, window_starts in found for start in window_starts] == starts
    assert [low for low, _, _ in found[1:]] == [high for _, high, _ in found[:-1]]
    assert walk.last_record == (starts[-1] if starts else -1)


@pytest.mark.parametrize(
    ("wanted", "there", "missing"),
    [([], [], None), ([1, 5], [1, 5], None), ([1, 5, 9], [1, 9], 5), ([1, 5], [1, 2, 5], None), ([7], [], 7)],
)
def test_the_first_missing_entry_is_where_the_queues_are_filled_from(
    wanted: list[int], there: list[int], missing: int | None
) -> None:
    assert first_missing(wanted, there) == missing


def test_entries_that_queues_have_are_not_entered_again_after_a_kill(torn: Torn, tmp_path: Path) -> None:
    """Section 3.5: they would skip it.

    The index is made anew, and the last store time is known again.
    """
    store = torn.reopened(tmp_path / "again", torn.records[-1][2], 0)
    assert store.dispatcher.entries.count == 0
    assert store.query("orders", "k3", 9, 0, 2**62).buffers
    assert store.dispatcher.last_stored_at == store.log.stored_at(torn.records[-1][0])
    store.close()


def test_recovery_reports_its_progress(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    for _ in range(300):
        store.put(new_message(b"x" * 300))
    shutil.copytree(tmp_path / "store", tmp_path / "crashed")
    shutil.rmtree(tmp_path / "crashed" / "consumequeue")
    progress: list[int] = []
    config = small_config(tmp_path / "crashed")
    MessageStore.open(config, now_millis=ManualClock(), on_progress=progress.append).close()
    end = store.max_commit_log_offset
    assert progress.count(end) == 2  # looked through, then entered in the queues
    assert progress[-1] == end


def test_one_queue_that_lost_its_end_is_filled_from_there(torn: Torn, tmp_path: Path) -> None:
    shutil.copytree(torn.root / "crashed", tmp_path / "store")
    path = tmp_path / "store" / "consumequeue" / "orders" / "1" / f"{0:020d}"
    with path.open("r+b") as file:
        file.seek(20 * 20)
        file.write(bytes(10 * 20))
    store = MessageStore.open(small_config(tmp_path / "store"), now_millis=ManualClock())
    assert store.dispatcher.entries.count == 10
    entries = [entry[0] for entry in store.queue_entries("orders", 1, 0, 30)]
    assert entries == [start for start, _, _ in torn.records[1::2]]
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
    files = store.log.files.files
    assert [file.first_offset for file in files] == [0, size]
    assert log_end(files, 0, check_crc=True) == store.max_commit_log_offset
    assert log_end(files[:1], 0, check_crc=True) == first.end_offset


# ---- whole stores ----


def test_a_clean_restart_finds_all_messages_and_continues_counters(open_store: Open) -> None:
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


def test_queue_entries_behind_a_power_loss_gap_are_never_restored(open_store: Open, tmp_path: Path) -> None:
    """After a clean stop a queue's end is bisected, so no entries may follow it."""
    store = open_store()
    for _ in range(40):
        store.put(new_message())
    shutil.copytree(tmp_path / "store", tmp_path / "dead")
    path = tmp_path / "dead" / "consumequeue" / "orders" / "0" / f"{0:020d}"
    with path.open("r+b") as file:  # entries 5 to 29 never reached the disk, nor the log from record 10 on
        file.seek(5 * 20)
        file.write(bytes(25 * 20))
    log_end = store.queue_entries("orders", 0, 10, 1)[0][0]
    with (tmp_path / "dead" / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(log_end)
        file.write(bytes(store.max_commit_log_offset - log_end))
    after = open_store("dead")
    assert after.max_queue_offset("orders", 0) == 10
    after.close()
    assert open_store("dead").max_queue_offset("orders", 0) == 10
    assert not any(path.read_bytes()[10 * 20 :])


def test_the_parts_of_a_log_are_compared_with_the_queues_that_have_entries_there(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each queue is opened for its own parts, not for every part (issue 12.12)."""
    store = open_store()
    offsets = [store.put(new_message(topic=f"T{number // 10}")).physical_offset for number in range(200)]
    asked: list[str] = []
    look = ConsumeQueue.offsets_between

    def counted(queue: ConsumeQueue, low: int, high: int) -> list[int]:
        asked.append(queue.topic)
        return look(queue, low, high)

    monkeypatch.setattr(ConsumeQueue, "offsets_between", counted)
    entered, found, end = EnteredOffsets(store.queues, 0), list[int](), store.max_commit_log_offset
    for low in range(0, end, end // 40 + 1):
        found += entered.between(low, min(end, low + end // 40 + 1))
    assert found == offsets
    assert len(asked) < 5 * 20


@pytest.mark.parametrize(("size", "walk"), [(64, Walk.BLANK), (63, Walk.END), (65, Walk.END), (-1, Walk.END)])
def test_a_blank_must_fill_its_file_exactly(size: int, walk: Walk) -> None:
    """store-ha#26."""
    view = memoryview(struct.pack(">ii", size, BLANK_MAGIC).ljust(64, b"\0"))
    assert walk_records(view, check_crc=True) == (0, walk)


def test_a_record_may_end_with_its_file(tmp_path: Path) -> None:
    store = MessageStore.open(small_config(tmp_path), now_millis=ManualClock())
    size = store.put(new_message()).end_offset
    record = memoryview(bytes(store.read_log(0, size)))
    assert record_size(record, 0, check_crc=True) == size
    assert record_size(record[:-1], 0, check_crc=True) == 0
    store.close()


def test_the_last_entry_that_a_power_loss_leaves_has_its_tags_code(tmp_path: Path) -> None:
    """The second page of it is lost.

    Consumers that filter by tags would not get the message.
    """
    config, disk = small_config(tmp_path, mapped_file_size_consume_queue=400 * 20), ForgetfulDisk(root=tmp_path)
    store = MessageStore.open(config, now_millis=ManualClock(step=1), disk=disk)
    for _ in range(300):
        store.put(new_message(tags="A"))
    job = store.flush_job()
    assert job is not None
    job.run()
    kill(store)
    disk.lose_power(lambda page: page > 0, keeps_names=True)
    store = MessageStore.open(config, now_millis=ManualClock(step=1))
    assert [code for _, _, code in store.queue_entries("orders", 0, 0, 400)] == [ord("A")] * 300
    store.close()
