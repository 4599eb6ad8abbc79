"""Maps in events, as writers truncate them and as others may have changed them."""

import pytest

from rmqlab.verdict.eventmaps import moved_offsets, queue_id_of, route_addresses


@pytest.mark.parametrize(
    ("queues", "pairs"),
    [
        ({0: [9, 3], "1": (7, 7)}, [(0, 9, 3), (1, 7, 7)]),
        ({0: [9, 3], 1: [9, "...(1 more)"], "...": 7}, [(0, 9, 3)]),
        ({0: [9], 1: [9, 3, 1], 2: None, 3: "93", 4: [9, True], 5: [9, 3.0], -1: [9, 3]}, []),
        ({0: [2**62, 3], 2**31: [9, 3], "9" * 5000: [9, 3]}, []),
        (None, []),
        ([[9, 3]], []),
    ],
)
def test_pairs_of_offsets_are_read_as_far_as_they_go(queues: object, pairs: list[tuple[int, int, int]]) -> None:
    assert list(moved_offsets(queues)) == pairs


@pytest.mark.parametrize(
    ("brokers", "addresses"),
    [
        ({"broker-a": {"0": "x:1", "1": "y:1"}, "broker-b": {"0": "z:1"}}, {"x:1", "y:1", "z:1"}),
        ({"broker-a": {"0": "x:1", "...": 3}, "...": 7}, {"x:1"}),
        ({"broker-a": ["x:1"], "broker-b": {"0": ["x:1"]}}, set()),
        (None, set()),
        ("x:1", set()),
    ],
)
def test_addresses_of_a_route_are_read_as_far_as_they_go(brokers: object, addresses: set[str]) -> None:
    assert route_addresses(brokers) == addresses


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("2147483647", 2**31 - 1), ("2147483648", None), ("²", None), ("9" * 5000, None)]
)
def test_a_queue_id_has_32_bits(text: str, number: int | None) -> None:
    assert queue_id_of(text) == number
