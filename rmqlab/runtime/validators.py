"""What a setting may be, as attrs validators whose errors a user can read: key, value, and what was expected.

The same validators run wherever a value comes from: a file, `--set`, the Python API, request 25 or 318 (issue 12.1).
"""

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
LONGEST_TEXT: Final = 4096
"""Characters of a setting: more than any path of Linux has."""
FIXED: Final = {"is_fixed": True}
"""Metadata of a field that no request may change, for it decides where files lie (CVE-2023-37582, issue 12.1)."""
_UNWRITABLE: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories of what ends a line, controls a terminal, or has no UTF-8 form (a lone surrogate)."""
_SHOWN: Final = 100


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


def addresses(*, separator: str = ";") -> Check:
    """ValueError for text that is not `host:port`, or several of them. Empty text is legal."""

    def check(_instance: object, field: Any, value: str) -> None:
        for part in filter(None, map(str.strip, value.split(separator))):
            if not is_address(part):
                raise ValueError(
                    f"{field.name} = {shown(value)}: {shown(part)} is not host:port (several are separated by {separator})"
                )

    return check


def is_address(text: str) -> bool:
    """True for `host:port` that a socket can be asked to connect to."""
    host, _, port = text.rpartition(":")
    return is_host(host) and port.isascii() and port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536


def is_host(text: str) -> bool:
    """True for an IP address or a name that the resolver takes. Other text makes `bind` and `connect` raise UnicodeError."""
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return bool(text) and not any(character.isspace() for character in text)


def line_fault(text: str) -> str | None:
    """Say what was expected of text that cannot stand in one line of a settings file, or None for text that can."""
    if len(text) > LONGEST_TEXT:
        return f"at most {LONGEST_TEXT} characters, not {len(text)}"
    if any(unicodedata.category(character) in _UNWRITABLE for character in text):
        return "one line without control characters"
    return None


def shown(value: object) -> str:
    """A value as an error shows it, cut off where it is long."""
    try:
        text = repr(value)
    except ValueError:  # an int of more digits than Python converts
        return "a number of several thousand digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def one_line_texts(_kind: type[Any], fields: "list[attrs.Attribute[Any]]") -> "list[attrs.Attribute[Any]]":
    """An attrs field_transformer: every text and path of a settings class must fit in one line of its file."""
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
