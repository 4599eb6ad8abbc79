"""attrs validators of settings.

Their errors contain key, value, and the expected value. The same validators check values from a file, `--set`, the
Python API, and requests 25 and 318 (issue 12.1).
"""

import datetime as dt
import unicodedata
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

import attrs

Check = Callable[[Any, Any, Any], None]

INT32: Final = 2**31 - 1
"""Largest value of a Java int."""
INT64: Final = 2**63 - 1
"""Largest value of a Java long."""
MOST_SECONDS: Final = 30 * 24 * 3600
"""Longest time of a workload, in seconds of the cluster's clock."""
LEAST_RATE: Final = 0.01
MOST_RATE: Final = 1000
"""Bounds of a cluster's rate: cluster seconds per real second."""
LONGEST_TEXT: Final = 4096
"""Maximum characters of a setting: longer than any path on Linux."""
FIXED: Final = {"is_fixed": True}
"""Metadata of a field that requests must not change, such as paths of files (CVE-2023-37582, issue 12.1)."""
_UNWRITABLE: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories of line breaks, control characters, and lone surrogates, which UTF-8 cannot encode."""
_SHOWN: Final = 100


def at_least(least: float) -> Check:
    """Return a validator: ValueError for smaller values."""
    return _check(lambda value: value >= least, f"at least {least}")


def above(limit: float) -> Check:
    """Return a validator: ValueError for values that are not above the limit."""
    return _check(lambda value: value > limit, f"more than {limit}")


def within(least: float, most: float) -> Check:
    """Return a validator that raises ValueError outside of a range.

    Both ends are valid.
    """
    return _check(lambda value: least <= value <= most, f"{least} to {most}")


def positive_within(most: float) -> Check:
    """Return a validator: ValueError for 0, negative values, and above the limit."""
    return _check(lambda value: 0 < value <= most, f"more than 0, at most {most}")


def one_of(known: Collection[str]) -> Check:
    """Return a validator: ValueError for any other text.

    Its message omits the empty text, if that is valid.
    """
    *others, last = filter(None, known)
    return _check(lambda value: value in known, f"{', '.join(others)} or {last}" if others else last)


def addresses(*, separator: str = ";") -> Check:
    """Return a validator: ValueError for text that is not a list of `host:port`.

    Empty text is valid.
    """

    def check(_instance: object, field: Any, value: str) -> None:
        for part in filter(None, map(str.strip, value.split(separator))):
            if not is_address(part):
                raise ValueError(
                    f"{field.name} = {shown(value)}: {shown(part)} is not host:port (several are separated by"
                    f" {separator})"
                )

    return check


def is_address(text: str) -> bool:
    """Return True for a valid `host:port`."""
    host, _, port = text.rpartition(":")
    return is_host(host) and port.isascii() and port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536


def is_host(text: str) -> bool:
    """Return True for an IP address or a host name.

    Other text makes `bind` and `connect` raise UnicodeError, but for a URL, which is never found.
    """
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return bool(text) and not any(character.isspace() or character == "/" for character in text)


def line_fault(text: str) -> str | None:
    """Return the requirement that a text violates as a line of a settings file.

    None if the text is valid.
    """
    if len(text) > LONGEST_TEXT:
        return f"at most {LONGEST_TEXT} characters, not {len(text)}"
    # `isprintable` is false for all of _UNWRITABLE, and for some more. It takes 0.1 us, and the loop takes 10 us.
    if not text.isprintable() and any(unicodedata.category(character) in _UNWRITABLE for character in text):
        return "one line without control characters"
    return None


def shown(value: object) -> str:
    """Return a value for an error message, truncated if it is long."""
    try:
        text = repr(value)
    except ValueError:  # an int with more digits than Python converts
        return "a number of several thousand digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def as_written(value: object) -> str:
    """As `shown`, for values of files and requests.

    TOML and JSON have `true`, not `True`, and TOML has dates.
    """
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else shown(value)


def one_line_texts(_kind: type[Any], fields: "list[attrs.Attribute[Any]]") -> "list[attrs.Attribute[Any]]":
    """Require every text and path of a settings class to be one line.

    An attrs field_transformer.
    """
    return [
        field.evolve(validator=attrs.validators.and_(_is_one_line, *([field.validator] if field.validator else [])))
        if field.type in (str, Path)
        else field
        for field in fields
    ]


def _is_one_line(_instance: object, field: Any, value: object) -> None:
    if fault := line_fault(str(value)):
        raise ValueError(f"{field.name} = {shown(value)}: expected {fault}")


def _check(holds: Callable[[Any], bool], expected: str) -> Check:
    def check(_instance: object, field: Any, value: Any) -> None:
        try:
            fits = holds(value)
        except TypeError:
            fits = False
        if not fits:
            raise ValueError(f"{field.name} = {shown(value)}: expected {expected}")

    return check
