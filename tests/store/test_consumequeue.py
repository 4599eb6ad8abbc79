"""One queue's entries: order, repeats, gaps, restarts, truncation (section 3.2)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.store.files.disk import Disk
from rmqlab.store.files.diskcalls import run_calls
from rmqlab.store.files.filequeue import FileQueue
from rmqlab.store.queue.consumequeue import ENTRY, ConsumeQueue
from rmqlab.store.queue.queueend import valid_count

NOWHERE = (0, 0x7FFFFFFF, 0)


def open_queue(path: Path) -> ConsumeQueue:
    queue = ConsumeQueue("orders", 0, FileQueue(path, 50 * 20, Disk()))
    queue.files.load()
    queue.recover(lambda: None, complete_to=0)
    return queue


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[ConsumeQueue]:
    queue = open_queue(tmp_path)
    yield queue
    queue.files.close()


def fill(queue: ConsumeQueue, count: int) -> None:
    for number in range(queue.max_offset, queue.max_offset + count):
        queue.append(number, number * 100, 100, number)


def test_entries_lie_at_20_bytes_each_over_files(queue: ConsumeQueue) -> None:
    """Sections 3.1, 3.2."""
    fill(queue, 120)
    assert (queue.min_offset, queue.max_offset, queue.max_physical) == (0, 120, 12_000)
    assert [file.path.name for file in queue.files.files] == [f"{at:020d}" for at in (0, 1000, 2000)]
    assert [queue.entry(n) for n in (0, 49, 50, 119)] == [(n * 100, 100, n) for n in (0, 49, 50, 119)]
    assert [queue.entry(n) for n in (-1, 120)] == [None, None]
    assert len(queue.entries(30, 10_000)) == 20 * 20


def test_the_entries_of_a_part_of_the_log_are_found_in_any_file(queue: ConsumeQueue) -> None:
    fill(queue, 120)
    for low, high in [(0, 12_000), (0, 0), (100, 101), (101, 200), (4_900, 5_001), (2_450, 10_050), (11_900, 99_999)]:
        assert queue.offsets_between(low, high) == [at for at in range(0, 12_000, 100) if low <= at < high]


def test_entries_that_point_nowhere_are_in_no_part_of_the_log(queue: ConsumeQueue) -> None:
    queue.append(7, 70_000, 100, 1)
    assert queue.offsets_between(0, 99_999) == [70_000]


@given(
    entries=st.lists(
        st.sampled_from([(5, 7, 0), (0, 1, -1), NOWHERE, (2**40, 9, 9), (-1, 7, 0), (5, 0, 0), (5, -7, 0)])
    )
)
def test_a_queue_ends_before_its_first_invalid_entry(entries: list[tuple[int, int, int]]) -> None:
    """Section 3.5, step 2: offset >= 0, size > 0. Offsets only rise, too."""
    raw = b"".join(ENTRY.pack(*entry) for entry in entries)
    before = zip(entries, [(0, 0, 0), *entries], strict=False)
    wanted = next(
        (i for i, ((offset, size, _), last) in enumerate(before) if offset < last[0] or size <= 0), len(entries)
    )
    assert valid_count(memoryview(raw)) == wanted


def test_existing_entries_are_skipped(queue: ConsumeQueue) -> None:
    """By the record's end, and by the entry's number."""
    fill(queue, 10)
    queue.append(9, 900, 100, 77)
    queue.append(5, 5000, 100, 77)
    assert (queue.max_offset, queue.entry(9)) == (10, (900, 100, 9))


@pytest.mark.parametrize("offset", [-1, -(2**31), 2**58, 2**63 - 1])
def test_an_entry_without_a_place_is_skipped(queue: ConsumeQueue, offset: int) -> None:
    """A hostile master, or a client of DLedger, chooses it."""
    assert not queue.append(offset, 0, 100, 1)
    assert not queue.files.files
    fill(queue, 1)
    assert not queue.append(offset, 100, 100, 1)
    assert queue.max_offset == 1


def test_of_joined_entries_those_without_a_place_are_skipped(queue: ConsumeQueue) -> None:
    queue.append_joined(-2, b"".join(ENTRY.pack(number * 100, 100, 0) for number in range(5)))
    assert [queue.entry(number) for number in range(4)] == [(200, 100, 0), (300, 100, 0), (400, 100, 0), None]


def test_an_entry_after_a_gap_is_appended_at_the_end(queue: ConsumeQueue) -> None:
    fill(queue, 10)
    queue.append(20, 2000, 100, 20)
    assert (queue.max_offset, queue.entry(10)) == (11, (2000, 100, 20))


@pytest.mark.parametrize(("first", "file", "blanks"), [(0, 0, 0), (7, 0, 7), (49, 0, 49), (50, 50, 0), (51, 50, 1)])
def test_a_queue_that_begins_late_is_blank_before(
    queue: ConsumeQueue, tmp_path: Path, first: int, file: int, blanks: int
) -> None:
    """store-ha#21.

    A restart with a log that begins at its first record finds the same minimum.
    """
    queue.append(first, 70_000, 100, 1)
    queue.append(first + 1, 70_100, 100, 2)
    assert (queue.min_offset, queue.max_offset) == (first, first + 2)
    again = open_queue(tmp_path)
    again.correct_min_offset(70_000)
    assert (again.min_offset, again.max_offset, again.max_physical) == (first, first + 2, 70_200)
    again.min_position = 0
    assert again.files.min_offset == file * 20
    assert [again.entry(file + n) for n in range(blanks)] == [NOWHERE] * blanks
    again.files.close()


@pytest.mark.parametrize("log_end", [0, 1, 100, 101, 4999, 5000, 5001, 11_950, 12_000, 99_999])
def test_a_shorter_log_cuts_the_queue_for_good(queue: ConsumeQueue, tmp_path: Path, log_end: int) -> None:
    """store-ha#26: cut entries do not return at a restart."""
    fill(queue, 120)
    queue.trim_to_log(log_end)
    kept = min(120, -(-log_end // 100))
    again = open_queue(tmp_path)
    for one in (queue, again):
        assert (one.max_offset, one.max_physical) == (kept, kept * 100 if kept else -1)
    fill(again, 60)
    assert again.max_offset == kept + 60
    again.files.close()


def test_a_file_whose_entries_are_all_cut_is_deleted(queue: ConsumeQueue, tmp_path: Path) -> None:
    """The full file before it is the last one then, and never expires.

    Class ConsumeQueue.truncateDirtyLogicFiles.
    """
    fill(queue, 60)
    queue.trim_to_log(5000)
    assert [file.name for file in tmp_path.iterdir()] == ["0" * 20]
    assert run_calls(queue.deletion_of_expired(99_999)) == 0
    assert queue.entry(49) == (4900, 100, 49)
    fill(queue, 10)
    assert [(file.first_offset, file.wrote) for file in queue.files.files] == [(0, 1000), (1000, 200)]


def test_only_files_wholly_below_the_logs_minimum_are_dropped(queue: ConsumeQueue) -> None:
    """Section 3.7."""
    fill(queue, 120)
    assert run_calls(queue.deletion_of_expired(4900)) == 0
    assert queue.min_offset == 49
    assert run_calls(queue.deletion_of_expired(4901)) == 1
    assert queue.min_offset == 50
    assert run_calls(queue.deletion_of_expired(99_999)) == 1
    assert (queue.min_offset, queue.max_offset, len(queue.files.files)) == (50, 120, 1)
