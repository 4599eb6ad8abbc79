"""Makes text that peers chose safe to print: the one place for every command, view, error and log.

A group id may hold escape sequences that recolour, overwrite or retitle a terminal, line breaks that forge a line of a
log, and marks that reverse the direction of what follows. Each such character becomes its Python escape, as `\\x1b`.
Pure.
"""

from collections.abc import Mapping
from typing import Any


def printable(text: str) -> str:
    """Return a text as one line: whatever `str.isprintable` does not hold for is escaped.

    These are control characters, line breaks, bidirectional and other format marks, lone surrogates, private and
    unassigned characters, and spaces other than the usual one.
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def printable_lines(text: str) -> str:
    """Return a text of several lines, each as `printable` returns it."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def printable_values(value: Any) -> Any:
    """Return a document with every text in it, keys too, as `printable` returns it."""
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
