"""Bind data source options to an attrs class: case-insensitive, one clear error.

Spark passes options as texts with lower-case names; ours are written like those of its Kafka source. No I/O.
"""

import itertools
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

import attrs

from rmqlab.pipeline.errors import UserError
from rmqlab.runtime.text.nearmiss import near_miss

T = TypeVar("T")
_SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})
"""Options that Spark adds itself."""


class OptionError(UserError, ValueError):
    """An option is unknown, or its value is invalid.

    The text contains the option and what was expected.
    """


def option(
    name: str, read: Callable[[str], Any], meaning: str, *, default: object = attrs.NOTHING
) -> Any:  # a field, as attrs.field
    """Return an attrs field for the option `name`.

    `read` raises ValueError with the expected form.
    """
    return attrs.field(default=default, metadata={"option": name, "read": read, "meaning": meaning})


def bind_options(
    kind: type[T], options: Mapping[str, str], *, source: str, meant: Mapping[str, str] | None = None
) -> T:
    """Build `kind`, an attrs class of `option` fields, from the options.

    `meant` has lower-case names of other sources' options, and what to use instead. Raises OptionError.
    """
    fields = {field.metadata["option"].lower(): field for field in attrs.fields(kind)}  # type: ignore[arg-type]
    values = {}
    for key, text in options.items():
        if key.lower() in _SPARKS_OWN:
            continue
        if (field := fields.get(key.lower())) is None:
            raise OptionError(f"{source}: there is no option {key}{_instead(key, fields.values(), meant or {})}")
        try:
            values[field.name] = field.metadata["read"](text)
        except ValueError as exc:
            raise OptionError(f"{source}: option {field.metadata['option']} is {text!r}: {exc}") from None
    missing = [
        field.metadata["option"]
        for field in fields.values()
        if field.default is attrs.NOTHING and field.name not in values
    ]
    if missing:
        raise OptionError(f"{source}: option {missing[0]} is needed: {_meaning(fields[missing[0].lower()])}")
    try:
        return kind(**values)
    except ValueError as exc:
        raise OptionError(f"{source}: {exc}") from None


def _instead(key: str, fields: Iterable["attrs.Attribute[Any]"], meant: Mapping[str, str]) -> str:
    """Return the end of an unknown option's error: what was meant, or all."""
    if key.lower() in meant:
        return f"; use {meant[key.lower()]}"
    names = [field.metadata["option"] for field in fields]
    return near_miss(key, names) or f"; options: {', '.join(names)}"


def _meaning(field: "attrs.Attribute[Any]") -> str:
    return str(field.metadata["meaning"])


def check_known(what: str, given: Iterable[str], known: Collection[str], *, source: str) -> None:
    """Raise OptionError for the first unknown name; `what` is the kind of name."""
    for name in given:
        if name not in known:
            there = shortened(sorted(set(known)))
            raise OptionError(f"{source}: there is no {what} {name}{near_miss(name, known)}; {what}s: {there}")


def shortened(words: Iterable[object], most: int = 8) -> str:
    """Return the first names, joined by commas: an error should fit on a screen."""
    found = [str(word) for word in itertools.islice(words, most + 1)]
    return ", ".join(found[:most]) + (", ..." if len(found) > most else "")


# ---- forms of an option's text ---------------------------------------------------------------------------


def text(value: str) -> str:
    if not value.strip():
        raise ValueError("expected a text")
    return value.strip()


def names(value: str) -> tuple[str, ...]:
    """Parse several names, separated by commas."""
    found = tuple(part.strip() for part in value.split(",") if part.strip())
    if not found:
        raise ValueError("expected names, separated by commas")
    return found


def pattern(value: str) -> str:
    """Validate a regular expression."""
    try:
        re.compile(text(value))
    except re.error as exc:
        raise ValueError(f"expected a regular expression: {exc}") from None
    return value.strip()


def without_fault(fault: Callable[[str], str | None]) -> Callable[[str], str]:
    """Return a parser of names for which `fault` returns no error."""

    def read(value: str) -> str:
        if (found := fault(value.strip())) is not None:
            raise ValueError(found)
        return value.strip()

    return read


def each(read: Callable[[str], str]) -> Callable[[str], tuple[str, ...]]:
    """Return a parser of several names, separated by commas, each parsed by `read`."""
    return lambda value: tuple(read(name) for name in names(value))


def boolean(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return value.lower() == "true"


MAX_LONG: Final = 2**63 - 1
"""The maximum of Java's long."""


def at_least(lowest: int, most: int = MAX_LONG, *, unit: str = "") -> Callable[[str], int]:
    """Return a parser of whole numbers from `lowest` to `most`.

    `unit` is for its errors.
    """

    def read(value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            raise ValueError(f"expected a whole number{f' of {unit}' if unit else ''}") from None
        if number < lowest:
            raise ValueError(f"expected at least {lowest}")
        if number > most:
            raise ValueError(f"expected at most {most}")
        return number

    return read


_DURATION = re.compile(r"([0-9]+)\s*(ms|s|m|min|h|d)")
_MILLIS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration(value: str) -> int:
    """Parse a duration such as 30s or 15m into milliseconds.

    The units are those of Spark's options.
    """
    if (found := _DURATION.fullmatch(value.strip().lower())) is None:
        raise ValueError("expected a whole number with a unit (ms, s, m, h or d), such as 30s or 15m")
    return int(found[1]) * _MILLIS[found[2]]


_BYTES = re.compile(r"([0-9]+)\s*(?:([kmgt]?)b?|bytes)")
_BYTE_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def at_least_bytes(lowest: int) -> Callable[[str], int]:
    """Return a parser of numbers of bytes such as 64m, that are at least `lowest`.

    The units are those of Spark's options: powers of 1024.
    """

    def read(value: str) -> int:
        if (found := _BYTES.fullmatch(value.strip().lower())) is None:
            raise ValueError("expected a whole number of bytes, or one with a unit (k, m, g or t), such as 64m")
        number = int(found[1]) * _BYTE_UNITS[found[2] or ""]
        if number < lowest:
            raise ValueError(f"expected at least {lowest}")
        return number

    return read


def one_of(*allowed: str) -> Callable[[str], str]:
    """Return a parser of one of some words, case-insensitive."""

    def read(value: str) -> str:
        for word in allowed:
            if word.lower() == value.strip().lower():
                return word
        raise ValueError(f"expected {', '.join(allowed[:-1])} or {allowed[-1]}{near_miss(value, allowed)}")

    return read


def json_texts(value: str) -> tuple[str, ...]:
    """Parse Spark's JSON list of several paths."""
    try:
        found = json.loads(value)
    except ValueError:
        raise ValueError("expected a JSON list of texts") from None
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ValueError("expected a JSON list of texts")
    return tuple(found)
