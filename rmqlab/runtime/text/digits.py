"""Reads whole numbers from text that anyone may have written."""

from typing import Final

_MOST: Final = 18
"""Digits of a number that fits into 64 bits, with sign. Python refuses to convert more than 4,300."""


def number_of(text: str | bytes) -> int | None:
    """Return the number that up to 18 ASCII digits form; None for other text.

    `str.isdigit` accepts characters such as `²`, which `int` rejects.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST else None
