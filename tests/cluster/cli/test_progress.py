"""A progress line that is updated during a wait, and removed afterwards."""

import io
import re
import threading

from rich.console import Console

from rmqlab.cluster.cli.output.progress import Progress


def terminal(*, is_terminal: bool = True) -> Console:
    return Console(file=io.StringIO(), force_terminal=is_terminal, width=60, legacy_windows=False)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_progress_is_updated_and_then_erased() -> None:
    console, shown = terminal(), threading.Semaphore(0)
    numbers = iter(range(1000))

    def text() -> str:
        shown.release()
        return f"starting: {next(numbers)} of 3 ready"

    progress = Progress(console, after_seconds=0)
    progress.begin(text)
    for _ in range(3):
        assert shown.acquire(timeout=60)
    progress.end()
    assert re.search(r"starting: 0 of 3 ready \.\.\. \d+ s", written(console))
    assert "starting: 1 of 3 ready" in written(console)
    assert written(console).endswith("\x1b[2K"), "the line is erased"
    progress.end()


def test_progress_of_a_quick_task_is_not_shown() -> None:
    console = terminal()
    progress = Progress(console, after_seconds=1000)
    progress.begin(lambda: "nothing to see")
    progress.end()
    assert written(console) == ""


def test_without_a_terminal_nothing_is_written() -> None:
    console = terminal(is_terminal=False)
    progress = Progress(console, after_seconds=0)
    progress.begin(lambda: "nothing to see")
    progress.end()
    assert written(console) == ""
