"""Commands to a running supervisor over the socket in the cluster's directory.

Each connection carries one command.
"""

import contextlib
import shlex
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import attrs

from rmqlab.cluster.supervisor.files.directory import ClusterDirectory, NoClusterError
from rmqlab.runtime.node.mapcodec import CHUNK, ControlError, MapCodec
from rmqlab.runtime.regularfile import odd_kind
from rmqlab.verdict.runs import NoHomeError, home, newest_run


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

    `is_usage`: the command itself was invalid. `is_late`: a condition was not true in time.
    """

    text: str
    is_usage: bool
    is_late: bool = False


CommandMessage = CommandRequest | Item | CommandResult | Failure
COMMANDS: MapCodec[CommandMessage] = MapCodec(CommandMessage)


A = TypeVar("A")
R = TypeVar("R")

SILENT_SECONDS: Final = 10.0
"""Seconds without a byte from the supervisor after which a second command asks whether it responds."""
RESPONSE_SECONDS: Final = 20.0
"""Seconds that the supervisor has for that response."""
_CONNECT_SECONDS: Final = 0.05
"""Pause between attempts to connect."""


class CommandFailedError(Exception):
    """The supervisor could not execute the command."""


class CommandLateError(CommandFailedError):
    """A condition was not true in time."""


class SupervisorEndedError(CommandFailedError):
    """The supervisor ended before the command did."""


class CommandUsageError(Exception):
    """The supervisor rejected the command as invalid."""


def error_of(failure: Failure) -> CommandFailedError | CommandUsageError:
    """Return the exception for a failure."""
    if failure.is_usage:
        return CommandUsageError(failure.text)
    return CommandLateError(failure.text) if failure.is_late else CommandFailedError(failure.text)


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
        for message in _replies(connection, directory, CommandRequest(verb, arguments)):
            match message:
                case Failure():
                    raise error_of(message)
                case Item():
                    yield message
                case CommandResult():
                    yield message
                    return
    raise SupervisorEndedError(f"the supervisor of cluster {directory.path.name} ended without a reply")


def _replies(
    connection: socket.socket, directory: ClusterDirectory, request: CommandRequest
) -> Iterator[CommandMessage]:
    """Send a request; yield the messages of the reply, until the connection ends.

    CommandFailedError for invalid bytes, or if the supervisor does not respond.
    """
    connection.settimeout(SILENT_SECONDS)
    unsent = memoryview(COMMANDS.encode(request))
    decoder = COMMANDS.decoder()
    try:
        with contextlib.suppress(BrokenPipeError):  # a supervisor with too many connections replies and closes
            while unsent:
                unsent = unsent[_patiently(directory, connection.send, unsent) :]
        while data := _patiently(directory, connection.recv, CHUNK):
            decoder.feed(data)
            yield from decoder.messages()
    except ConnectionError:
        pass  # the supervisor was killed
    except ControlError as exc:
        raise CommandFailedError(invalid_reply(directory.path.name, exc)) from None


def _patiently(directory: ClusterDirectory, call: Callable[[A], R], argument: A) -> R:
    """Return the result of a call of a socket.

    After a timeout it is repeated if the supervisor responds to another command: then this one takes long.
    """
    while True:
        try:
            return call(argument)
        except TimeoutError:
            check_responds(directory)


def check_responds(directory: ClusterDirectory) -> None:
    """Wait until the supervisor responds to a command, or has ended.

    CommandFailedError if it does neither: a signal has stopped it, or its machine is overloaded.
    """
    with contextlib.suppress(NoClusterError, ConnectionError), _connect(directory) as connection:
        connection.settimeout(RESPONSE_SECONDS)
        try:
            connection.sendall(COMMANDS.encode(CommandRequest("faults", {})))
            connection.recv(1)
        except TimeoutError:
            raise CommandFailedError(_no_response(directory)) from None


def _no_response(directory: ClusterDirectory) -> str:
    pid = directory.supervisor_pid() or "PID"
    return (
        f"the supervisor of cluster {directory.path.name} (pid {pid}) does not respond; if a signal has stopped it,"
        f" continue it with: kill -CONT {pid}"
    )


def invalid_reply(cluster: str, exc: ControlError) -> str:
    """Return the text for bytes that are no reply of a supervisor of this version."""
    return (
        f"the reply from the supervisor of cluster {cluster} is invalid ({exc}). If another version of rmqlab started"
        f" the cluster, stop it with that version: rmqlab down --name {cluster}"
    )


def _connect(directory: ClusterDirectory) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        _connect_in_time(connection, str(directory.command_socket))
    except (BlockingIOError, TimeoutError):  # the supervisor does not accept connections, and the queue of them is full
        connection.close()
        raise CommandFailedError(_no_response(directory)) from None
    except OSError:
        connection.close()
        raise NoClusterError(explain_absence(directory)) from None
    return connection


def _connect_in_time(connection: socket.socket, address: str) -> None:
    """Connect, and wait while the listener's queue is full.

    A connect with a timeout fails at once then. BlockingIOError, if it stays full.
    """
    connection.settimeout(RESPONSE_SECONDS)
    until = time.monotonic() + RESPONSE_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(BlockingIOError):
            return connection.connect(address)
        time.sleep(_CONNECT_SECONDS)  # nothing reports that the queue has a place again
    return connection.connect(address)


def explain_absence(directory: ClusterDirectory) -> str:
    """Return why no supervisor runs for this cluster."""
    name = directory.path.name
    if directory.is_up():
        pid = directory.supervisor_pid()
        hint = f"; if that lasts, `kill {pid}` stops it in order" if pid else ""  # its socket may have been deleted
        return f"cluster {name} is starting or stopping{hint}"
    if (odd := odd_kind(directory.record_path)) is not None:
        return f"{directory.record_path} is {odd}: expected the file that `rmqlab up` writes"
    is_named = _is_named(directory)
    if directory.record_path.exists():
        spelled = name if is_named else shlex.quote(str(directory.path))
        return f"cluster {name} is not running; start it with: rmqlab up --name {spelled}"
    if not is_named:
        return f"no cluster in {directory.path}: expected the directory of a cluster or a run, or a cluster's name"
    if (run := newest_run(directory.path.parent / "runs" / name)) is not None:
        hint = f"the scenario {name} was run: --name {shlex.quote(str(run))}"
    elif known := sorted(path.parent.name for path in directory.path.parent.glob("*/cluster.json")):
        hint = f"there are: {', '.join(known)}; --name selects one"
    else:
        hint = f"start one with: rmqlab up{'' if name == 'default' else f' --name {name}'}"
    return f"no cluster {name} in {directory.path.parent}; {hint}"


def _is_named(directory: ClusterDirectory) -> bool:
    """Return True if `--name` finds the cluster by its name; others need their path."""
    with contextlib.suppress(NoHomeError):
        return directory.path.parent == home()
    return False
