"""Convert fields of journal entries to Arrow columns of a user's schema.

A value of another type than its column's is null, as is a number that does not fit. Two types accept more: a string
column has any other value as JSON, and a double column has integers too.
"""

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

Fields = Mapping[str, Any]

_encode: Final = json.JSONEncoder(default=str, allow_nan=False).encode
"""One encoder for all: `json.dumps` with `default` makes one for each value."""
_DEEPEST: Final = 50


def as_json(value: object) -> str:
    """Return a value as JSON text; what JSON has no form for is text in it."""
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError):
        return _encode(_plain(value, _DEEPEST))


def _plain(value: object, depth: int) -> object:
    """Return a copy without what JSON has no form for.

    Keys of other types and infinite numbers are texts in it; what is nested too deeply is omitted.
    """
    if isinstance(value, dict):
        return {str(key): _plain(one, depth - 1) for key, one in value.items()} if depth else "..."
    if isinstance(value, list | tuple):
        return [_plain(one, depth - 1) for one in value] if depth else "..."
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def field_columns(columns: Sequence[pa.Field], fields: Sequence[Fields]) -> list[pa.Array]:
    """Return a column for each of these names: the values in the fields of each entry."""
    risky = _coerced(fields)
    exact = [column for column in columns if column.name not in risky]
    found = dict(zip([column.name for column in exact], _exact_columns(exact, fields), strict=True))
    return [found[column.name] if column.name in found else _converted(column, fields) for column in columns]


def _coerced(fields: Sequence[Fields]) -> set[str]:
    """Return the names of values that Arrow would convert to a column's type.

    Examples: 1.0 to an integer, bytes to text.
    """
    types = set(map(type, itertools.chain.from_iterable(one.values() for one in fields)))
    if types.isdisjoint({float, bytes}):
        return set()
    return {name for one in fields for name, value in one.items() if isinstance(value, float | bytes)}


def _exact_columns(columns: Sequence[pa.Field], fields: Sequence[Fields]) -> list[pa.Array]:
    """Return columns without a Python loop if all values have their column's type."""
    try:
        found: list[pa.Array] = pa.array(fields, pa.struct(columns)).flatten()
    except (pa.ArrowException, OverflowError):
        return [_converted(column, fields) for column in columns]
    return found


def _converted(column: pa.Field, fields: Sequence[Fields]) -> pa.Array:
    convert, name = _conversion(column.type), column.name
    return pa.array([convert(one.get(name)) for one in fields], column.type)


def _conversion(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return the conversion of a value to a column's type."""
    if pa.types.is_boolean(kind):
        return lambda value: value if isinstance(value, bool) else None
    if pa.types.is_integer(kind):
        limit = 1 << kind.bit_width - 1
        return lambda value: value if type(value) is int and -limit <= value < limit else None
    if pa.types.is_floating(kind):
        return lambda value: float(value) if isinstance(value, int | float) else None
    return lambda value: value if value is None or isinstance(value, str) else as_json(value)
