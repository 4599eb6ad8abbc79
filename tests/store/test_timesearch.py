"""Queue offset by store time."""

from collections.abc import Callable

import pytest

from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, new_message

Open = Callable[..., MessageStore]


@pytest.mark.parametrize(
    ("timestamp", "offset"),
    [(0, 0), (1000, 0), (1040, 0), (1060, 1), (1050, 0), (1100, 1), (5900, 49), (5990, 50), (6000, 50), (12_900, 119), (99_999, 119)],
)  # fmt: skip
def test_the_message_stored_at_or_nearest_to_a_time(
    open_store: Open, clock: ManualClock, timestamp: int, offset: int
) -> None:
    """Exact, else the nearer.

    Before the first the first, after the last the last; over three queue files.
    """
    store = open_store()
    clock.now, clock.step = 900, 100
    for _ in range(120):
        store.put(new_message())
    assert store.offset_by_time("orders", 0, timestamp) == offset


def test_messages_below_the_logs_minimum_are_not_found(open_store: Open, clock: ManualClock) -> None:
    store = open_store(mapped_file_size_consume_queue=20_000)
    clock.now, clock.step = 0, 1
    for _ in range(200):
        store.put(new_message(b"x" * 1000))
    store.log.files.drop_first()
    first = store.log.stored_at(store.min_commit_log_offset)
    assert store.offset_by_time("orders", 0, 0) == first - 1
    assert store.offset_by_time("orders", 0, first + 10) == first + 9


@pytest.mark.parametrize(("entries_of_file", "offset"), [(1000, 0), (50, 49)])
def test_without_a_message_left_the_offset_is_that_before_the_file(
    open_store: Open, clock: ManualClock, entries_of_file: int, offset: int
) -> None:
    """The last file is searched, and all its messages have expired.

    Class ConsumeQueue.getOffsetInQueueByTime.
    """
    store = open_store(mapped_file_size_consume_queue=20 * entries_of_file)
    clock.now, clock.step = 0, 1
    for _ in range(55):
        store.put(new_message(b"x" * 1000))
    for _ in range(55):
        store.put(new_message(b"x" * 1000, topic="others"))
    store.log.files.drop_first()
    assert store.offset_by_time("orders", 0, 10_000) == offset


def test_a_file_without_entries_is_not_searched(open_store: Open, clock: ManualClock) -> None:
    """A process that dies when it has created a queue's next file leaves one."""
    store = open_store()
    clock.now, clock.step = 900, 100
    for _ in range(50):
        store.put(new_message())
    files = store.queues.open("orders", 0).files
    files.file_to_write()
    assert [file.wrote for file in files.files] == [1000, 0]
    assert store.offset_by_time("orders", 0, 99_999) == 49
