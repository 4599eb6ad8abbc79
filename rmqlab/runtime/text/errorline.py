"""Prints errors to stderr, broken between words in narrow terminals."""

import os
import sys
import textwrap

from rmqlab.runtime.text.printable import printable_lines

_INDENT = "  "


def error_text(text: str, width: int = 0) -> str:
    """Return an error's text for stderr, with later lines indented.

    Without the indent, a later line would look like another error. Lines are broken between words at this many columns;
    0 leaves them whole. A longer word stays whole, so that a path can be copied.
    """
    first, *rest = printable_lines(text).split("\n")
    lines = [f"rmqlab: {first}", *(line if line.startswith(_INDENT) else f"{_INDENT}{line}" for line in rest)]
    if width > len(_INDENT):
        lines = [row for line in lines for row in _rows(line, width)]
    return "\n".join(lines)


def print_error(text: str) -> None:
    """Print an error to stderr. Files and pipes get whole lines."""
    print(error_text(text, _width()), file=sys.stderr)


def _rows(line: str, width: int) -> list[str]:
    return textwrap.wrap(
        line, width, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    ) or [line]


def _width() -> int:
    """Return the columns of the terminal, 0 without one."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):  # no terminal, or replaced by a test
        return 0
