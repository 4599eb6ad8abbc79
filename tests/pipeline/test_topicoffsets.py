import json
from collections.abc import Mapping

import hypothesis
import pytest
from hypothesis import strategies

from rmqlab.pipeline.topicoffsets import (
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
def test_a_document_tells_the_same_offsets_in_one_order(given: Mapping[QueueName, int]) -> None:
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


@pytest.mark.parametrize("text", ["first", '{"t": 5}', '{"t": {"b": {"x": 1}}}', '{"t": {"b": {"0": -3}}}', "[]"])
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


@hypothesis.given(offsets, strategies.integers(0, 50), strategies.integers(1, 20))
def test_parts_cover_ranges_exactly(end: dict[QueueName, int], most: int, least: int) -> None:
    ranges = [QueueRange(queue, offset // 3, offset) for queue, offset in end.items()]
    parts = split_ranges(ranges, most=most, least_parts=least)
    covered = sorted((part.queue, offset) for part in parts for offset in range(part.start, part.end))
    assert covered == sorted((part.queue, offset) for part in ranges for offset in range(part.start, part.end))
    assert all(part.size > 0 for part in parts)
    assert not most or all(part.size <= most for part in parts)
    grouped = group_ranges(parts, 5)
    assert len(grouped) <= max(5, 0)
    assert sorted(part for group in grouped for part in map(str, group)) == sorted(map(str, parts))
