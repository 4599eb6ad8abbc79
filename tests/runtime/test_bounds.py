import enum
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.runtime.bounds import EVENT, LEFT_OUT, SNAPSHOT, Bounds, bounded, bounded_fields

SMALL = Bounds(text=10, items=3, total=1000)


def circle() -> dict[str, Any]:
    inside: dict[str, Any] = {}
    inside["again"] = [inside]
    return inside


class Colour(enum.StrEnum):
    RED = "red"


class Unprintable:
    def __str__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("0123456789", "0123456789"),
        ("x" * 6_000_000, "xxxxxxxxxx...(6000000 characters)"),
        (b"x" * 11, b"xxxxxxxxxx...(11 bytes)"),
        ({1: "a", 2: "b", 3: "c"}, {1: "a", 2: "b", 3: "c"}),
        ({1: 1, 2: 2, 3: 3, 4: 4, 5: 5}, {1: 1, 2: 2, 3: 3, LEFT_OUT: 2}),
        ((1, 2, 3, 4), [1, 2, 3, "...(1 more)"]),
        ("\ud800", "\\ud800"),
        ([10**5000], ["...(an int...(29 characters)"]),
        (Unprintable(), "...(Unprin...(35 characters)"),
        ({(1, 2): None}, {"(1, 2)": None}),
        ({b"k": 1.5, None: True}, {"b'k'": 1.5, "None": True}),
        (Colour.RED, "red"),
    ],
)
def test_values_that_are_too_large_are_truncated_and_marked(value: object, kept: object) -> None:
    assert bounded(value, SMALL) == kept
    assert bounded_fields({"field": value}, SMALL) == {"field": kept}


def test_nothing_more_is_kept_once_the_total_is_reached() -> None:
    """A key and a value of 9 bytes each."""
    for total, kept in ((18, {1: None, LEFT_OUT: 2}), (19, {1: None, 2: None, LEFT_OUT: 1})):
        assert bounded({1: None, 2: None, 3: None}, Bounds(items=10, total=total)) == kept
    assert bounded([None] * 3, Bounds(items=10, total=18)) == [None, None, "...(1 more)"]


def test_a_value_that_is_cut_keeps_its_key() -> None:
    """The routes of a large cluster were under a key named after its length."""
    kept = bounded({"routes": dict.fromkeys(range(100), "x" * 50)}, Bounds(items=1000, total=1000))
    assert kept["routes"][LEFT_OUT] > 50


def test_truncated_values_are_not_truncated_again() -> None:
    value = {"text": "x" * 6_000_000, "map": dict.fromkeys(range(30_000), 1), "list": [1, 2]}
    once = bounded(value, EVENT)
    assert once["map"][LEFT_OUT] == 25_000
    assert bounded(once, EVENT) == bounded_fields(once) == once


def test_small_fields_are_not_copied() -> None:
    fields = {"number": 1, "outcome": "SEND_OK", "error": None, "took": 0.5}
    assert bounded_fields(fields) is fields


@pytest.mark.parametrize(
    "value",
    [
        circle(),
        dict.fromkeys(range(5000), dict.fromkeys(range(5000), "y" * 5000)),
        ["€" * 4096] * 5000,
        [[[[0] * 5000] * 50] * 50] * 50,
        {f"key {n}" * 600: n for n in range(5000)},
        {f"k{n}": "x" * 4000 for n in range(500)},
    ],
)
@pytest.mark.parametrize("bounds", [EVENT, SNAPSHOT])
def test_all_together_stays_below_the_total(value: object, bounds: Bounds) -> None:
    for kept in (
        bounded(value, bounds),
        bounded_fields(value if isinstance(value, dict) else {"field": value}, bounds),
    ):
        assert len(msgpack.packb(kept)) < bounds.total + 10_000


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inside: (
        st.lists(inside) | st.dictionaries(st.text(st.characters()) | st.integers() | st.binary() | st.none(), inside)
    ),
)


@given(VALUES)
def test_whatever_it_is_msgpack_encodes_it_and_reads_it_back(value: object) -> None:
    for bounds in (EVENT, SMALL):
        packed = msgpack.packb(bounded(value, bounds))
        msgpack.unpackb(packed, strict_map_key=False)
