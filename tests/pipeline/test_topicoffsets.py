import json
from collections.abc import Iterable, Mapping

import hypothesis
import pytest
from hypothesis import strategies

from rmqlab.pipeline.topics.topicoffsets import (
    EARLIEST,
    LATEST,
    QueueName,
    QueueRange,
    group_ranges,
    offsets_document,
    read_assignment,
    read_document,
    read_position,
    read_times,
    split_ranges,
)

queues = strategies.builds(
    QueueName, strategies.sampled_from(["a", "b"]), strategies.sampled_from(["x", "y"]), strategies.integers(0, 12)
)
offsets = strategies.dictionaries(queues, strategies.integers(0, 1000))


@hypothesis.given(offsets)
def test_a_document_lists_the_same_offsets_in_one_order(given: Mapping[QueueName, int]) -> None:
    text = json.dumps(offsets_document(given))
    assert read_document(json.loads(text)) == given
    backwards = dict(reversed(list(given.items())))
    assert json.dumps(offsets_document(backwards)) == text


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", EARLIEST),
        (" Latest", LATEST),
        ('{"t": {"b": {"0": 5, "1": -2}}}', {QueueName("t", "b", 0): 5, QueueName("t", "b", 1): -2}),
        ('{"v": 1, "topics": {"t": {"b": {"0": 5}}}}', {QueueName("t", "b", 0): 5}),
        ('{"v": 1, "topics": {"t": {"b": {"0": 5}}}, "maxOffsetsBehindLatest": 3}', {QueueName("t", "b", 0): 5}),
        (
            '{"v": {"b": {"0": 5}}, "topics": {"b": {"0": 6}}}',
            {QueueName("v", "b", 0): 5, QueueName("topics", "b", 0): 6},
        ),
    ],
)
def test_positions_are_words_or_json(text: str, position: object) -> None:
    assert read_position(text) == position


@pytest.mark.parametrize(
    "text",
    [
        "first",
        '{"t": 5}',
        '{"t": {"b": {"x": 1}}}',
        '{"t": {"b": {"0": -3}}}',
        '{"v": 1, "topics": {"t": {"b": {"0": -3}}}}',
        "[]",
    ],
)
def test_other_positions_are_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        read_position(text)


def test_times_of_queues_are_json() -> None:
    assert read_times('{"t": {"b": {"0": 1700000000000}}}') == {QueueName("t", "b", 0): 1_700_000_000_000}


@pytest.mark.parametrize("text", ["5", "{}", '{"t": 5}', '{"t": {"b": {"0": -1}}}', '{"t": {"b": {"0": "5"}}}', "now"])
def test_other_times_are_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        read_times(text)


def test_an_assignment_names_queues() -> None:
    text = '{"t": {"b": [0, 2], "c": [1]}, "u": {"b": []}}'
    assert read_assignment(text) == {QueueName("t", "b", 0), QueueName("t", "b", 2), QueueName("t", "c", 1)}


@pytest.mark.parametrize(
    "text",
    ["orders", "[]", "{}", '{"b": [0]}', '{"t": {"b": 0}}', '{"t": {"b": ["0"]}}', '{"t": {"b": [-1]}}',
     '{"t": {"b": [true]}}', '{"t": {"b": []}}', '{"t": {"b": {"0": 5}}}'],
)  # fmt: skip
def test_other_assignments_are_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match=r'expected \{"topic": \{"broker": \[queue, ...\]\}\}'):
        read_assignment(text)


def ranges_to(end: Mapping[QueueName, int]) -> list[QueueRange]:
    return [QueueRange(queue, offset // 3, offset) for queue, offset in end.items()]


def messages_of(ranges: Iterable[QueueRange]) -> list[tuple[QueueName, int]]:
    return sorted((part.queue, offset) for part in ranges for offset in range(part.start, part.end))


@hypothesis.given(offsets, strategies.integers(0, 50), strategies.integers(1, 20))
def test_parts_cover_ranges_exactly(end: dict[QueueName, int], most: int, least: int) -> None:
    ranges = ranges_to(end)
    parts = split_ranges(ranges, most=most, least_parts=least)
    total = sum(part.size for part in ranges)
    assert messages_of(parts) == messages_of(ranges)
    assert all(0 < part.size <= -(-total // least) for part in parts)
    assert len(parts) >= min(least, total)
    assert not most or all(part.size <= most for part in parts)


def test_a_large_queue_is_cut_though_there_are_enough_queues() -> None:
    """issue 15: eight queues were eight tasks, though one of them had all messages."""
    ranges = [QueueRange(QueueName("t", "b", number), 0, 10_000 if number == 3 else 1) for number in range(8)]
    parts = split_ranges(ranges, most=0, least_parts=8)
    assert max(part.size for part in parts) <= 1251
    assert len(parts) == 7 + 8


@hypothesis.given(offsets, strategies.integers(0, 50), strategies.integers(1, 20))
def test_small_ranges_share_tasks_and_large_ones_do_not(end: dict[QueueName, int], most: int, tasks: int) -> None:
    parts = [part for part in ranges_to(end) if part.size]
    groups = group_ranges(parts, tasks, most=most)
    assert [part for group in groups for part in group] == parts
    share = sum(part.size for part in parts) // tasks
    limit = min(share, most) if most else share
    assert all(len(group) == 1 or sum(part.size for part in group) <= limit for group in groups)
    assert most or len(groups) <= 2 * tasks


@pytest.mark.parametrize(
    ("sizes", "most", "groups"),
    [
        ([50, 50, 50, 50], 0, [[50, 50, 50, 50]]),
        ([50, 50, 50, 50], 100, [[50, 50], [50, 50]]),
        ([600, 600, 300, 5000, 10], 0, [[600], [600, 300], [5000], [10]]),
    ],
)
def test_a_few_messages_are_one_task(sizes: list[int], most: int, groups: list[list[int]]) -> None:
    parts = [QueueRange(QueueName("t", "b", number), 0, size) for number, size in enumerate(sizes)]
    found = group_ranges(parts, 256, most=most, small=1000)
    assert [[part.size for part in group] for group in found] == groups


def test_a_task_has_no_more_messages_than_the_limit_though_there_are_many_ranges() -> None:
    """Ranges beyond 256 shared tasks without regard to maxRecordsPerPartition."""
    parts = split_ranges([QueueRange(QueueName("t", "b", 0), 0, 1000)], most=10, least_parts=1)
    assert group_ranges(parts, 20, most=10) == [[part] for part in parts]
