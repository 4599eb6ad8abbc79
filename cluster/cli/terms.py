"""Common options, output and errors of all commands.

Exit status 0: done. 1: not done, one line on stderr says why. 2: the command line is invalid.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import click

from rmqlab.cluster.cli.completion import complete_cluster, complete_target
from rmqlab.cluster.cli.progress import working
from rmqlab.cluster.jsontext import json_text
from rmqlab.cluster.supervisor.command import CommandFailedError, CommandUsageError, ask
from rmqlab.cluster.supervisor.directory import ClusterDirectory, NoClusterError, Record, RecordError
from rmqlab.cluster.supervisor.topology import ClusterSpec
from rmqlab.runtime.printable import printable, printable_lines

DEFAULT_NAME = "default"

name_option = click.option(
    "--name",
    "-n",
    metavar="NAME",
    default=DEFAULT_NAME,
    shell_complete=complete_cluster,
    help="Name of the cluster, or path of a run.",
)
target_argument = click.argument(
    "target", shell_complete=complete_target, help="broker-a, broker-a:master, broker-a:slave, broker-a-s, namesrv-1."
)
targets_argument = click.argument(
    "targets",
    metavar="TARGET...",
    nargs=-1,
    required=True,
    shell_complete=complete_target,
    help="broker-a, broker-a:master, broker-a:slave, broker-a:*, ...",
)
json_option = click.option("as_json", "--json", is_flag=True, help="Print JSON for programs.")


JSON_VERSION = 2
"""Version of all documents that `--json` prints (docs/json.md).

A member that is removed or changes its meaning increases it; new members do not. It is no member of the documents:
arrays and objects keyed by metric have no place for one. `rmqlab --json-version` prints it.
"""


def directory_of(name: str) -> ClusterDirectory:
    """Return the directory of a cluster by its name, or by a path with `/`.

    Clusters of runs have no name.
    """
    if "/" in name:
        try:
            path = Path(name).expanduser()
        except RuntimeError:  # such as ~unknown_user
            misused(f"{name}: no user of this machine has such a home directory")
        return ClusterDirectory.at(Path(os.path.realpath(path)))  # `resolve` fails at a loop of links
    try:
        ClusterSpec(name=name)
    except ValueError as exc:
        misused(str(exc))
    return ClusterDirectory.named(name)


def record_of(directory: ClusterDirectory) -> Record | None:
    """Return the record of a cluster; None for a new one.

    End the program if the record is damaged.
    """
    try:
        return directory.read_record()
    except RecordError as exc:
        fail(str(exc))


def command(name: str, verb: str, **arguments: Any) -> Any:
    """As `ask_quietly`, and show the current wait on a terminal."""
    doing = " ".join(str(arguments[key]) for key in ("target", "condition") if key in arguments)
    with working(f"{verb} {doing}".strip()):
        return ask_quietly(name, verb, **arguments)


def ask_quietly(name: str, verb: str, **arguments: Any) -> Any:
    """Send a command to the supervisor.

    End the program with status 1 or 2 if it fails.
    """
    try:
        return ask(directory_of(name), verb, **arguments)
    except CommandUsageError as exc:
        misused(str(exc))
    except (CommandFailedError, NoClusterError) as exc:
        fail(str(exc))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines for a person, with control characters escaped."""
    for line in lines:
        print(printable(line), flush=True)


def print_json(value: Any) -> None:
    """Print one JSON document of version `JSON_VERSION` on one line of ASCII.

    Other characters are escaped.
    """
    print(json_text(value), flush=True)


def fail(text: str) -> NoReturn:
    """Print an error to stderr, and exit with status 1: not done."""
    print(error_text(text), file=sys.stderr)
    raise click.exceptions.Exit(1)


def misused(text: str) -> NoReturn:
    """Print an error to stderr, and exit with status 2: the command line is invalid."""
    print(error_text(text), file=sys.stderr)
    raise click.exceptions.Exit(2)


def error_text(text: str) -> str:
    """Return an error's text for stderr, with later lines indented.

    Without the indent, a later line would look like another error.
    """
    first, *rest = printable_lines(text).split("\n")
    return "\n".join([f"rmqlab: {first}", *(line if line.startswith("  ") else f"  {line}" for line in rest)])
