"""TOML texts that people write."""

import re
import tomllib
from typing import Any, Final

MOST_PARTS: Final = 200
"""Parts of a dotted key. The time of `tomllib` grows with their square: 23 minutes for a key of 1 MB."""
_TEXT = r'(?>"(?:[^"\\\n]|\\.)*"?|\x27[^\x27\n]*\x27?)'
_LONG_TEXT = r'(?>"""(?:[^"\\]|\\[\s\S]?|(?!""")")*|\x27{3}(?:[^\x27]|(?!\x27{3})\x27)*)(?:"{3,5}|\x27{3,5}|\Z)'
_PART = rf"(?>[A-Za-z0-9_-]+|{_TEXT})"
_DOTTED = re.compile(rf"{_LONG_TEXT}|#[^\n]*|(?P<key>(?>(?:{_PART}(?>[ \t]*)\.(?>[ \t]*))+))|{_PART}")
"""The begin of a dotted key, up to its last dot; or a text, comment or word, in which dots do not count.

Groups are atomic, and a text without an end matches up to the end of its line or the last byte, so that no part is read
twice. Possessive groups of Python 3.11 match too much (gh-106052).
"""
_QUOTED = re.compile(_TEXT)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text.

    TOMLDecodeError, ValueError for a number of thousands of digits, RecursionError for deep lists.
    """
    if text.count(".") >= MOST_PARTS:
        for found in _DOTTED.finditer(text):
            key = found["key"] or ""
            if key.count(".") >= MOST_PARTS and _QUOTED.sub("", key).count(".") >= MOST_PARTS:
                raise tomllib.TOMLDecodeError(f"a key of more than {MOST_PARTS} parts")
    return tomllib.loads(text)
