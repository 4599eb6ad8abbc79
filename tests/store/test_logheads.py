"""What log files state of themselves, and what follows the last record."""

from pathlib import Path

import pytest

from rmqlab.remoting.message import BLANK_SIZE
from rmqlab.store.logheads import lost_tail, read_heads
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
