"""Commands to a running supervisor, over the socket in the cluster's directory: one question per connection."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import attrs

from rmqlab.cluster.supervisor.directory import ClusterDirectory, NoClusterError
from rmqlab.runtime.mapcodec import CHUNK, MapCodec


@attrs.frozen
class Ask:
    """The question. Closing the connection withdraws it."""

    verb: str
    arguments: dict[str, Any]


@attrs.frozen
class Item:
    """One of many values, as they come."""

    value: Any


@attrs.frozen
class Answer:
    """The last message: it is done."""

    value: Any


@attrs.frozen
class Failure:
    """The last message: it is not done, and why. `is_usage` tells that the question itself was wrong."""

    text: str
    is_usage: bool


CommandMessage = Ask | Item | Answer | Failure
COMMANDS: MapCodec[CommandMessage] = MapCodec(CommandMessage)


class CommandFailedError(Exception):
    """The supervisor could not do it."""


class CommandUsageError(Exception):
    """The supervisor could not make sense of it."""


def ask(directory: ClusterDirectory, verb: str, **arguments: Any) -> Any:
    """Ask and wait for the answer. NoClusterError when nobody is there to answer."""
    value = None
    for item in ask_stream(directory, verb, **arguments):
        value = item.value
    return value


def ask_stream(directory: ClusterDirectory, verb: str, **arguments: Any) -> Iterator[Item | Answer]:
    """Ask, and give what comes as it comes; the answer last."""
    with contextlib.closing(_connect(directory)) as connection:
        connection.sendall(COMMANDS.encode(Ask(verb, arguments)))
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
                    case Answer():
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
    """Why nobody answers for this cluster."""
    name = directory.path.name
    if directory.is_up():
        return f"cluster {name} is starting or stopping"
    if directory.record_path.exists():
        return f"cluster {name} is not running; start it with: rmqlab up --name {name}"
    known = sorted(path.parent.name for path in directory.path.parent.glob("*/cluster.json"))
    return f"no cluster {name} in {directory.path.parent}" + (f"; there are: {', '.join(known)}" if known else "")
