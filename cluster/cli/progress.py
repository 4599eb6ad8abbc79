"""Shows progress on stderr, only in a terminal, and only if it takes a while."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import attrs
from rich.console import Console
from rich.live import Live
from rich.text import Text

from rmqlab.cluster.cli.screen import PlainConsole
from rmqlab.runtime.printable import printable

AFTER_SECONDS = 0.7
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS = 0.1


@attrs.define(eq=False)
class Progress:
    """An animated line, drawn by its own thread."""

    console: Console = attrs.field(factory=lambda: PlainConsole(stderr=True))
    after_seconds: float = AFTER_SECONDS
    _ended: threading.Event = attrs.field(factory=threading.Event, init=False)
    _thread: threading.Thread | None = attrs.field(default=None, init=False)

    def begin(self, text: Callable[[], str]) -> None:
        """Show what `text` returns, after a while. The thread calls it."""
        if self.console.is_terminal and not self.console.is_dumb_terminal and self._thread is None:
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
        began_at = time.monotonic()
        with Live(console=self.console, auto_refresh=False, transient=True) as live:
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
