"""Progress of a hunt: a bar on a terminal, and the summary line."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn

from rmqlab.cluster.cli.output.screen import console, live_console
from rmqlab.cluster.hunt import hunt as hunting
from rmqlab.runtime.interrupts import as_ctrl_c


@contextmanager
def shown(progress: hunting.Progress, budget: hunting.HuntBudget, *, as_json: bool) -> Iterator[Callable[[], object]]:
    """Show a bar on a terminal. Yield the function that redraws it.

    Ctrl-C and SIGTERM end the block.
    """
    bar = Progress(
        BarColumn(),
        TextColumn("{task.description}"),
        console=live_console,
        auto_refresh=False,  # without a thread, because the hunt forks
        transient=True,
        disable=as_json or not console.is_terminal,
    )
    task = bar.add_task("", total=budget.seeds)
    try:
        with as_ctrl_c(signal.SIGTERM), bar:
            yield lambda: bar.update(task, completed=progress.seeds, description=_how_far(progress), refresh=True)
    except KeyboardInterrupt:
        progress.problems.append("interrupted")


def _how_far(progress: hunting.Progress) -> str:
    text = f"{_schedules(progress)}, {progress.seeds / progress.seconds:.1f}/s, {_speed(progress)}"
    return f"{text}; reducing: {progress.shrinking}" if progress.shrinking else text


def _schedules(progress: hunting.Progress) -> str:
    return f"{progress.seeds} schedule{'s' * (progress.seeds != 1)}"


def _speed(progress: hunting.Progress) -> str:
    return f"{progress.virtual_seconds / max(progress.seconds, 0.001):.0f} times real time"


def budget_document(progress: hunting.Progress, budget: hunting.HuntBudget) -> dict[str, Any]:
    """Return the JSON members that both kinds of hunts have."""
    return {
        "first_seed": budget.first_seed,
        "schedules": progress.seeds,
        "unknown": progress.unknown,
        "problems": progress.problems,
        "seconds": round(progress.seconds, 2),
        "virtual_seconds": round(progress.virtual_seconds, 1),
    }


def summary(progress: hunting.Progress, found: int, what: str) -> str:
    """Return the last line of a hunt, with its counts."""
    broke = f"{found} {what}" if found else "nothing broke"
    unknown = f", {progress.unknown} with a claim that could not be judged" if progress.unknown else ""
    return f"{broke}; {_schedules(progress)} in {progress.seconds:.0f} s, {_speed(progress)}{unknown}"
