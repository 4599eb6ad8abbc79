"""What a setting may be, as attrs validators whose errors a user can read: key, value, and what was expected."""

from collections.abc import Callable, Collection
from typing import Any

Check = Callable[[Any, Any, Any], None]


def at_least(least: float) -> Check:
    """ValueError for what is less."""
    return _check(lambda value: value >= least, f"at least {least}")


def above(limit: float) -> Check:
    """ValueError for what is not more."""
    return _check(lambda value: value > limit, f"more than {limit}")


def within(least: float, most: float) -> Check:
    """ValueError for what is outside, the ends not included."""
    return _check(lambda value: least <= value <= most, f"{least} to {most}")


def one_of(known: Collection[str]) -> Check:
    """ValueError for any other text. An empty one among them stands for none, and is not told."""
    return _check(lambda value: value in known, " or ".join(filter(None, known)))


def _check(holds: Callable[[Any], bool], expected: str) -> Check:
    def check(_instance: object, field: Any, value: Any) -> None:
        try:
            fits = holds(value)
        except TypeError:
            fits = False
        if not fits:
            raise ValueError(f"{field.name} = {value!r}: expected {expected}")

    return check
