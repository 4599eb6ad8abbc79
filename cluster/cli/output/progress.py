"""Shows progress on stderr, only in a terminal, and only if it takes a while."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import attrs

from rmqlab.runtime.text.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

AFTER_SECONDS = 0.7
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS = 0.1


@attrs.define(eq=False)
class Progress:
    """An animated line, drawn by its own thread."""

    console: "Console | None" = None
    """The stream to draw on; by default the terminal of stderr."""
    after_seconds: float = AFTER_SECONDS
    _ended: threading.Event = attrs.field(factory=threading.Event, init=False)
    _thread: threading.Thread | None = attrs.field(default=None, init=False)

    def begin(self, text: Callable[[], str]) -> None:
        """Show the result of `text`, after a delay. The thread calls it."""
        is_drawable = self.console.is_terminal if self.console is not None else sys.stderr.isatty()
        if is_drawable and self._thread is None:
            self._thread = threading.Thread(target=self._show, args=(text,), daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Remove the line. May be called again."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self, text: Callable[[], str]) -> None:
        if self._ended.wait(self.after_seconds):
            return
        from rich.live import Live  # noqa: PLC0415 -- quick commands do without rich
        from rich.text import Text  # noqa: PLC0415 -- as above

        from rmqlab.cluster.cli.output.screen import PlainConsole  # noqa: PLC0415 -- as above

        console = self.console or PlainConsole(stderr=True)
        if console.is_dumb_terminal:
            return
        began_at = time.monotonic()
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while not self._ended.is_set():
                seconds = time.monotonic() - began_at + self.after_seconds
                frame = _FRAMES[int(seconds / _FRAME_SECONDS) % len(_FRAMES)]
                live.update(
                    Text(f"{frame} {printable(text())} ... {seconds:.0f} s", no_wrap=True, overflow="ellipsis"),
                    refresh=True,
                )
                self._ended.wait(_FRAME_SECONDS)


@contextlib.contextmanager
def working(text: str) -> Iterator[None]:
    """Show a text while the block runs, if it takes a while."""
    progress = Progress()
    progress.begin(lambda: text)
    try:
        yield
    finally:
        progress.end()
