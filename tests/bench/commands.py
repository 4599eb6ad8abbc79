"""CPU of the command line: one command, from its start to its end.

Only the command's own process counts. CPU time moves little with other load, unlike the time until it returns.
"""

import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.bench.tables import Cell, Table, median
from tests.interop.ours import rmqlab, started, stopped

COMMANDS: dict[str, list[str]] = {
    "--help": ["--help"],
    "up --help": ["up", "--help"],
    "status": ["status", "--name", "{name}"],
    "status --json": ["status", "--json", "--name", "{name}"],
    "events": ["events", "--name", "{name}"],
}


def measure(directory: Path, *, rounds: int) -> Table:
    """A row for each command, at a cluster of a nameserver, a master and a slave."""
    name, _ = started(directory)
    try:
        samples = {
            label: [command_seconds(partial(_run, directory, words, name)) for _ in range(rounds)]
            for label, words in COMMANDS.items()
        }
    finally:
        stopped(directory, name)
    rows: list[list[Cell]] = [[label, round(median(one) * 1000, 1)] for label, one in samples.items()]
    return Table("CPU of commands, ms", ["command", "ms"], rows, f"Medians of {rounds}.", samples, {1: "less"})


def command_seconds(run: Callable[[], object]) -> float:
    """Return the CPU seconds of the processes that `run` starts and waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _run(directory: Path, words: list[str], name: str) -> str:
    return rmqlab(directory, *(word.format(name=name) for word in words))
