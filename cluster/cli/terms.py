"""Common options, output and errors of all commands.

Exit status 0: done. 1: not done, one line on stderr says why. 2: the command line is invalid. Commands whose status 1
is a result, such as `violated`, end with 2 if they have no result.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import click

from rmqlab.cluster.cli.completion import complete_cluster, complete_target
from rmqlab.cluster.cli.failures import writing_output
from rmqlab.cluster.cli.output.progress import working
from rmqlab.cluster.jsontext import json_text
from rmqlab.cluster.supervisor.command import CommandFailedError, CommandUsageError, ask
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, NoClusterError, Record, RecordError
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.runtime.text.errorline import print_error
from rmqlab.runtime.text.printable import printable
from rmqlab.verdict.runs import NoRunError, find_run, home

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


JSON_VERSION = 3
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


def run_directory(run: str) -> Path:
    """Return the directory with the journals of a run.

    A run is named by its cluster, by its scenario (the newest run), or by a path.
    End the program with status 2 if there is no such run.
    """
    try:
        return find_run(run, home())
    except (NoRunError, OSError) as exc:
        misused(f"{exc.filename}: {exc.strerror}" if isinstance(exc, OSError) else str(exc))


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
    with writing_output():
        for line in lines:
            print(printable(line), flush=True)


def print_json(value: Any) -> None:
    """Print one JSON document of version `JSON_VERSION` on one line of ASCII.

    Other characters are escaped.
    """
    with writing_output():
        print(json_text(value), flush=True)


def fail(text: str) -> NoReturn:
    """Print an error to stderr, and exit with status 1: not done."""
    print_error(text)
    raise click.exceptions.Exit(1)


def misused(text: str) -> NoReturn:
    """Print an error to stderr, and exit with status 2: the command line is invalid."""
    print_error(text)
    raise click.exceptions.Exit(2)


def no_result(text: str) -> NoReturn:
    """Print an error to stderr, and exit with status 2: there is no result.

    For commands whose status 1 is a result, such as `violated`.
    """
    misused(text)
