"""What log files state of themselves, and what follows the last record."""

import os
from pathlib import Path

import pytest

from rmqlab.remoting.message import BLANK_SIZE
from rmqlab.store.log.logheads import StrayBytes, lost_tail, read_heads, stray_tail
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import SOME_DAY, ManualClock, new_message, small_config

FILE = 4096


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    """A store of two log files, the first with an unused end."""
    store = MessageStore.open(
        small_config(tmp_path / "store", mapped_file_size_commit_log=FILE), now_millis=ManualClock()
    )
    while store.max_commit_log_offset < FILE + 1000:
        store.put(new_message(body=bytes(700)))
    store.close()
    return store


@pytest.fixture
def end(store: MessageStore) -> int:
    return store.max_commit_log_offset


@pytest.fixture
def root(store: MessageStore) -> Path:
    return store.config.store_path_root_dir


def record_size(root: Path) -> int:
    """Return the size of each record: all messages are equal."""
    return int.from_bytes((root / "commitlog" / f"{0:020d}").read_bytes()[:4], "big")


def last_begin(root: Path, end: int) -> int:
    """Return where the last record begins."""
    return end - record_size(root)


def zero(root: Path, start: int, until: int) -> None:
    with (root / "commitlog" / f"{FILE:020d}").open("r+b") as file:
        file.seek(start - FILE)
        file.write(bytes(until - start))


def test_each_file_begins_with_a_record(root: Path) -> None:
    heads = list(read_heads(root))
    assert [(one.begin, one.stated, one.host, one.stored_at) for one in heads] == [
        (0, 0, "127.0.0.1:10911", SOME_DAY),
        (FILE, FILE, "127.0.0.1:10911", SOME_DAY),
    ]
    assert [one.file for one in heads] == [f"store/commitlog/{0:020d}", f"store/commitlog/{FILE:020d}"]


def test_a_file_without_a_record_states_nothing(root: Path) -> None:
    (root / "commitlog" / f"{FILE:020d}").write_bytes(b"")
    (root / "commitlog" / f"{0:020d}").write_bytes(b"x" * FILE)
    assert list(read_heads(root)) == []


def test_a_whole_log_has_lost_nothing(root: Path, end: int) -> None:
    assert lost_tail(root, end, end) is None


def test_a_zeroed_end_is_lost(root: Path, end: int) -> None:
    begin = last_begin(root, end)
    zero(root, begin, end)
    assert lost_tail(root, begin, end) == (begin, end)


def test_a_slave_s_log_may_end_within_a_record(root: Path, end: int) -> None:
    begin = last_begin(root, end)
    zero(root, begin + 50, end)
    assert lost_tail(root, begin, begin + 50) is None
    assert lost_tail(root, begin, begin + 5) is None
    assert lost_tail(root, begin, end) == (begin, end)


def test_the_unused_end_of_a_file_is_not_lost(root: Path) -> None:
    size = record_size(root)
    records_end = (FILE - BLANK_SIZE) // size * size
    assert lost_tail(root, records_end, FILE) is None
    zero(root, FILE, FILE + 500)
    assert lost_tail(root, records_end, FILE + 500) == (FILE, FILE + 500)


def write(root: Path, at: int, data: bytes, file: int = FILE) -> None:
    with (root / "commitlog" / f"{file:020d}").open("r+b") as opened:
        opened.seek(at - file)
        opened.write(data)


def test_nothing_is_behind_a_whole_log(root: Path, end: int) -> None:
    assert stray_tail(root, end) is None
    assert stray_tail(root, 0) is None, "records that the broker wrote by then"


@pytest.mark.parametrize("away", [0, 100])
def test_bytes_behind_the_last_record_are_stray(root: Path, end: int, away: int) -> None:
    write(root, end + away, b"\xa5\x5a" * 50)
    name, begin = f"store/commitlog/{FILE:020d}", end + away
    assert stray_tail(root, end) == StrayBytes(name, at=begin - FILE, begin=begin, end=begin + 100)


def test_a_pipe_in_the_place_of_the_next_file_is_not_opened(root: Path, end: int) -> None:
    os.mkfifo(root / "commitlog" / f"{2 * FILE:020d}")
    assert stray_tail(root, end) is None


def test_bytes_in_a_file_that_is_not_in_use_yet_are_stray(root: Path, end: int) -> None:
    (root / "commitlog" / f"{2 * FILE:020d}").write_bytes(bytes(FILE))
    assert stray_tail(root, end) is None
    write(root, 2 * FILE + 70, b"x", 2 * FILE)
    assert stray_tail(root, end) == StrayBytes(f"store/commitlog/{2 * FILE:020d}", 70, 2 * FILE + 70, 2 * FILE + 71)


@pytest.mark.parametrize("kept", [3, 8, 50, 300])
def test_the_begin_of_a_record_is_not_stray(root: Path, end: int, kept: int) -> None:
    begin = last_begin(root, end)
    zero(root, begin + kept, end)
    assert stray_tail(root, begin) is None


def test_bytes_behind_the_begin_of_a_record_are_stray(root: Path, end: int) -> None:
    begin = last_begin(root, end)
    zero(root, begin + 50, end)
    write(root, end + 20, b"x")
    stray = stray_tail(root, begin)
    assert stray is not None
    assert (stray.begin, stray.end) == (end + 20, end + 21)


def test_the_rest_of_a_file_that_is_declared_empty_may_have_any_bytes(root: Path) -> None:
    write(root, FILE - 1, b"x", 0)
    assert stray_tail(root, 0) is None
