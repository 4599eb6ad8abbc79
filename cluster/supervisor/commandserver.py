"""The socket of the supervisor: connections, limits, and failures as replies."""

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import trio

from rmqlab.cluster.apimethods import ClusterClosedError
from rmqlab.cluster.conditions import UnknownConditionError
from rmqlab.cluster.lab import Cluster, WaitTimeoutError
from rmqlab.cluster.supervisor.check_settings import BadSettingsError
from rmqlab.cluster.supervisor.command import COMMANDS, CommandMessage, CommandRequest, CommandResult, Failure, Item
from rmqlab.cluster.supervisor.commandhandlers import HANDLERS, InvalidCommandError, ReceivedArguments
from rmqlab.cluster.supervisor.files.privatesocket import private_socket
from rmqlab.cluster.supervisor.fork.children import ForkServerGoneError
from rmqlab.cluster.supervisor.marks import BadMarkError
from rmqlab.cluster.supervisor.nodelink import unexpected
from rmqlab.cluster.supervisor.plan.eventfilter import UnknownKindError
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError, WrongStateError
from rmqlab.cluster.supervisor.plan.topology import UnknownTargetError
from rmqlab.faults import FaultError
from rmqlab.runtime.bounds import cut_text
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.exceptiongroups import leaves
from rmqlab.runtime.node.mapcodec import CHUNK, ControlError

ASK_SECONDS = 5.0
MAX_CONNECTIONS: Final = 200
"""Connections at a time; further ones get a failure."""
MAX_COMMANDS: Final = 100
"""Commands that run at a time, also those that follow events; further ones fail. `down` is always executed."""
_BACKLOG: Final = 128
_TURNS: Final = 3
"""Turns in which a task notices that the peer has closed the connection: it reads in the first, cancels in the next."""
_LONGEST_ERROR = 10_000
"""Characters of the text of a failure."""
_USAGE = (
    InvalidCommandError,
    UnknownTargetError,
    UnknownConditionError,
    UnknownKindError,
    FaultError,
    BadSettingsError,
    BadMarkError,
)
_FAILURES = (NodeFailedError, WrongStateError, ForkServerGoneError, ClusterClosedError)
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)


async def serve_commands(
    cluster: Cluster, down: Callable[[], object], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve commands until cancelled.

    Call `down` once a command has stopped the cluster.
    """
    directory = cluster.supervisor.directory
    async with private_socket(directory, directory.command_socket, _BACKLOG) as listener:
        task_status.started()

        connections, commands = trio.Semaphore(MAX_CONNECTIONS), trio.Semaphore(MAX_COMMANDS)

        async def serve(stream: trio.SocketStream) -> None:
            async with stream:
                with _slot(connections) as is_free:
                    verb = None
                    if is_free:
                        verb = await serve_connection(cluster, stream, commands)
                    else:
                        await _turn_away(stream)
                if verb == "down":
                    down()

        await trio.serve_listeners(serve, [listener])


@contextlib.contextmanager
def _slot(free: trio.Semaphore) -> Iterator[bool]:
    """Hold a slot during the block. False if all are in use."""
    try:
        free.acquire_nowait()
    except trio.WouldBlock:
        yield False
        return
    try:
        yield True
    finally:
        free.release()


async def _turn_away(stream: trio.abc.Stream) -> None:
    with trio.move_on_after(real_seconds(ASK_SECONDS)), contextlib.suppress(*_GONE):
        await stream.send_all(
            COMMANDS.encode(_failure(f"the supervisor has {MAX_CONNECTIONS} connections: close some"))
        )


async def serve_connection(cluster: Cluster, stream: trio.abc.Stream, free: trio.Semaphore) -> str | None:
    """Serve the one command of a connection; return its verb if it succeeded.

    `free`: commands that may run beside those that run.

    The command is cancelled when the connection closes.

    A bad request ends only its connection: invalid bytes are recorded, unexpected exceptions counted.
    """
    supervisor = cluster.supervisor
    done = None

    async def send(message: CommandMessage) -> None:
        await stream.send_all(COMMANDS.encode(message))

    try:
        request = await _receive_request(stream)
        if request is None:
            return None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_at_end, stream, nursery.cancel_scope)
            for _ in range(_TURNS):  # a peer that has left, such as one that did not wait, no longer wants it
                await trio.lowlevel.checkpoint()
            reply = await _execute_beside(free, cluster, request, send)
            await _send_reply(send, reply)
            if isinstance(reply, CommandResult):
                done = request.verb
            nursery.cancel_scope.cancel()
    except* _GONE:
        pass  # the peer has closed the connection
    except* ControlError as group:
        for exc in leaves(group):
            supervisor.record("", "control_error", reason=f"command socket: {exc}")
    except* Exception as failed:  # noqa: BLE001 - a boundary
        for error in leaves(failed):
            supervisor.processes.errors.caught("command connection", error)
    return done


async def _send_reply(send: Callable[[CommandMessage], Awaitable[None]], reply: CommandResult | Failure) -> None:
    try:
        await send(reply)
    except ControlError as exc:
        await send(Failure(f"the reply cannot be sent: {exc}", is_usage=False))


async def _receive_request(stream: trio.abc.Stream) -> CommandRequest | None:
    decoder = COMMANDS.decoder()
    with trio.move_on_after(real_seconds(ASK_SECONDS)):
        while data := await stream.receive_some(CHUNK):
            decoder.feed(bytes(data))
            for message in decoder.messages():
                if isinstance(message, CommandRequest):
                    return message
                raise unexpected(message)
    return None


async def _cancel_at_end(stream: trio.abc.Stream, scope: trio.CancelScope) -> None:
    while await stream.receive_some(CHUNK):
        pass
    scope.cancel()


async def _execute_beside(
    free: trio.Semaphore, cluster: Cluster, request: CommandRequest, send: Callable[[CommandMessage], Awaitable[None]]
) -> CommandResult | Failure:
    if request.verb == "down":
        return await _execute(cluster, request, send)
    with _slot(free) as is_free:
        if is_free:
            return await _execute(cluster, request, send)
    return _failure(f"the supervisor runs {MAX_COMMANDS} commands, such as `rmqlab events --follow`: end some of them")


async def _execute(
    cluster: Cluster, request: CommandRequest, send: Callable[[CommandMessage], Awaitable[None]]
) -> CommandResult | Failure:
    async def send_item(value: Any) -> None:
        await send(Item(value))

    handler = HANDLERS.get(request.verb)
    if handler is None:
        return _failure(f"no command {request.verb!r}", is_usage=True)
    try:
        return CommandResult(await handler(cluster, ReceivedArguments(request.arguments), send_item))
    except _USAGE as exc:
        return _failure(str(exc), is_usage=True)
    except WaitTimeoutError as exc:
        return _failure(str(exc), is_late=True)
    except _FAILURES as exc:
        return _failure(str(exc))
    except _GONE:
        raise
    except ExceptionGroup as group:  # from a command that runs a nursery
        if (errors := group.split(_GONE)[1]) is None:
            raise
        return _internal_failure(cluster, request.verb, next(leaves(errors)))
    except Exception as exc:  # noqa: BLE001 - a boundary: a defect of a command must not end the cluster
        return _internal_failure(cluster, request.verb, exc)


def _internal_failure(cluster: Cluster, verb: str, exc: Exception) -> Failure:
    cluster.supervisor.processes.errors.caught(f"command {verb}", exc)
    return _failure(f"internal error in {verb}: {type(exc).__name__}: {exc}")


def _failure(text: str, *, is_usage: bool = False, is_late: bool = False) -> Failure:
    return Failure(cut_text(text, _LONGEST_ERROR), is_usage, is_late)
