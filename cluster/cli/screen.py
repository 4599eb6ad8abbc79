"""The consoles of all commands: print text without markup or control characters."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from rmqlab.runtime.printable import printable_lines


class PlainConsole(Console):
    """A rich console without markup, highlighting and emoji.

    Views escape foreign text, line breaks included, before they lay it out (`rmqlab.runtime.printable`). Any control
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


console = PlainConsole(soft_wrap=True)
live_console = PlainConsole()
"""For repeated drawing: it folds a line that is too long for the terminal, `console` leaves it to the terminal."""
