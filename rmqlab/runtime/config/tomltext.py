"""TOML texts that people write."""

import bisect
import re
import tomllib
from typing import Any, Final

MOST_PARTS: Final = 200
"""Parts of a dotted key. The time of `tomllib` grows with their square: 23 minutes for a key of 1 MB."""
BYTE_ORDER_MARK: Final = "\ufeff"
_TEXT = r'(?>"(?:[^"\\\n]|\\.)*"?|\x27[^\x27\n]*\x27?)'
_LONG_TEXT = r'(?>"""(?:[^"\\]|\\[\s\S]?|(?!""")")*|\x27{3}(?:[^\x27]|(?!\x27{3})\x27)*)(?:"{3,5}|\x27{3,5}|\Z)'
_PART = rf"(?>[A-Za-z0-9_-]+|{_TEXT})"
_DOTTED = re.compile(rf"{_LONG_TEXT}|#[^\n]*|(?P<key>(?>(?:{_PART}(?>[ \t]*)\.(?>[ \t]*))+))|{_PART}")
"""The begin of a dotted key, up to its last dot; or a text, comment or word, in which dots do not count.

Groups are atomic, and a text without an end matches up to the end of its line or the last byte, so that no part is read
twice. Possessive groups of Python 3.11 match too much (gh-106052).
"""
_QUOTED = re.compile(_TEXT)
_PLACE = re.compile(r" \(at line (?P<line>\d+), column (?P<column>\d+)\)$")
_AT_END = "(at end of document)"


def why_no_toml(exc: ValueError | RecursionError) -> str:
    """Return the fault of a text that `tomllib` rejects."""
    if isinstance(exc, RecursionError):
        return "values are nested too deeply"
    return str(exc) if isinstance(exc, tomllib.TOMLDecodeError) else "a number has too many digits"


def toml_fault(exc: ValueError | RecursionError, text: str) -> tuple[int, str]:
    """Return the line of the fault, and what it is.

    `exc` is what `parse_toml` raised for the text. A fault without a line is on the last line of the shortest part of
    the text that has it; a text that ends too early has it on its last line.
    """
    reason = why_no_toml(exc)
    if place := _PLACE.search(reason):
        return int(place["line"]), f"{reason[: place.start()]} (column {place['column']})"
    lines = text.splitlines(keepends=True)
    if reason.endswith(_AT_END):
        return max(len(lines), 1), reason

    def has_fault(count: int) -> bool:
        try:
            parse_toml("".join(lines[:count]))
        except (ValueError, RecursionError) as found:
            return why_no_toml(found) == reason
        return False

    return max(1, bisect.bisect_left(range(len(lines)), x=True, key=has_fault)), reason


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text.

    A byte order mark, as Windows editors write it, is ignored. TOMLDecodeError, ValueError for a number of thousands of
    digits, RecursionError for deep lists.
    """
    text = text.removeprefix(BYTE_ORDER_MARK)
    if text.count(".") >= MOST_PARTS:
        for found in _DOTTED.finditer(text):
            key = found["key"] or ""
            if key.count(".") >= MOST_PARTS and _QUOTED.sub("", key).count(".") >= MOST_PARTS:
                raise tomllib.TOMLDecodeError(f"a key of more than {MOST_PARTS} parts")
    return tomllib.loads(text)
