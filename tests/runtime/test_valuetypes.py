"""Values against declared types, and how messages describe those types."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

import attrs
import numpy as np
import pytest

from rmqlab.runtime.config.valuetypes import (
    Seconds,
    check_value,
    checked,
    describe_type,
    is_of_type,
    plain,
    typed_fields,
)


class Named(TypedDict):
    name: str
    count: NotRequired[int]


@pytest.mark.parametrize(
    ("value", "declared", "fits"),
    [
        ("x", str, True),
        (b"x", str, False),
        (1, float, True),
        (True, float, False),
        (True, int, False),
        (1.0, int, False),
        (None, str | None, True),
        (5, str | None, False),
        ({"a": 1}, Mapping[str, Any], True),
        ({1: 1}, Mapping[str, Any], False),
        ([("a", 1)], Mapping[str, Any], False),
        ({"a": {"b": 1}}, Mapping[str, Mapping[str, int]], True),
        ({"a": {"b": "1"}}, Mapping[str, Mapping[str, int]], False),
        (("a",), tuple[str, ...], True),
        (("a", 1), tuple[str, ...], False),
        (["a"], tuple[str, ...], False),
        (print, Callable[[str], None], True),
        ("print", Callable[[str], None], False),
        (object(), Any, True),
        (3, Seconds, True),
        (np.int64(3), int, True),
        (np.int64(3), float, True),
        (np.float32(0.5), float, True),
        (np.float32(0.5), int, False),
        (np.array([1, 2]), int, False),
        (np.True_, float, False),
        ("a", Literal["a", 1], True),
        (True, Literal["a", 1], False),
        ({"name": "a"}, Named, True),
        ({"name": "a", "count": 1}, Named, True),
        ({"name": "a", "count": "1"}, Named, False),
        ({"count": 1}, Named, False),
        ({"name": "a", "other": 1}, Named, False),
        ([], Named, False),
    ],
)
def test_a_value_is_of_a_type_or_not(value: object, declared: Any, *, fits: bool) -> None:
    assert is_of_type(value, declared) == fits


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (str, "a text"),
        (int | None, "a whole number or None"),
        (Mapping[str, Any], "a mapping of texts to values"),
        (Mapping[str, Mapping[str, Any]] | None, "a mapping of texts to mappings or None"),
        (tuple[str, ...], "a tuple of texts"),
        (Callable[[], None] | str, "a function or a text"),
        (ValueError, "a ValueError"),
        (OSError, "an OSError"),
        (Seconds, "a number of seconds from 0 to 10**9"),
        (Literal["a", "b"], "'a' or 'b'"),
        (Literal["a"] | None, "'a' or None"),
        (Named, "a Named"),
        (Sequence, "a list"),
    ],
)
def test_a_type_is_described(declared: Any, words: str) -> None:
    assert describe_type(declared) == words


@pytest.mark.parametrize("value", [-1, -0.5, math.nan, math.inf, 10**400])
def test_a_time_has_a_range(value: float) -> None:
    with pytest.raises(ValueError, match=r"^wait = .*: expected a number of seconds from 0 to 10\*\*9$"):
        check_value("wait", value, Seconds)


async def test_a_checked_function_names_the_argument() -> None:
    @checked
    def join(first: str, *more: str, **rest: int) -> str:
        return f"{first}{more}{rest}"

    @checked
    async def wait(seconds: Seconds = 1) -> float:
        return seconds

    assert join("a", "b", c=1) == "a('b',){'c': 1}"
    assert await wait() == 1
    broken: Any = join
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: broken(5), "first = 5: expected a text"),
        (lambda: broken("a", "b", 5), "more = 5: expected a text"),
        (broken, "missing a required argument: 'first'"),
    ]
    for call, said in calls:
        with pytest.raises(TypeError, match=said):
            call()
    late = wait(-1)  # nothing is raised before it is awaited
    with pytest.raises(ValueError, match="seconds = -1: expected a number of seconds"):
        await late


def test_numbers_of_other_packages_become_ints_and_floats() -> None:
    @checked
    def given(count: int, *more: int | None, wait: Seconds = 1) -> list[object]:
        return [count, *more, wait]

    @attrs.frozen(field_transformer=typed_fields)
    class Settings:
        count: int = 0

    values = given(np.int64(1), np.uint8(2), None, wait=np.float32(0.5))
    assert values == [1, 2, None, 0.5]
    assert [type(value) for value in values] == [int, int, type(None), float]
    assert type(Settings(np.int32(3)).count) is int
    assert plain("x", int) == "x"


def test_signatures_of_typed_classes_have_their_types() -> None:
    """`help` and notebooks show them."""

    @attrs.frozen(kw_only=True, field_transformer=typed_fields)
    class Settings:
        period: float = 1.0
        name: str | None = None

    shown = {name: one.annotation for name, one in inspect.signature(Settings).parameters.items()}
    assert shown == {"period": float, "name": str | None}
