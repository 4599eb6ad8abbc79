"""Commands to a running supervisor over the socket in the cluster's directory.

Each connection carries one command.
"""

import contextlib
import shlex
import socket
from collections.abc import Iterator
from typing import Any

import attrs

from rmqlab.cluster.supervisor.directory import ClusterDirectory, NoClusterError
from rmqlab.runtime.mapcodec import CHUNK, MapCodec
from rmqlab.runtime.regularfile import odd_kind
from rmqlab.verdict.runs import newest_run


@attrs.frozen
class CommandRequest:
    """The command. Closing the connection cancels it."""

    verb: str
    arguments: dict[str, Any]


@attrs.frozen
class Item:
    """One of many values, sent as they become known."""

    value: Any


@attrs.frozen
class CommandResult:
    """The last message: the command is done."""

    value: Any


@attrs.frozen
class Failure:
    """The last message: the command failed, and why.

    `is_usage`: the command itself was invalid.
    """

    text: str
    is_usage: bool


CommandMessage = CommandRequest | Item | CommandResult | Failure
COMMANDS: MapCodec[CommandMessage] = MapCodec(CommandMessage)


class CommandFailedError(Exception):
    """The supervisor could not execute the command."""


class CommandUsageError(Exception):
    """The supervisor rejected the command as invalid."""


def ask(directory: ClusterDirectory, verb: str, **arguments: Any) -> Any:
    """Send a command and return the value of the reply.

    NoClusterError if no supervisor runs.
    """
    value = None
    for item in ask_stream(directory, verb, **arguments):
        value = item.value
    return value


def ask_stream(directory: ClusterDirectory, verb: str, **arguments: Any) -> Iterator[Item | CommandResult]:
    """Send a command and yield items as they arrive, then the reply.

    Errors as `ask`, and those of the command.
    """
    with contextlib.closing(_connect(directory)) as connection:
        connection.sendall(COMMANDS.encode(CommandRequest(verb, arguments)))
        decoder = COMMANDS.decoder()
        while data := connection.recv(CHUNK):
            decoder.feed(data)
            for message in decoder.messages():
                match message:
                    case Failure(text=text, is_usage=True):
                        raise CommandUsageError(text)
                    case Failure(text=text):
                        raise CommandFailedError(text)
                    case Item():
                        yield message
                    case CommandResult():
                        yield message
                        return
    raise CommandFailedError(f"the supervisor of cluster {directory.path.name} ended without an answer")


def _connect(directory: ClusterDirectory) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(directory.command_socket))
    except OSError:
        connection.close()
        raise NoClusterError(explain_absence(directory)) from None
    return connection


def explain_absence(directory: ClusterDirectory) -> str:
    """Return why no supervisor runs for this cluster."""
    name = directory.path.name
    if directory.is_up():
        return f"cluster {name} is starting or stopping"
    if (odd := odd_kind(directory.record_path)) is not None:
        return f"{directory.record_path} is {odd}: expected the file that `rmqlab up` writes"
    if directory.record_path.exists():
        return f"cluster {name} is not running; start it with: rmqlab up --name {name}"
    known = sorted(path.parent.name for path in directory.path.parent.glob("*/cluster.json"))
    hint = f"there are: {', '.join(known)}; --name selects one" if known else "start one with: rmqlab up"
    if (run := newest_run(directory.path.parent / "runs" / name)) is not None:
        hint = f"the scenario {name} was run: --name {shlex.quote(str(run))}"
    return f"no cluster {name} in {directory.path.parent}; {hint}"
