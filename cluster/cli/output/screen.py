"""The consoles of all commands: print text without markup or control characters."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import attrs
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from rmqlab.cluster.cli.failures import OutputClosedError, writing_output
from rmqlab.runtime.text.printable import printable_lines


class PlainConsole(Console):
    """A rich console without markup, highlighting and emoji.

    Views escape foreign text, line breaks included, before they lay it out (`rmqlab.runtime.text.printable`). Any control
    character that is left is escaped here.
    """

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, stderr=stderr, soft_wrap=soft_wrap)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render, with control characters escaped except in rich's own control segments."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does. Raise OutputFailedError if the output cannot be written."""
        with writing_output():
            super().print(*objects, **options)

    def on_broken_pipe(self) -> NoReturn:
        """Raise OutputClosedError.

        rich ends with status 1, which is a verdict of some commands.
        """
        raise OutputClosedError


def _breaks(text: str, width: int) -> list[int]:
    """Return the offsets of the words that begin rows of this many columns.

    A longer word stays whole, so that a path can be copied.
    """
    offsets: list[int] = []
    used = 0
    for word in re.finditer(r"(\S+)\s*", text):
        if used and used + cell_len(word[1]) > width:
            offsets.append(word.start())
            used = 0
        used += cell_len(word[0])
    return offsets


def hanging_rows(line: Text, width: int, indent: int) -> Iterator[Text]:
    """Yield a line in rows of this many columns, broken between words.

    Later rows are indented. A line is left whole if the indent would take more than half of the width.
    """
    left = width - indent
    if line.cell_len <= width or left < indent:
        yield line
        return
    head, rest = line.divide([indent])
    for number, row in enumerate(rest.divide(_breaks(rest.plain, left))):
        row.rstrip()
        yield (head if number == 0 else Text(" " * indent)).append_text(row)


@attrs.frozen
class HangingLine:
    """A line that a narrower terminal shows in several rows.

    It is broken between words, and later rows are indented. Files and pipes get one line, for grep.
    """

    line: Text
    indent: int = 0
    """Columns of the line's head, such as its time and its node."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[RenderableType]:
        """Yield the rows."""
        if console.is_terminal:
            yield from hanging_rows(self.line, options.max_width, self.indent)
        else:
            yield self.line


console = PlainConsole(soft_wrap=True)
live_console = PlainConsole()
"""For repeated drawing: it folds a line that is too long for the terminal, `console` leaves it to the terminal."""
