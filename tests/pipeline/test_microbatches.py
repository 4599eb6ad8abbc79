"""Size, begin and backlog of a stream's micro-batches."""

import hypothesis
import pyarrow as pa
import pytest
from hypothesis import strategies

from rmqlab.pipeline.options import bind_options
from rmqlab.pipeline.topics.microbatches import BatchDelay, offsets_behind, waiting_messages, within_bytes, within_limit
from rmqlab.pipeline.topics.queues import Bound
from rmqlab.pipeline.topics.topicbounds import DataLossError
from rmqlab.pipeline.topics.topicoffsets import QueueName
from rmqlab.pipeline.topics.topicoptions import TopicOptions
from rmqlab.pipeline.topics.topicstream import StreamReader
from tests.pipeline.test_topicoffsets import offsets, queues

FIRST, SECOND, FRESH = QueueName("t", "b", 0), QueueName("t", "b", 1), QueueName("t", "b", 2)


@hypothesis.given(offsets, strategies.integers(1, 2000))
def test_a_limit_advances_every_queue_within_its_bound(end: dict[QueueName, int], limit: int) -> None:
    start = {queue: offset // 2 for queue, offset in end.items()}
    cut = within_limit(start, end, limit)
    waiting = [queue for queue in end if end[queue] > start[queue]]
    assert all(start[queue] < cut[queue] <= end[queue] for queue in waiting)
    assert sum(cut[queue] - start[queue] for queue in end) <= limit + len(waiting)


def test_an_end_below_the_start_is_kept_as_it_is() -> None:
    queue, other = QueueName("t", "b", 0), QueueName("t", "b", 1)
    assert within_limit({queue: 100, other: 0}, {queue: 5, other: 50}, 10) == {queue: 5, other: 10}


sizes = strategies.dictionaries(queues, strategies.floats(0, 1e6))


@hypothesis.given(offsets, sizes, strategies.integers(1, 10**7))
def test_a_limit_in_bytes_advances_every_queue(
    end: dict[QueueName, int], sizes: dict[QueueName, float], limit: int
) -> None:
    start = {queue: offset // 2 for queue, offset in end.items()}
    cut = within_bytes(start, end, sizes, limit)
    waiting = [queue for queue in end if end[queue] > start[queue]]
    assert all(start[queue] < cut[queue] <= end[queue] for queue in waiting)
    beyond_first = sum((cut[queue] - start[queue] - 1) * sizes.get(queue, 0.0) for queue in waiting)
    assert beyond_first <= limit * 1.000001


def test_queues_share_a_limit_in_bytes_by_their_bytes() -> None:
    start, end = {FIRST: 0, SECOND: 10}, {FIRST: 1000, SECOND: 110, FRESH: 7}
    assert within_bytes(start, end, {FIRST: 10.0, SECOND: 1000.0}, 55_000) == {FIRST: 500, SECOND: 60, FRESH: 7}
    assert within_bytes(start, end, {FIRST: 10.0, SECOND: 1000.0}, 110_000) == end


def test_a_queue_of_unknown_size_gets_one_message() -> None:
    assert within_bytes({FIRST: 5, SECOND: 5}, {FIRST: 10, SECOND: 10}, {FIRST: 1.0}, 100) == {FIRST: 10, SECOND: 6}


def test_a_queue_that_lost_messages_keeps_its_end_under_a_limit_in_bytes() -> None:
    assert within_bytes({FIRST: 100}, {FIRST: 5}, {}, 10) == {FIRST: 5}


# ---- delays ----------------------------------------------------------------------------------------------


def test_a_batch_waits_for_enough_messages_or_long_enough() -> None:
    delay = BatchDelay(least=10, seconds=60)
    assert delay.is_due(1, now=100)
    assert [delay.is_due(waiting, now=101) for waiting in (1, 9, 10)] == [False, False, True]
    assert not delay.is_due(9, now=160.9)
    assert delay.is_due(9, now=161)
    assert not delay.is_due(9, now=162)


def test_a_batch_without_messages_does_not_begin_the_delay() -> None:
    delay = BatchDelay(least=10, seconds=60)
    assert delay.is_due(0, now=100)
    assert delay.is_due(1, now=101)
    assert delay.is_due(0, now=160)
    assert delay.is_due(1, now=161)


def test_without_a_least_number_no_batch_waits() -> None:
    delay = BatchDelay(least=0, seconds=60)
    assert all(delay.is_due(1, now=now) for now in (100, 100, 101))


def test_messages_of_a_new_queue_do_not_wait_before_its_beginning_is_recorded() -> None:
    assert waiting_messages({FIRST: 3, SECOND: 9}, {FIRST: 8, SECOND: 2, FRESH: 50}) == 5


def reader(**options: str) -> StreamReader:
    given = {"nameserver": "a:1", "topic": "t"} | options
    return StreamReader(bind_options(TopicOptions, given, source="rocketmq"), pa.schema([]))


def test_the_new_end_of_a_queue_that_shrank_does_not_wait() -> None:
    """Messages that arrive meanwhile would be left out, and the warning repeated."""
    delayed = reader(minOffsetsPerTrigger="9", failOnDataLoss="false")
    assert delayed._may_begin({FIRST: 0, SECOND: 0}, {FIRST: 9, SECOND: 0})
    assert not delayed._may_begin({FIRST: 9, SECOND: 0}, {FIRST: 9, SECOND: 5})
    assert delayed._may_begin({FIRST: 9, SECOND: 0}, {FIRST: 4, SECOND: 5})


# ---- losses ----------------------------------------------------------------------------------------------


def test_a_queue_that_shrank_is_one_warning_if_losses_are_allowed(caplog: pytest.LogCaptureFixture) -> None:
    """A slave may lag. Planning is repeated while a batch waits for messages."""

    begin, bounds = {FIRST: 9, SECOND: 9, FRESH: 9}, {FIRST: Bound(4, 0), SECOND: Bound(12, 0), FRESH: Bound(4, 1)}
    allowing = reader(failondataloss="false")
    for _ in range(2):
        assert allowing._end(begin, bounds) == {FIRST: 4, SECOND: 12, FRESH: 9}
    (warning,) = caplog.records
    assert "t@b:0 ends at 4, and was read up to 9: messages were lost" in warning.getMessage()
    with pytest.raises(DataLossError, match="t@b:0 ends at 4, and was read up to 9: its master has lost messages"):
        reader()._end(begin, bounds)


# ---- behind latest ---------------------------------------------------------------------------------------


def test_the_distance_to_the_latest_messages_is_over_all_queues() -> None:
    assert offsets_behind({FIRST: 3, SECOND: 9}, {FIRST: 10, SECOND: 10}) == {
        "minOffsetsBehindLatest": 1,
        "maxOffsetsBehindLatest": 7,
        "avgOffsetsBehindLatest": pytest.approx(4),
    }


@pytest.mark.parametrize("latest", [{FIRST: 5}, {FIRST: 3}, {FIRST: 5, FRESH: 7}])
def test_a_queue_that_lost_messages_or_is_new_is_not_behind(latest: dict[QueueName, int]) -> None:
    assert set(offsets_behind({FIRST: 5}, latest).values()) == {0}


def test_without_an_answer_there_is_no_distance() -> None:
    assert offsets_behind({FIRST: 5}, {}) == {}
