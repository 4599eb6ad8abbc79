"""What the supervisor does at each command that it receives."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NoReturn

import trio

from rmqlab.cluster.actions.action import NodeAction, liveness_of
from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.faults.random_player import play_random_faults
from rmqlab.cluster.faults.schedule import RandomFaults
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor import scaling
from rmqlab.cluster.supervisor.live_status import live_status
from rmqlab.cluster.supervisor.plan.eventfilter import EventFilter
from rmqlab.cluster.supervisor.plan.process_state import NodeState
from rmqlab.faults import fault_of
from rmqlab.runtime.config.valuetypes import Seconds, check_value
from rmqlab.runtime.journals.journalfiles import journal_files

Arguments = Mapping[str, Any]
Send = Callable[[Any], Awaitable[None]]
Handler = Callable[[Cluster, Arguments, Send], Awaitable[Any]]
"""Passes items to `Send` while the command runs, and returns the result. Raises what is a failure of the command."""

_ENDS = {f"node_{state}" for state in (NodeState.STOPPED, NodeState.KILLED, NodeState.CRASHED)}


class InvalidCommandError(Exception):
    """The arguments of a command are invalid in a way that no command line sends."""


class ReceivedArguments(dict[str, Any]):
    """The arguments of a command. InvalidCommandError for one that is missing."""

    def __missing__(self, name: str) -> NoReturn:
        raise InvalidCommandError(f"the argument {name!r} is missing")


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
    cluster.supervisor.forks.check_runs()  # otherwise each node would be waited for in vain
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
                    if event.kind in _ENDS:
                        return


async def _fault(cluster: Cluster, arguments: Arguments, _send: Send) -> Any:
    try:
        fault = fault_of(arguments["values"])
    except TypeError as exc:
        raise InvalidCommandError(f"fault: {exc}") from None
    return (await cluster.fault(fault)).as_json()


async def _faults(cluster: Cluster, _arguments: Arguments, _send: Send) -> Any:
    await trio.lowlevel.checkpoint()
    return [active.as_json() for active in cluster.faults]


async def _heal(cluster: Cluster, arguments: Arguments, _send: Send) -> Any:
    given = arguments["ids"]
    if not isinstance(given, Sequence) or not all(isinstance(one, str) for one in given):
        raise InvalidCommandError("heal: the ids must be a list of texts")
    ids = list(dict.fromkeys(given))
    healed = await (cluster.heal_all() if ids == ["all"] else cluster.supervisor.faults.heal(*ids))
    return [active.as_json() for active in healed]


async def _random_faults(cluster: Cluster, arguments: Arguments, send: Send) -> Any:
    try:
        faults = RandomFaults(**arguments)
    except TypeError as exc:
        raise InvalidCommandError(f"random-faults: {exc}") from None
    await play_random_faults(cluster, faults, send)


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
