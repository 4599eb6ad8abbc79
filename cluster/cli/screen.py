"""The console that all commands print with: text is text, never markup, and cannot steer the terminal."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from rmqlab.runtime.printable import printable_lines


class PlainConsole(Console):
    """A console of rich that interprets nothing in what it prints.

    Views escape what foreigners chose before they lay it out, line breaks included (`rmqlab.runtime.printable`). This is the
    net under them: a control character that comes through is escaped here.
    """

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, stderr=stderr, soft_wrap=soft_wrap)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render, with control characters escaped in all that is not rich's own control."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)
