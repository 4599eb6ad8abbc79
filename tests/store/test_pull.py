"""Pulls: choice and number of messages, next offset (sections 6.1 to 6.3)."""

from collections.abc import Callable

import pytest

from rmqlab.remoting.message import decode_messages
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import GetStatus
from rmqlab.store.testing import new_message

Open = Callable[..., MessageStore]


def filled(store: MessageStore, count: int, size: int = 100, topic: str = "orders", queue_id: int = 0) -> MessageStore:
    for number in range(count):
        store.put(new_message(b"x" * (size - 97), topic, queue_id, tags="" if size < 120 else f"T{number % 4}"))
    return store


@pytest.mark.parametrize(
    ("asked", "status", "on_master", "on_slave"),
    [
        (-1, GetStatus.OFFSET_TOO_SMALL, 3, -1),
        (2, GetStatus.OFFSET_TOO_SMALL, 3, 2),
        (3, GetStatus.FOUND, 5, 5),
        (5, GetStatus.OFFSET_OVERFLOW_ONE, 5, 5),
        (6, GetStatus.OFFSET_OVERFLOW_BADLY, 5, 6),
    ],
)
@pytest.mark.parametrize("is_slave", [False, True])
def test_an_offset_outside_the_queue_is_corrected_on_the_master_only(
    open_store: Open,
    asked: int,
    status: GetStatus,
    on_master: int,
    on_slave: int,
    is_slave: bool,  # noqa: FBT001
) -> None:
    """store-ha#65: table 6.3; the queue holds 3 and 4."""
    writer = filled(open_store("writer"), 5)
    store = open_store("asked", is_slave=is_slave)
    size = writer.max_commit_log_offset // 5
    skipped = writer.log.slice(3 * size, 2 * size)
    assert skipped is not None
    store.append_raw(0, skipped)  # a log that begins with the fourth message of its queue
    store.dispatch()
    assert (store.min_queue_offset("orders", 0), store.max_queue_offset("orders", 0)) == (3, 5)
    got = store.get_message("orders", 0, asked, 32)
    if status is GetStatus.FOUND:  # its entries point beyond this log
        assert got.status in (GetStatus.FOUND, GetStatus.MESSAGE_WAS_REMOVING)
    else:
        assert got.status is status
    assert got.next_begin_offset == (on_slave if is_slave else on_master)
    assert (got.min_offset, got.max_offset) == (3, 5)


@pytest.mark.parametrize(("asked", "on_slave"), [(0, 0), (7, 7)])
def test_an_empty_queue_says_so(open_store: Open, asked: int, on_slave: int) -> None:
    """store-ha#65."""
    for is_slave in (False, True):
        got = open_store(f"slave-{is_slave}", is_slave=is_slave).get_message("orders", 0, asked, 32)
        assert got.status is GetStatus.NO_MESSAGE_IN_QUEUE
        assert got.next_begin_offset == (on_slave if is_slave else 0)


def test_neighbours_in_the_log_are_returned_as_one_buffer(open_store: Open) -> None:
    store = filled(open_store(), 5)
    filled(store, 1, queue_id=1)
    filled(store, 5)
    got = store.get_message("orders", 0, 0, 32)
    assert (got.status, got.count, got.size, got.next_begin_offset) == (GetStatus.FOUND, 10, 1000, 10)
    assert [len(buffer) for buffer in got.buffers] == [500, 500]
    bodies = [message.queue_offset for buffer in got.buffers for message in decode_messages(buffer)]
    assert bodies == list(range(10))


def test_buffers_end_with_their_file(open_store: Open) -> None:
    store = filled(open_store(), 80, 1000)
    got = store.get_message("orders", 0, 60, 32)
    assert [len(list(decode_messages(buffer))) for buffer in got.buffers] == [5, 15]


@pytest.mark.parametrize(
    ("size", "memory", "asked", "count"),
    [
        (200, 10**9, 7, 7),
        (200, 10**9, 99, 32),  # messages of one answer, in memory
        (10_000, 10**9, 99, 26),  # 256 KiB of one answer, in memory
        (200, 0, 99, 8),  # messages of one answer, far behind
        (10_000, 0, 99, 6),  # 64 KiB of one answer, far behind
        (10_000, 0, 1, 1),
    ],
)
def test_an_answer_has_limits(open_store: Open, size: int, memory: int, asked: int, count: int) -> None:
    """Section 6.1; broker-requests 2.4."""
    store = filled(open_store(mapped_file_size_commit_log=2**20, total_memory=memory), 60, size)
    got = store.get_message("orders", 0, 0, asked)
    assert (got.count, got.next_begin_offset) == (count, count)


def test_the_first_message_ignores_all_limits(open_store: Open) -> None:
    store = filled(open_store(mapped_file_size_commit_log=2**20), 2, 400_000)
    assert store.get_message("orders", 0, 0, 32).size == pytest.approx(400_000, abs=100)


def test_800_entries_are_examined_at_most(open_store: Open) -> None:
    """Section 6.1: a sparse filter returns no match and a later offset."""
    store = filled(open_store(mapped_file_size_consume_queue=20_000), 900)
    got = store.get_message("orders", 0, 0, 32, lambda _: False)
    assert (got.status, got.next_begin_offset, got.count) == (GetStatus.NO_MATCHED_MESSAGE, 800, 0)
    assert store.get_message("orders", 0, 0, 850, lambda _: False).next_begin_offset == 850
    assert store.get_message("orders", 0, 800, 32, lambda _: False).next_begin_offset == 900


def test_a_pull_for_2_31_messages_examines_some_entries_only(open_store: Open) -> None:
    store = filled(open_store(mapped_file_size_consume_queue=20_000), 900)
    assert store.get_message("orders", 0, 0, 2**31 - 1, lambda _: False).next_begin_offset == 900
    got = store.get_message("orders", 0, 0, 2**31 - 1, lambda _: False, max_examined=7)
    assert (got.status, got.next_begin_offset) == (GetStatus.NO_MATCHED_MESSAGE, 7)
    assert store.get_message("orders", 0, 0, 32, max_examined=7).count == 7


def test_only_matching_messages_are_given_and_all_examined_are_passed(open_store: Open) -> None:
    store = filled(open_store(), 12, 200)
    codes = [entry[2] for entry in store.queue_entries("orders", 0, 0, 2)]
    got = store.get_message("orders", 0, 0, 32, set(codes).__contains__)
    offsets = [message.queue_offset for buffer in got.buffers for message in decode_messages(buffer)]
    assert offsets == [0, 1, 4, 5, 8, 9]
    assert got.next_begin_offset == 12
    assert [len(list(decode_messages(buffer))) for buffer in got.buffers] == [2, 2, 2]


def test_a_property_filter_sees_the_stored_properties(open_store: Open) -> None:
    store = open_store()
    for number in range(10):
        store.put(new_message(properties={"n": str(number)}))
    got = store.get_message("orders", 0, 0, 32, property_filter=lambda properties: int(properties["n"]) % 5 < 2)
    offsets = [message.queue_offset for buffer in got.buffers for message in decode_messages(buffer)]
    assert (offsets, got.count, got.next_begin_offset) == ([0, 1, 5, 6], 4, 10)


@pytest.mark.parametrize(("behind", "suggested"), [(4000, False), (4001, True)])
def test_the_slave_is_suggested_beyond_40_percent_of_memory(open_store: Open, behind: int, suggested: bool) -> None:  # noqa: FBT001
    """store-ha#67: by the distance of the log's end from the last examined entry."""
    store = open_store(total_memory=10_000)
    store.put(new_message())
    store.put(new_message(b"x" * (behind - store.max_commit_log_offset - 97), queue_id=1))
    assert store.max_commit_log_offset == behind
    assert store.get_message("orders", 0, 0, 32).suggest_slave is suggested
    assert not store.get_message("orders", 1, 1, 32).suggest_slave  # nothing examined


def test_messages_whose_log_file_is_gone_are_passed(open_store: Open) -> None:
    """Table 6.3, MESSAGE_WAS_REMOVING, then the next file's."""
    store = filled(open_store(), 100, 1000)
    store.log.files.drop_first()
    got = store.get_message("orders", 0, 0, 32)
    assert (got.status, got.next_begin_offset) == (GetStatus.MESSAGE_WAS_REMOVING, 50)
    got = store.get_message("orders", 0, 50, 32)
    first = next(decode_messages(got.buffers[0]))
    assert (got.status, first.queue_offset) == (GetStatus.FOUND, 65)


@pytest.mark.parametrize(("offset", "status"), [(0, "MESSAGE_WAS_REMOVING"), (50, "NO_MATCHED_MESSAGE")])
def test_the_status_of_a_pull_without_messages_is_that_of_the_last_entry(
    open_store: Open, offset: int, status: str
) -> None:
    """Class DefaultMessageStore.

    The file of the first 65 messages is gone, and the filters reject the others.
    """
    store = open_store()
    for number in range(100):
        store.put(new_message(b"x" * 894, tags="gone" if number < 65 else "left"))
    gone = store.queue_entries("orders", 0, 0, 1)[0][2]
    store.log.files.drop_first()
    assert store.min_commit_log_offset == store.queue_entries("orders", 0, 65, 1)[0][0]
    assert store.get_message("orders", 0, offset, 32, gone.__eq__).status.name == status
    assert store.get_message("orders", 0, offset, 32, property_filter=lambda _properties: False).status.name == status


def test_an_unreadable_entry_returns_the_offset_of_the_next_queue_file(open_store: Open) -> None:
    """Table 6.3, OFFSET_FOUND_NULL."""
    store = filled(open_store(), 120)
    store.queues.open("orders", 0).files.files.pop(1).delete()
    got = store.get_message("orders", 0, 60, 32)
    assert (got.status, got.next_begin_offset) == (GetStatus.OFFSET_FOUND_NULL, 100)
