"""Tokens of a SQL92 expression, by RocketMQ's grammar (SelectorParser.jj)."""

import re
from collections.abc import Iterator
from typing import NamedTuple

KEYWORDS = frozenset({"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"})
"""Case-insensitive keywords. Other names are properties, which are case-sensitive."""

MAX_LENGTH = 2**16
"""Characters of an expression."""

_LINE_COMMENT = r"--[^\n\r]*+(?:\r\n|\n|\r) |"
_WITHOUT_LINE_COMMENTS = r"""(?P<skip>[ \t\n\r\f]+ | /\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)
    | (?P<float>[0-9]++\.[0-9]*+(?:[eE][+-]?[0-9]++)? | \.[0-9]++(?:[eE][+-]?[0-9]++)? | [0-9]++[eE][+-]?[0-9]++)
    | (?P<whole>0 | [1-9][0-9]*[lL]?)
    | (?P<text>'(?:''|[^'])*')
    | (?P<name>[a-zA-Z_$][a-zA-Z0-9_$]*)
    | (?P<sign><> | <= | >= | [=<>(),+-])"""
_LAST_LINE_TOKEN = re.compile(_WITHOUT_LINE_COMMENTS, re.VERBOSE)
_TOKEN = re.compile(_WITHOUT_LINE_COMMENTS.replace("(?P<skip>", f"(?P<skip>{_LINE_COMMENT}", 1), re.VERBOSE)


class FilterError(Exception):
    """An invalid expression. The text names the position and the unexpected token."""


class Token(NamedTuple):
    """A word of an expression.

    `kind` is a keyword or a sign itself, or float, whole, text, name, or end.
    """

    kind: str
    image: str
    at: int


def tokens(expression: str) -> Iterator[Token]:
    """Yield the tokens of an expression, then an end token.

    FilterError at an invalid token.

    A generator, because RocketMQ reads an expression no further than its grammar matches: later tokens may be invalid.
    """
    if len(expression) > MAX_LENGTH:
        raise FilterError(f"an expression of {len(expression)} characters; at most {MAX_LENGTH}")
    at = 0
    last_line = max(expression.rfind("\n"), expression.rfind("\r"))
    while at < len(expression):
        # A comment ends with its line. In the last line `--` are signs, and none of them searches all that follows.
        match = (_TOKEN if at < last_line else _LAST_LINE_TOKEN).match(expression, at)
        if match is None:
            raise FilterError(f"at character {at + 1}: {expression[at]!r} begins no valid token")
        kind, image = str(match.lastgroup), match[0]
        if kind == "name" and image.upper() in KEYWORDS:
            kind = image.upper()
        if kind != "skip":
            yield Token(image if kind == "sign" else kind, image, at)
        at = match.end()
    while True:
        yield Token("end", "the end", at)
