"""Single values of settings: read from texts and TOML, and written to files.

Requests and properties files have texts only, TOML has types. The types of settings are bool, int, float, str and Path,
or one of them and None.
"""

import json
import pathlib
import re
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Final

_DESCRIPTIONS: Final[Mapping[Any, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")  # as in Java, without underscores as in 1_000


def convert(value: object, kind: Any) -> Any:
    """Return a value converted to the type of a setting.

    ValueError or TypeError if that is impossible.
    """
    if isinstance(kind, UnionType):  # `int | None`
        return None if value is None else convert(value, kind.__args__[0])
    return _CONVERTERS[kind](value)


def describe_kind(kind: Any) -> str:
    """Return the description of a setting's type for error messages."""
    if isinstance(kind, UnionType):
        return describe_kind(kind.__args__[0])
    return _DESCRIPTIONS.get(kind) or str(kind.__name__)


def property_text(value: object) -> str:
    """Return a value as a properties file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def toml_text(value: object) -> str:
    """Return a value as a TOML file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else json.dumps(str(value), ensure_ascii=False)


def _bool_of(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError(value)


def _int_of(value: object) -> int:
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(value)
    return value


def _float_of(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError(value)
    try:
        return float(value)
    except OverflowError:
        raise ValueError(value) from None


def _text_of(value: object) -> str:
    """Return a number or boolean as text, as in `--set brokerName=5`.

    TypeError for lists, tables and dates.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int, float)):
        raise TypeError(value)
    return str(value)


_CONVERTERS: Final[Mapping[Any, Callable[[object], Any]]] = {
    bool: _bool_of,
    int: _int_of,
    float: _float_of,
    str: _text_of,
    pathlib.Path: lambda value: pathlib.Path(_text_of(value)),
}
"""Converters by the type of a setting. They raise ValueError or TypeError."""
