"""Slaves get the bytes of new batches from memory: the same as the log has."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from rmqlab.remoting.batch import Batch, BatchItem
from rmqlab.store.files.diskcalls import run_calls
from rmqlab.store.log.recentbytes import MOST, RecentBytes
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import new_message
from rmqlab.store.truncate import deletion_of_all, truncate

Open = Callable[..., MessageStore]


def put_batch(store: MessageStore, body: bytes, count: int = 3) -> int:
    """Return the log offset after the batch."""
    return store.put_batch(new_message(b""), Batch.of([BatchItem(body)] * count)).end_offset


def kept(store: MessageStore, offset: int) -> bytes | None:
    """Return the bytes in memory from an offset on.

    They must be those of the log.
    """
    found = store.putter.recent.read(offset, 2**20, store.max_commit_log_offset)
    assert bytes(store.read_log(offset, 2**20)) == bytes(store.log.read(offset, 2**20))
    return None if found is None else bytes(found)


def test_batches_are_read_from_memory(open_store: Open) -> None:
    store = open_store()
    first = put_batch(store, b"first")
    end = put_batch(store, b"second")
    assert kept(store, 0) == bytes(store.log.read(0, end))
    assert kept(store, first) == bytes(store.log.read(first, end))
    assert kept(store, first - 7) == bytes(store.log.read(first - 7, end))
    assert bytes(store.read_log(first - 7, 20)) == bytes(store.log.read(first - 7, 20))
    assert kept(store, end) is None


def test_a_message_after_a_batch_is_read_from_the_log(open_store: Open) -> None:
    store = open_store()
    at = put_batch(store, b"first")
    store.put(new_message(b"in between"))
    assert kept(store, 0) is None
    assert kept(store, at) is None
    again = store.max_commit_log_offset
    put_batch(store, b"second")
    assert kept(store, at) is None
    assert kept(store, again) == bytes(store.log.read(again, 2**20))


def test_the_bytes_of_two_files_are_not_joined(open_store: Open) -> None:
    store = open_store(mapped_file_size_commit_log=4096)
    ends = [put_batch(store, bytes(400)) for _ in range(20)]
    assert len(store.log.files.files) > 2
    for end in [0, *ends]:
        kept(store, end)


def test_a_file_that_a_batch_fills_to_its_end_is_not_joined_with_the_next() -> None:
    recent = RecentBytes()
    recent.add(0, memoryview(b"abcd"), begins_file=True)
    recent.add(4, memoryview(b"efgh"), begins_file=True)
    assert recent.read(0, 100, 8) is None
    assert bytes(recent.read(4, 100, 8) or b"") == b"efgh"


def test_truncated_bytes_are_forgotten(open_store: Open) -> None:
    """Others of the same size may follow."""
    store = open_store()
    at = put_batch(store, b"first!")
    end = put_batch(store, b"second")
    truncate(store, at)
    assert kept(store, 0) is None
    size = (end - at) // 3
    for number in range(3):
        assert store.put(new_message(b"other%d" % number)).end_offset == at + (number + 1) * size
    assert kept(store, at) is None


def test_a_reset_store_has_no_recent_bytes(open_store: Open) -> None:
    store = open_store()
    put_batch(store, b"first")
    run_calls(deletion_of_all(store))
    assert store.putter.recent.read(0, 100, store.max_commit_log_offset) is None
    put_batch(store, b"other")
    assert kept(store, 0) is not None


@given(st.lists(st.integers(1, MOST + 10), max_size=8), st.integers(0, 2 * MOST), st.integers(0, MOST))
def test_the_number_of_kept_bytes_is_bounded(sizes: list[int], back: int, limit: int) -> None:
    recent, log = RecentBytes(), b""
    for number, size in enumerate(sizes):
        piece = bytes([number + 1]) * size
        recent.add(len(log), memoryview(piece), begins_file=not log)
        log += piece
    found = recent.read(len(log) - back, limit, len(log))
    if back > MOST or not 0 < back <= len(log):
        assert found is None
    elif found is not None:
        assert found == log[len(log) - back :][:limit]
    else:
        assert back > MOST - max(sizes)
