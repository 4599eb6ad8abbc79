"""Checks that bounds and filters fit the types of an event's fields. Pure.

A bound that no value can satisfy, and a filter that matches nothing, would look like a result.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from rmqlab.cluster.scenario.binding import BindingError, Path
from rmqlab.cluster.scenario.model import Expectation
from rmqlab.cluster.scenario.observation import observation_unit
from rmqlab.cluster.scenario.quantity import Quantity
from rmqlab.runtime.config.validators import as_written
from rmqlab.runtime.journals.schema import EventType

NODE: Final = "node"
"""The filter for the process that recorded an event. It is no field."""


@attrs.frozen
class _ValueType:
    """What values of a type are compared with."""

    expected: str
    fits_filter: Callable[[object], bool]
    fits_bound: Callable[[Quantity | str], bool]
    is_number: bool = False


_TYPES: Final[Mapping[str, _ValueType]] = {
    "text": _ValueType("a text", lambda value: isinstance(value, str), lambda bound: isinstance(bound, str)),
    "bool": _ValueType(
        "true or false", lambda value: isinstance(value, bool), lambda bound: bound in ("true", "false")
    ),
    "int": _ValueType(
        "a whole number", lambda value: type(value) is int, lambda bound: isinstance(bound, Quantity), is_number=True
    ),
    "float": _ValueType(
        "a number", lambda value: type(value) in (int, float), lambda bound: isinstance(bound, Quantity), is_number=True
    ),
}
"""The types of fields whose values are known before the run."""


def review_filters(where: Mapping[str, Any], kind: EventType, path: Path) -> None:
    """Raise BindingError for a filter that matches no value of its field."""
    for name, value in where.items():
        if value == []:
            raise BindingError(path, f"{name} = []: expected one value or more")
        of_type = _type_of(kind, name)
        for wanted in value if isinstance(value, list) else [value]:
            if of_type is not None and not of_type.fits_filter(wanted):
                raise BindingError(path, f"{name} = {as_written(wanted)}: expected {of_type.expected}")


def review_field_bounds(expectation: Expectation, kind: EventType, path: Path) -> None:
    """Raise BindingError for a bound that no value of its field can have."""
    name = expectation.field or ""
    of_type = _type_of(kind, name)
    if of_type is None or expectation.take == "distinct":
        return
    if expectation.take in ("min", "max") and not of_type.is_number:
        text = (
            f"{expectation.take!r} needs a field with numbers, and {name} is {of_type.expected}: expected first or last"
        )
        raise BindingError((*path, "take"), text)
    for key in ("at_least", "at_most", "equals"):
        bound = getattr(expectation, key)
        if bound is None:
            continue
        if not of_type.fits_bound(bound):
            expected = f'{of_type.expected} with a unit, such as "5 {name}"' if of_type.is_number else of_type.expected
            raise BindingError((*path, key), f"{as_written(str(bound))}: expected {expected}, as {name} is")
        if isinstance(bound, Quantity) and bound.unit == "s" != observation_unit(expectation):
            raise BindingError((*path, key), f"{bound}: {name} is no time: expected a number of {name}")


def _type_of(kind: EventType, name: str) -> _ValueType | None:
    """Return the type of a field; None if any value may be in it."""
    if name == NODE:
        return _TYPES["text"]
    field = kind.fields.get(name)
    return None if field is None else _TYPES.get(field.type)
