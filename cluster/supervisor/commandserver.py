"""Serves the commands that the command line sends to the supervisor."""

import contextlib
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import trio

from rmqlab.cluster.actions.action import NodeAction, liveness_of
from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.apimethods import ClusterClosedError
from rmqlab.cluster.conditions import UnknownConditionError
from rmqlab.cluster.faults.random_player import play_random_faults
from rmqlab.cluster.faults.schedule import RandomFaults
from rmqlab.cluster.lab import Cluster, WaitTimeoutError
from rmqlab.cluster.supervisor import scaling
from rmqlab.cluster.supervisor.check_settings import BadSettingsError
from rmqlab.cluster.supervisor.command import COMMANDS, CommandMessage, CommandRequest, CommandResult, Failure, Item
from rmqlab.cluster.supervisor.fork.children import ForkServerGoneError
from rmqlab.cluster.supervisor.live_status import live_status
from rmqlab.cluster.supervisor.marks import BadMarkError
from rmqlab.cluster.supervisor.nodelink import unexpected
from rmqlab.cluster.supervisor.plan.eventfilter import EventFilter, UnknownKindError
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError, NodeState, WrongStateError
from rmqlab.cluster.supervisor.plan.topology import UnknownTargetError
from rmqlab.cluster.supervisor.processes import leaves
from rmqlab.faults import FaultError, fault_of
from rmqlab.runtime.bounds import cut_text
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.config.valuetypes import Seconds, check_value
from rmqlab.runtime.journals.journal import journal_files
from rmqlab.runtime.node.mapcodec import CHUNK, ControlError

Arguments = Mapping[str, Any]
Send = Callable[[Any], Awaitable[None]]
Handler = Callable[[Cluster, Arguments, Send], Awaitable[Any]]

ASK_SECONDS = 5.0
MAX_CONNECTIONS: Final = 200
"""Connections at a time; further ones get a failure."""
MAX_COMMANDS: Final = 100
"""Commands that run at a time, also those that follow events; further ones fail. `down` is always executed."""
_TURNS: Final = 3
"""Turns in which a task notices that the peer has closed the connection: it reads in the first, cancels in the next."""
_LONGEST_ERROR = 10_000
"""Characters of the text of a failure."""
ENDS = {f"node_{state}" for state in (NodeState.STOPPED, NodeState.KILLED, NodeState.CRASHED)}


class InvalidCommandError(Exception):
    """The arguments of a command are invalid in a way that no command line sends."""


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
    path = cluster.supervisor.directory.command_socket
    with trio.socket.socket(trio.socket.AF_UNIX) as listening:
        path.unlink(missing_ok=True)  # left by a killed supervisor: we hold the lock, so none runs
        await listening.bind(os.fspath(path))
        path.chmod(0o600)
        listening.listen()
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

        try:
            await trio.serve_listeners(serve, [trio.SocketListener(listening)])
        finally:
            path.unlink(missing_ok=True)


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
    """Serve the one command of a connection; return its verb.

    `free`: commands that may run beside those that run.

    The command is cancelled when the connection closes.

    A bad request ends only its connection: invalid bytes are recorded, unexpected exceptions counted.
    """
    supervisor = cluster.supervisor
    answered = None

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
            await _send_reply(send, await _execute_beside(free, cluster, request, send))
            answered = request.verb
            nursery.cancel_scope.cancel()
    except* _GONE:
        pass  # the peer has closed the connection
    except* ControlError as group:
        for exc in leaves(group):
            supervisor.record("", "control_error", reason=f"command socket: {exc}")
    except* Exception as group:  # noqa: BLE001 - a boundary
        for exc in leaves(group):
            supervisor.processes.errors.caught("command connection", exc)
    return answered


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
        return CommandResult(await handler(cluster, request.arguments, send_item))
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


async def _status(cluster: Cluster, _arguments: Arguments, _send: Send) -> Any:
    return await live_status(cluster.supervisor)  # also while the cluster stops


def _handler_of(action: NodeAction[Any]) -> Handler:
    async def act(cluster: Cluster, arguments: Arguments, _send: Send) -> Any:
        target = arguments.get("target")
        if not isinstance(target, str):
            raise InvalidCommandError(f"{action.name}: the target must be a text")
        names = {node.name for node in cluster.supervisor.find(target)}
        if (settings := arguments.get("settings")) and action.takes_settings:
            states = {liveness_of(cluster.supervisor.process_state(name).state) for name in names}
            if states <= {*action.needs}:  # otherwise the action must fail without any change
                await cluster.change_settings(target, _settings(settings))
        return await action.report.document(cluster.supervisor, names, await cluster.act(action, target))

    return act


def _settings(given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise InvalidCommandError("settings must be a map of texts")
    return given


async def _add(cluster: Cluster, arguments: Arguments, _send: Send) -> Any:
    kind, name, settings = (arguments.get(key) or "" for key in ("kind", "of", "settings"))
    if not isinstance(kind, str) or not isinstance(name, str):
        raise InvalidCommandError("add: the kind and the name must be texts")
    added = await scaling.add(cluster.supervisor, kind, name, _settings(settings or {}))
    nodes = (await cluster.status())["nodes"]
    return [{**node, "uninformed": [*added.uninformed]} for node in nodes if node["name"] in added.names]


async def _remove(cluster: Cluster, arguments: Arguments, _send: Send) -> Any:
    target = arguments.get("target")
    if not isinstance(target, str):
        raise InvalidCommandError("remove: the target must be a text")
    directory = cluster.supervisor.directory
    return [{"name": name, "data_dir": str(directory.data_dir(name))} for name in await cluster.remove(target)]


async def _wait(cluster: Cluster, arguments: Arguments, _send: Send) -> Any:
    condition: Any = arguments.get("condition")
    seconds: Any = arguments.get("seconds")
    try:
        check_value("condition", condition, str)
        check_value("seconds", seconds, Seconds)
    except (TypeError, ValueError) as exc:
        raise InvalidCommandError(f"wait: {exc}") from None
    return await cluster.wait_until(condition, seconds)


async def _events(cluster: Cluster, arguments: Arguments, send: Send) -> Any:
    last, is_following = arguments["last"], arguments["follow"]
    wanted = _event_filter(cluster, arguments)
    if arguments["every"] or wanted.has_messages:
        await _journal(cluster, last, send, wanted, is_following=is_following)
        return
    async with cluster.events.follow(replay=True) as events:
        received = [await events.receive() for _ in range(events.statistics().current_buffer_used)]
        past = [event for event in received if wanted.wants(event)]
        for event in past[max(0, len(past) - last) :]:
            await send(event.as_json())
        if is_following:
            async for event in events:
                if wanted.wants(event):
                    await send(event.as_json())


def _event_filter(cluster: Cluster, arguments: Arguments) -> EventFilter:
    kinds, nodes = (arguments.get(key) or () for key in ("kind", "node"))
    for given in (kinds, nodes):
        if not isinstance(given, Sequence) or not all(isinstance(one, str) for one in given):
            raise InvalidCommandError("events: kinds and nodes must be lists of texts")
    journals = journal_files(cluster.supervisor.directory.journal_dir) if nodes else ()
    return EventFilter.of(kinds, nodes, [*cluster.supervisor.nodes, *(path.stem for path in journals)])


async def _journal(cluster: Cluster, last: int, send: Send, wanted: EventFilter, *, is_following: bool) -> None:
    """Send the latest journal entries, and then new ones if following.

    They include the entries of single messages.
    """
    async with cluster.follow_journal() as batches:
        read = await anext(batches)  # never empty: it has the supervisor's own start
        past = [event for event in read if wanted.wants(event)]
        for event in past[max(0, len(past) - last) :]:
            await send(event.as_json())
        if is_following:
            async for batch in batches:
                for event in filter(wanted.wants, batch):
                    await send(event.as_json())


async def _down(cluster: Cluster, _arguments: Arguments, _send: Send) -> Any:
    with trio.CancelScope(shield=True):  # a half-stopped cluster is of no use, even if the peer has left
        await cluster.supervisor.stop_all()


async def _work(cluster: Cluster, arguments: Arguments, send: Send) -> Any:
    """Run a workload until it ends or the peer leaves.

    Its events are the items, its exit status the reply.
    """
    module = arguments["module"]
    if not isinstance(module, str) or not all(part.isidentifier() for part in module.split(".")):
        raise InvalidCommandError("the module of a workload is not a module's name")  # it becomes a directory's name
    workload = await cluster.run_workload(module, arguments["config"])
    try:
        await _send_events(cluster, workload.name, send)
    finally:
        with trio.CancelScope(shield=True):
            await workload.stop()
    return {"name": workload.name, "status": workload.process_state.exit_status}


async def _send_events(cluster: Cluster, name: str, send: Send) -> None:
    """Send the events of a process, with each message, until it has ended."""
    async with cluster.follow_journal() as batches:
        async for batch in batches:
            for event in batch:
                if event.node == name:
                    await send(event.as_json())
                    if event.kind in ENDS:
                        return


async def _fault(cluster: Cluster, arguments: Arguments, _send: Send) -> Any:
    return (await cluster.fault(fault_of(arguments["values"]))).as_json()


async def _faults(cluster: Cluster, _arguments: Arguments, _send: Send) -> Any:
    await trio.lowlevel.checkpoint()
    return [active.as_json() for active in cluster.faults]


async def _heal(cluster: Cluster, arguments: Arguments, _send: Send) -> Any:
    ids = list(dict.fromkeys(arguments["ids"]))
    healed = await (cluster.heal_all() if ids == ["all"] else cluster.supervisor.faults.heal(*ids))
    return [active.as_json() for active in healed]


async def _random_faults(cluster: Cluster, arguments: Arguments, send: Send) -> Any:
    await play_random_faults(cluster, RandomFaults(**arguments), send)


async def _mark(cluster: Cluster, arguments: Arguments, _send: Send) -> Any:
    if not isinstance(text := arguments.get("text"), str):
        raise InvalidCommandError("mark: the text must be a text")
    return await cluster.mark(text)


HANDLERS: Mapping[str, Handler] = {
    "status": _status,
    **{name: _handler_of(action) for name, action in ACTIONS.items()},
    "add": _add,
    "remove": _remove,
    "fault": _fault,
    "faults": _faults,
    "heal": _heal,
    "random-faults": _random_faults,
    "wait": _wait,
    "events": _events,
    "mark": _mark,
    "down": _down,
    "work": _work,
}
