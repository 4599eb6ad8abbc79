"""Where two logs part: equal, cut, spoilt, diverged, apart.

Of files of other sizes, and of real brokers.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqlab.store.config import StoreConfig
from rmqlab.store.files.disk import StoreError
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.offline.compare import Comparison, LogImage, Verdict, compare_logs
from rmqlab.store.testing import SOME_DAY, ManualClock, new_message, small_config

Open = Callable[..., MessageStore]
FILE = 64 * 1024


def compared(a: Path, b: Path, shown: int = 5) -> Comparison:
    with LogImage.open(a) as ours, LogImage.open(b) as theirs:
        return compare_logs(ours, theirs, shown=shown)


def filled(store: MessageStore, count: int, size: int = 500, first: int = 0) -> list[int]:
    """Offsets of the messages."""
    return [
        store.put(
            new_message(b"%06d" % number + b"x" * size, queue_id=number % 2, unique_key=f"K{number}", keys=f"k{number}")
        ).physical_offset
        for number in range(first, first + count)
    ]


def copied(store: MessageStore, name: str) -> Path:
    root = store.config.store_path_root_dir
    return Path(shutil.copytree(root, root.parent / name))


def spoil(root: Path, offset: int, byte: bytes = b"!") -> None:
    path = root / "commitlog" / f"{offset - offset % FILE:020d}"
    with path.open("r+b") as file:
        file.seek(offset % FILE)
        file.write(byte)


def test_a_copy_is_equal_by_root_and_by_the_log_s_own_directory(open_store: Open) -> None:
    store = open_store()
    filled(store, 300)  # three files
    copy = copied(store, "copy")
    found = compared(store.config.store_path_root_dir, copy / "commitlog")
    assert (found.verdict, found.first_difference) == (Verdict.EQUAL, None)
    assert (found.common_from, found.common_to) == (0, store.max_commit_log_offset)
    assert (found.a.max_offset, found.b.max_offset) == (store.max_commit_log_offset,) * 2
    assert (found.a.differing, found.a.beyond, found.b.beyond) == (None, None, None)
    assert (found.a.file_count, found.b.file_count) == (3, 3)


def test_bytes_beyond_the_end_of_the_other_log_are_named(open_store: Open) -> None:
    store = open_store()
    filled(store, 200)
    copy = copied(store, "copy")
    end = store.max_commit_log_offset
    beyond = filled(store, 70, first=200)
    found = compared(copy, store.config.store_path_root_dir, shown=2)
    assert found.verdict is Verdict.DIFFERENT
    assert found.reason == f"the same bytes up to offset {end}, where one log ends"
    assert found.a.beyond is None
    assert found.b.beyond is not None
    assert (found.b.beyond.offset, found.b.beyond.record_count) == (beyond[0], 70)
    assert [record.message_id for record in found.b.beyond.first] == ["K200", "K201"]


def test_the_first_differing_byte_and_its_message_are_named_on_both_sides(open_store: Open) -> None:
    store = open_store()
    offsets = filled(store, 300)
    copy = copied(store, "copy")
    spoil(copy, offsets[201] + 95)
    found = compared(store.config.store_path_root_dir, copy)
    assert found.first_difference == offsets[201] + 95
    assert found.last_common is not None
    assert found.last_common.message_id == "K200"
    assert found.a.differing is not None
    assert found.b.differing is not None
    record = found.a.differing.first[0]
    assert (record.offset, record.topic, record.queue_id, record.queue_offset) == (offsets[201], "orders", 1, 100)
    assert (record.message_id, record.keys, record.born_millis) == ("K201", "k201", SOME_DAY - 5)
    assert record.offset_message_id.endswith(f"{offsets[201]:016X}")
    assert record.stored_millis >= SOME_DAY
    assert [found.a.differing.first[0].is_intact, found.b.differing.first[0].is_intact] == [True, False]
    assert (found.a.differing.record_count, found.b.differing.record_count) == (1, 1)
    assert found.differing_bytes == 1


def test_each_record_that_differs_is_named_and_no_other(open_store: Open) -> None:
    """Issue 14.6: all that followed the first difference counted, and was named."""
    store = open_store()
    offsets = filled(store, 300)
    copy = copied(store, "copy")
    for number in (7, 130, 299):
        spoil(copy, offsets[number] + 120, b"12345")
    found = compared(store.config.store_path_root_dir, copy)
    assert found.differing_bytes == 15
    for side in (found.a, found.b):
        assert side.differing is not None
        assert [record.message_id for record in side.differing.first] == ["K7", "K130", "K299"]


def test_a_zeroed_record_ends_no_log(open_store: Open) -> None:
    """Issue 14.4: the log behind it counted as missing."""
    store = open_store()
    offsets = filled(store, 30)
    copy = copied(store, "copy")
    spoil(copy, offsets[12], bytes(offsets[13] - offsets[12]))
    found = compared(store.config.store_path_root_dir, copy)
    assert found.a.max_offset == found.b.max_offset
    assert found.first_difference == offsets[12] + 2  # of its size, of which two bytes are zero
    assert found.a.differing is not None
    assert ([record.message_id for record in found.a.differing.first], found.b.differing) == (["K12"], None)
    assert (found.a.beyond, found.b.beyond) == (None, None)


@pytest.mark.parametrize("size", [b"\0\0\3\xff", b"\0\0\x30\0", b"\0\0\0\x60"])
def test_a_record_of_a_false_length_ends_no_log(open_store: Open, size: bytes) -> None:
    """Longer than the record, than all that follows it, and shorter than the record."""
    store = open_store()
    offsets = filled(store, 12, size=60)
    copy = copied(store, "copy")
    spoil(copy, offsets[7], size)
    found = compared(store.config.store_path_root_dir, copy)
    assert (found.a.max_offset, found.b.max_offset) == (store.max_commit_log_offset,) * 2
    assert (found.a.beyond, found.b.beyond) == (None, None)
    assert 0 < found.differing_bytes <= 4


def test_a_torn_tail_is_no_part_of_the_log(open_store: Open) -> None:
    store = open_store()
    offsets = filled(store, 30)
    copy = copied(store, "copy")
    spoil(copy, offsets[-1] + 84, b"\0\0\0\7")  # the length of its body
    found = compared(store.config.store_path_root_dir, copy)
    assert (found.verdict, found.first_difference, found.b.max_offset) == (Verdict.DIFFERENT, None, offsets[-1])
    assert found.a.beyond is not None
    assert found.a.beyond.record_count == 1


def test_a_record_with_lengths_that_contradict_each_other_is_named_by_its_place(open_store: Open) -> None:
    store = open_store()
    offsets = filled(store, 300)  # three files: the end is looked for in the last
    copy = copied(store, "copy")
    spoil(copy, offsets[7] + 84, (2**31 - 1).to_bytes(4, "big"))  # the length of its body
    found = compared(store.config.store_path_root_dir, copy)
    assert found.verdict is Verdict.DIFFERENT
    assert found.b.differing is not None
    record = found.b.differing.first[0]
    assert (record.offset, record.topic, record.is_intact) == (offsets[7], "(unreadable)", False)
    assert found.b.differing.record_count == 1


def test_logs_that_parted_and_grew_differ_from_where_they_did(open_store: Open) -> None:
    master = open_store("master")
    filled(master, 100)
    fork = copied(master, "fork")
    master.close()
    other = open_store("fork")
    filled(other, 50, size=300, first=1000)
    again = open_store("master")
    first = filled(again, 80, size=400, first=2000)[0]
    found = compared(again.config.store_path_root_dir, fork)
    assert found.first_difference is not None
    assert first <= found.first_difference < first + 20
    assert found.last_common is not None
    assert found.last_common.message_id == "K99"
    assert found.a.differing is not None
    assert found.b.differing is not None
    assert found.a.beyond is not None
    assert found.a.beyond.first[0].offset <= found.b.max_offset
    last = found.a.differing.record_count + found.a.beyond.record_count
    assert last in (80, 81)  # one record may lie across the end of the other log
    assert found.b.differing.record_count == 50
    assert [found.a.differing.first[0].message_id, found.b.differing.first[0].message_id] == ["K2000", "K1000"]


def test_a_slave_that_began_later_is_equal_over_what_both_have(open_store: Open) -> None:
    """store-ha#36: an empty slave gets the last file only."""
    master, slave = open_store("master"), open_store("slave", is_slave=True)
    filled(master, 300)
    start = master.max_commit_log_offset // FILE * FILE
    assert slave.append_raw(start, master.read_log(start, FILE))
    slave.dispatch()
    found = compared(master.config.store_path_root_dir, slave.config.store_path_root_dir)
    assert (found.verdict, found.common_from, found.common_to) == (Verdict.EQUAL, start, master.max_commit_log_offset)


def test_logs_without_common_bytes_are_not_comparable(open_store: Open) -> None:
    early, late = open_store("early"), open_store("late")
    filled(early, 10)
    filled(late, 300)
    (late.config.store_path_commit_log / f"{0:020d}").unlink()
    found = compared(early.config.store_path_root_dir, late.config.store_path_root_dir)
    assert found.verdict is Verdict.UNKNOWN
    assert "no byte in common" in found.reason


def test_an_empty_log_ends_before_one_that_is_not(open_store: Open, tmp_path: Path) -> None:
    store, empty = open_store(), open_store("empty")
    assert compared(tmp_path / "store", tmp_path / "empty").verdict is Verdict.EQUAL
    filled(store, 3)
    found = compared(store.config.store_path_root_dir, empty.config.store_path_root_dir)
    assert found.verdict is Verdict.DIFFERENT
    assert found.a.beyond is not None
    assert found.a.beyond.record_count == 3


def test_files_of_other_lengths_are_compared_all_the_same(open_store: Open) -> None:
    """The bytes of one file in two: the reader needs no blank, which brokers write."""
    store = open_store()
    offsets = filled(store, 40)
    halves = store.config.store_path_root_dir.parent / "halves" / "commitlog"
    halves.mkdir(parents=True)
    raw = (store.config.store_path_commit_log / f"{0:020d}").read_bytes()
    cut = offsets[20]
    (halves / f"{0:020d}").write_bytes(raw[:cut])
    (halves / f"{cut:020d}").write_bytes(raw[cut:])
    assert compared(store.config.store_path_root_dir, halves).verdict is Verdict.EQUAL


def test_no_store_and_a_missing_file_are_said(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    filled(store, 300)
    copy = copied(store, "copy")
    (copy / "commitlog" / f"{FILE:020d}").unlink()
    with pytest.raises(StoreError, match=f"between {FILE} and {2 * FILE} a file is missing"):
        compared(store.config.store_path_root_dir, copy)
    with pytest.raises(StoreError, match="is not a store"):
        compared(store.config.store_path_root_dir, tmp_path / "nowhere")


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), flips=st.integers(1, 3))
def test_any_flipped_byte_is_found_where_it_is(seed: int, flips: int, twins: tuple[Path, Path, int, list[int]]) -> None:
    ours, theirs, end, offsets = twins
    at = sorted(random.Random(seed).sample(range(end), flips))
    before = [byte_at(theirs, offset) for offset in at]
    try:
        for offset, byte in zip(at, before, strict=True):
            spoil(theirs, offset, bytes([byte ^ 0xFF]))
        found = compared(ours, theirs)
        if found.b.max_offset > at[0]:
            assert found.first_difference == at[0]
            assert found.differing_bytes == sum(offset < found.b.max_offset for offset in at)
            assert found.a.differing is not None
            assert found.a.differing.offset == max(offset for offset in offsets if offset <= at[0])
        else:  # it spoilt the last record: the log ends before
            assert found.verdict is Verdict.DIFFERENT
            assert at[0] >= offsets[-1] == found.b.max_offset
    finally:
        for offset, byte in zip(at, before, strict=True):
            spoil(theirs, offset, bytes([byte]))


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, int, list[int]]:
    root = tmp_path_factory.mktemp("twins")
    store = MessageStore.open(small_config(root / "ours"), now_millis=ManualClock(step=1))
    offsets = filled(store, 60)
    end = store.max_commit_log_offset
    store.close()
    shutil.copytree(root / "ours", root / "theirs")
    return root / "ours", root / "theirs", end, offsets


def byte_at(root: Path, offset: int) -> int:
    return (root / "commitlog" / f"{offset - offset % FILE:020d}").read_bytes()[offset % FILE]


def test_a_real_master_and_its_slave_are_equal(restore: Callable[[str], StoreConfig], manifest: dict[str, Any]) -> None:
    """store-ha#45."""
    assert manifest["messages"]
    found = compared(restore("master").store_path_root_dir, restore("slave").store_path_root_dir)
    assert found.verdict is Verdict.EQUAL
    assert found.common_to > 0
