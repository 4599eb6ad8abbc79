"""What a consumer holds of one queue, and what may be committed of it."""

from hypothesis import given
from hypothesis import strategies as st

from rmqlab.client.message import ReceivedMessage
from rmqlab.client.processqueue import FlowLimits, ProcessQueue
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.message import StoredMessage

QUEUE = MessageQueue(topic="t", broker_name="b", queue_id=0)
HOST = ("127.0.0.1", 1)


def message(offset: int, size: int = 1) -> ReceivedMessage:
    stored = StoredMessage(0, 0, 0, 0, offset, 0, 0, 0, HOST, 0, HOST, 0, 0, b"", "t", "", {})
    return ReceivedMessage("t", b"x" * size, QUEUE, offset, stored)


def messages(*offsets: int) -> list[ReceivedMessage]:
    return [message(offset) for offset in offsets]


def test_the_lowest_message_still_held_may_be_committed() -> None:
    held, some = ProcessQueue(QUEUE, 0), messages(5, 6, 7, 9)
    held.put(some)
    assert held.remove([some[1]]) == 5
    assert held.remove([some[0]]) == 7
    assert held.remove(some[2:]) == 10


def test_late_messages_are_inserted_in_offset_order() -> None:
    held, early, late = ProcessQueue(QUEUE, 0), messages(5, 9), messages(7)
    held.put(early)
    held.put(late)
    assert [one.queue_offset for one in held.take(3)] == [5, 7, 9]
    assert held.remove(early) == 7
    assert held.remove(late) == 10


def test_nothing_may_be_committed_before_something_was_held() -> None:
    assert ProcessQueue(QUEUE, 0).remove([]) == -1


def test_a_message_that_is_held_already_is_not_new() -> None:
    held = ProcessQueue(QUEUE, 0)
    held.put(messages(1, 2))
    assert [one.queue_offset for one in held.put(messages(2, 3, 3))] == [3]
    assert held.count == 3
    held.remove(messages(1, 2, 3))
    assert held.held_bytes == 0


def test_pulling_stops_above_a_count_a_size_or_a_span() -> None:
    limits = FlowLimits(messages=3, size=10, span=100)
    for some in (messages(0, 1, 2, 3), [message(0, 11)], messages(0, 101)):
        held = ProcessQueue(QUEUE, 0)
        held.put(some)
        assert held.is_full(limits)
        held.remove(some)
        assert not held.is_full(limits)
    held = ProcessQueue(QUEUE, 0)
    held.put(messages(0, 101))
    assert not held.is_full(limits, is_orderly=True)


def test_taken_messages_are_returned_again_until_committed() -> None:
    held = ProcessQueue(QUEUE, 0)
    held.put(messages(0, 1, 2))
    assert [one.queue_offset for one in held.take(2)] == [0, 1]
    held.put_back()
    assert [one.queue_offset for one in held.take(2)] == [0, 1]
    assert held.commit() == 2
    assert [one.queue_offset for one in held.take(2)] == [2]
    assert held.take(2) == []


@given(st.permutations(range(12)), st.integers(1, 11))
def test_no_message_is_skipped_in_any_order_of_consumption(order: list[int], pulled_first: int) -> None:
    """A crash after any commit delivers every message that was not consumed."""
    held, some = ProcessQueue(QUEUE, 0), messages(*range(12))
    held.put(some[:pulled_first])
    held.put(some[pulled_first:])
    left = set(range(12))
    for offset in order:
        committed = held.remove([some[offset]])
        left.discard(offset)
        assert committed == min(left, default=12)
    assert held.held_bytes == 0


def test_queues_share_limits_equally() -> None:
    """Class RebalancePushImpl, method messageQueueChanged."""
    limits = FlowLimits(shared_messages=100, shared_size=10 * 2**20)
    shares = [limits.shared_by(queues) for queues in (1, 3, 1000)]
    assert [(share.messages, share.size) for share in shares] == [
        (100, 10 * 2**20), (33, 10 * 2**20 // 3), (1, 2**20)
    ]  # fmt: skip
    assert FlowLimits().shared_by(7) == FlowLimits()
