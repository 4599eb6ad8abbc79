"""Values against declared types, and how messages describe those types."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from rmqlab.runtime.valuetypes import Seconds, check_value, checked, describe_type, is_of_type


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
