"""Prints lines, and on a terminal also the current wait below them."""

from collections.abc import Callable

import attrs
from rich.console import RenderableType

from rmqlab.cluster.cli.output.progress import Progress
from rmqlab.cluster.cli.output.screen import console


@attrs.define(eq=False)
class LineOutput:
    """Output of a long-running command.

    If silent, it shows only the current wait.
    """

    is_silent: bool = False
    _text: Callable[[], str] | None = attrs.field(default=None, init=False)
    _progress: Progress | None = attrs.field(default=None, init=False)

    def line(self, what: RenderableType) -> None:
        """Print a line that stays."""
        self._hide()
        if not self.is_silent:
            console.print(what)
        self._show()

    def show_progress(self, text: Callable[[], str] | None) -> None:
        """Show the current wait as returned by `text`, which runs in another thread.

        None hides it.
        """
        self._text = text
        if text is None:
            self._hide()
        elif self._progress is None:
            self._show()

    def _show(self) -> None:
        if self._text is not None:
            self._progress = Progress()
            self._progress.begin(lambda: self._text() if self._text else "")

    def _hide(self) -> None:
        if self._progress is not None:
            self._progress.end()
            self._progress = None
