"""Tokens of a SQL92 expression, as RocketMQ's grammar cuts them (SelectorParser.jj)."""

import re
from collections.abc import Iterator
from typing import NamedTuple

KEYWORDS = frozenset({"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"})
"""In any case. Other names are properties, whose case counts."""

MAX_LENGTH = 2**16
"""Characters of an expression."""

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\n\r\f]+ | --[^\n\r]*(?:\r\n|\n|\r) | /\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)
    | (?P<float>[0-9]++\.[0-9]*+(?:[eE][+-]?[0-9]++)? | \.[0-9]++(?:[eE][+-]?[0-9]++)? | [0-9]++[eE][+-]?[0-9]++)
    | (?P<whole>0 | [1-9][0-9]*[lL]?)
    | (?P<text>'(?:''|[^'])*')
    | (?P<name>[a-zA-Z_$][a-zA-Z0-9_$]*)
    | (?P<sign><> | <= | >= | [=<>(),+-])""",
    re.VERBOSE,
)


class FilterError(Exception):
    """An expression that cannot be used. The text says what was found, and where."""


class Token(NamedTuple):
    """A word of an expression. `kind` is a keyword or a sign itself, or float, whole, text, name, or end."""

    kind: str
    image: str
    at: int


def tokens(expression: str) -> Iterator[Token]:
    """Cut an expression, word by word, with an end behind the last. FilterError at what is no word.

    What is never asked for is never looked at: RocketMQ reads an expression no further than it understands it.
    """
    if len(expression) > MAX_LENGTH:
        raise FilterError(f"an expression of {len(expression)} characters; at most {MAX_LENGTH}")
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            raise FilterError(f"at character {at + 1}: {expression[at]!r} begins nothing that is known")
        kind, image = str(match.lastgroup), match[0]
        if kind == "name" and image.upper() in KEYWORDS:
            kind = image.upper()
        if kind != "skip":
            yield Token(image if kind == "sign" else kind, image, at)
        at = match.end()
    while True:
        yield Token("end", "the end", at)
