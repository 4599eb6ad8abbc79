"""Escapes text of peers for printing.

All commands, views, errors and logs use it. A group id can contain escape sequences that recolour, overwrite or retitle
a terminal, line breaks that forge a log line, and marks that reverse the direction of the following text. Each such
character becomes its Python escape, such as `\\x1b`.
"""

from collections.abc import Mapping
from typing import Any


def printable(text: str) -> str:
    """Return a text as one line, with unprintable characters escaped.

    Unprintable are the characters that `str.isprintable` rejects: control characters, line breaks, bidirectional and
    other format marks, lone surrogates, private and unassigned characters, and spaces other than the usual one.
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def printable_lines(text: str) -> str:
    """Return a text of several lines, with `printable` applied to each line."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def printable_values(value: Any) -> Any:
    """Return a document with `printable` applied to every text and key in it."""
    match value:
        case str():
            return printable(value)
        case Mapping():
            return {printable_values(key): printable_values(item) for key, item in value.items()}
        case list() | tuple():
            return [printable_values(item) for item in value]
        case _:
            return value


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
