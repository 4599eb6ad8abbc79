"""What the commands share: their options, how they print, and how they fail.

Exit status 0: done. 1: not done, one line on stderr says why. 2: the command line made no sense.
"""

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from rmqlab.cluster.cli.progress import working
from rmqlab.cluster.cli.screen import PlainConsole
from rmqlab.cluster.supervisor.command import CommandFailedError, CommandUsageError, ask
from rmqlab.cluster.supervisor.directory import ClusterDirectory, NoClusterError
from rmqlab.cluster.supervisor.topology import ClusterSpec
from rmqlab.runtime.printable import printable_lines

Name = Annotated[str, typer.Option("--name", "-n", help="Which cluster; a path is a run's.", metavar="NAME")]
Target = Annotated[str, typer.Argument(help="broker-a, broker-a:master, broker-a:slave, broker-a-s, namesrv-1.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

DEFAULT_NAME = "default"

JSON_VERSION = 1
"""Version of all documents that `--json` prints (docs/json.md).

A member that is removed or changes its meaning increases it; new members do not. It is no member of the documents:
arrays and objects keyed by metric have no place for one. `rmqlab --json-version` prints it.
"""

console = PlainConsole(soft_wrap=True)
live_console = PlainConsole()
"""For what is drawn again and again: a line too long for the terminal is folded there, where `console` cuts it."""


def directory_of(name: str) -> ClusterDirectory:
    """The directory of a cluster by its name, or by its path, which has a `/`: a run's cluster has no other name."""
    if "/" in name:
        return ClusterDirectory.at(Path(name).expanduser().resolve())
    try:
        ClusterSpec(name=name)
    except ValueError as exc:
        misused(str(exc))
    return ClusterDirectory.named(name)


def command(name: str, verb: str, **arguments: Any) -> Any:
    """As `ask_quietly`, and tell whoever waits that it is under way."""
    doing = " ".join(str(arguments[key]) for key in ("target", "condition") if key in arguments)
    with working(f"{verb} {doing}".strip()):
        return ask_quietly(name, verb, **arguments)


def ask_quietly(name: str, verb: str, **arguments: Any) -> Any:
    """Ask a cluster's supervisor; end the program with the right status when it cannot."""
    try:
        return ask(directory_of(name), verb, **arguments)
    except CommandUsageError as exc:
        misused(str(exc))
    except (CommandFailedError, NoClusterError) as exc:
        fail(str(exc))


def print_json(value: Any) -> None:
    """Print one JSON document of version `JSON_VERSION` on one line of ASCII, other characters escaped."""
    try:
        text = json.dumps(value, default=str, allow_nan=False)
    except (TypeError, ValueError):  # keys of other types, numbers that JSON does not have
        text = json.dumps(_as_json(value), default=str)
    print(text, flush=True)


def _as_json(value: Any) -> Any:
    match value:
        case dict():
            return {key if isinstance(key, str) else str(key): _as_json(item) for key, item in value.items()}
        case list() | tuple():
            return [_as_json(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case _:
            return value


def fail(text: str) -> NoReturn:
    """Say why on stderr; exit status 1."""
    print(error_text(text), file=sys.stderr)
    raise typer.Exit(1)


def misused(text: str) -> NoReturn:
    """Say on stderr what makes no sense; exit status 2."""
    print(error_text(text), file=sys.stderr)
    raise typer.Exit(2)


def error_text(text: str) -> str:
    """What stderr gets: lines after the first are indented, so that no part of a text passes for a line of another."""
    first, *rest = printable_lines(text).split("\n")
    return "\n".join([f"rmqlab: {first}", *(line if line.startswith("  ") else f"  {line}" for line in rest)])
