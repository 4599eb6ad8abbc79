"""Adds nodes to a running cluster, removes them, and changes their settings.

Brokers learn of an added or removed nameserver as RocketMQ's do: request 25 changes their `namesrvAddr`, and they
register at the new list with their next registration, at most 30 s later. Running clients keep the list that they
were started with.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import attrs
import trio

from rmqlab.cluster.supervisor.check_settings import BadSettingsError
from rmqlab.cluster.supervisor.files import nodestore
from rmqlab.cluster.supervisor.plan.membership import addition, removal, without
from rmqlab.cluster.supervisor.plan.nodesettings import node_settings, set_for, sets_to_try
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError, WrongStateError
from rmqlab.cluster.supervisor.plan.roles import changes_of
from rmqlab.cluster.supervisor.plan.specs import check_spec
from rmqlab.cluster.supervisor.plan.topology import (
    ClusterSpec,
    Node,
    NodeKind,
    Placement,
    namesrv_addr,
    node_names,
    nodes_of,
    start_phases,
)
from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import request
from rmqlab.remoting.properties import write_properties_text
from rmqlab.runtime.clock import real_seconds
from rmqlab.runtime.net.reactor import open_reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.remoting_errors import RemotingError
from rmqlab.runtime.net.worker import in_thread

log = logging.getLogger(__name__)

INFORM_SECONDS = 5.0
"""Timeout in real seconds for a broker to accept a new list of nameservers."""

TrySettings = Callable[[Mapping[str, Any], int], Awaitable[list[str]]]
"""As `Host.try_settings`."""


@attrs.frozen
class Added:
    """The nodes that were added, and are ready."""

    names: tuple[str, ...]
    uninformed: tuple[str, ...] = ()
    """Running brokers that did not accept the new list of nameservers: they have it after a restart."""


async def add(supervisor: Supervisor, kind: str, name: str = "", settings: Mapping[str, Any] | None = None) -> Added:
    """Add a group, a slave of a group or a nameserver, and return when it is ready.

    `name` and errors as `membership.addition`; NodeFailedError for a node that does not start, or a full disk: then the
    cluster is as before. BadSettingsError for settings of its own that a broker rejects.
    """
    async with supervisor.changing:
        grown = addition(supervisor.spec, supervisor.placement, kind, name)
        spec = grown.spec
        if settings:
            brokers = [each for each in grown.names if each in node_names(spec)[1]]
            spec = await _with_settings(spec, brokers, settings, supervisor.try_settings)
        before = supervisor.spec, supervisor.placement
        added = [node for node in nodes_of(spec, grown.placement) if node.name in grown.names]
        _check_names(added, supervisor.nodes)
        _check_ids(added, supervisor.nodes.values())
        with supervisor.directory.changed_record(spec=spec, placement=grown.placement):
            _set_nodes(supervisor, spec, grown.placement, [*supervisor.nodes.values(), *added])
            try:
                await _start(supervisor, added)
            except BaseException:
                with trio.CancelScope(shield=True):
                    while alive := [each for each in grown.names if supervisor.process_state(each).is_alive]:
                        await supervisor.kill(*alive)  # meanwhile another command may start one again
                _forget(supervisor, *before, grown.names)
                raise
        uninformed = await _inform(supervisor) if kind == "nameserver" else ()
        return Added(grown.names, uninformed)


async def remove(supervisor: Supervisor, target: str) -> tuple[str, ...]:
    """Stop nodes and remove them from the cluster; return their names.

    Their data stay on disk.

    Errors as `membership.removal`; WrongStateError for a node that is paused, at which a fault is in force, or that
    another command starts meanwhile. RecordNotSavedError, without any effect, on a full disk.
    """
    async with supervisor.changing:
        nodes = removal(target, [*supervisor.nodes.values()])
        names = tuple(node.name for node in nodes)
        for name in names:
            if supervisor.process_state(name).is_paused:
                raise WrongStateError(f"{name} is paused and cannot stop gracefully: resume it first, or kill it")
        for active in supervisor.faults.active.by_id.values():
            if struck := [name for name in names if any(name in those for those in active.nodes_of.values())]:
                raise WrongStateError(f"the fault {active.id} is in force at {struck[0]}: heal it first")
        spec = without(supervisor.spec, names)
        roles = changes_of(node for node in supervisor.nodes.values() if node.name not in names)
        with supervisor.directory.changed_record(spec=spec, roles=roles):
            await _end(supervisor, names)
        _forget(supervisor, spec, supervisor.placement, names)
        if any(node.kind is NodeKind.NAMESERVER for node in nodes):
            await _inform(supervisor)
        return names


async def _end(supervisor: Supervisor, names: Iterable[str]) -> None:
    """Stop nodes. WrongStateError if another command has started one meanwhile."""
    for name in names:
        if supervisor.process_state(name).is_alive:
            await supervisor.stop(name)
    for name in names:
        if supervisor.process_state(name).is_alive:
            raise WrongStateError(f"{name} is not removed: another command has started it meanwhile")


async def change_settings(supervisor: Supervisor, target: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Change settings of brokers from their next start on; return the brokers' names.

    The cluster's record keeps them. WrongStateError for other nodes, BadSettingsError for settings that a broker
    rejects, RecordNotSavedError on a full disk.
    """
    async with supervisor.changing:
        nodes = supervisor.find(target)
        for node in nodes:
            if node.kind is not NodeKind.BROKER:
                raise WrongStateError(f"{node.name} is a {node.kind}: only brokers have settings here")
        names = tuple(node.name for node in nodes)
        spec = await _with_settings(supervisor.spec, names, settings, supervisor.try_settings)
        with supervisor.directory.changed_record(spec=spec):
            pass  # on a full disk nothing is changed
        supervisor.spec = spec
        for name in names:
            supervisor.pending_settings.setdefault(name, {}).update(settings)
        return names


async def check_settings(spec: ClusterSpec, try_settings: TrySettings) -> None:
    """Let a broker read each different set of settings, and log its warnings.

    BadSettingsError names the key, a similar key and the expected values.
    """
    members = spec.group_members
    try:
        check_spec(spec)
        remarks = [remark for settings in sets_to_try(spec) for remark in await try_settings(settings, members)]
    except ValueError as exc:
        raise BadSettingsError(f"broker_settings: {exc}") from None
    for remark in dict.fromkeys(remarks):
        log.warning("broker_settings: %s", remark)


async def _with_settings(
    spec: ClusterSpec, names: Sequence[str], settings: Mapping[str, Any], try_settings: TrySettings
) -> ClusterSpec:
    if not names:
        raise BadSettingsError("only brokers have settings here")
    changed = attrs.evolve(spec, node_settings=set_for(spec, names, settings))
    try:
        check_spec(changed)
    except ValueError as exc:
        raise BadSettingsError(str(exc)) from None
    await try_settings(settings, changed.group_members)
    return changed


async def _start(supervisor: Supervisor, added: Sequence[Node]) -> None:
    nodes = [*supervisor.nodes.values()]
    for node in added:
        settings = node_settings(supervisor.spec, node, nodes, supervisor.directory.data_dir(node.name))
        try:
            await in_thread(nodestore.write_settings, supervisor.directory, node.name, settings)
        except (nodestore.OutsideError, OSError) as exc:
            raise NodeFailedError(f"{node.name} is not started: {exc}") from None
        fields = {"broker_name": node.group, "broker_id": node.broker_id} if node.group else {}
        supervisor.record(node.name, "node_added", address=node.address, **fields)
    for phase in start_phases(added):
        if phase:
            await supervisor.start(*phase)


def _set_nodes(supervisor: Supervisor, spec: ClusterSpec, placement: Placement, nodes: Iterable[Node]) -> None:
    """Replace the nodes, in the order of a start. No other task runs in between."""
    now = {node.name: node for node in nodes}
    order = [*(node.name for node in nodes_of(spec, placement)), *now]
    supervisor.nodes.clear()
    supervisor.nodes.update((name, now[name]) for name in dict.fromkeys(order) if name in now)
    supervisor.spec, supervisor.placement = spec, placement
    supervisor.faults.change_rules()


def _forget(supervisor: Supervisor, spec: ClusterSpec, placement: Placement, names: Collection[str]) -> None:
    _set_nodes(supervisor, spec, placement, [node for node in supervisor.nodes.values() if node.name not in names])
    for name in names:
        supervisor.processes.states.pop(name, None)
        supervisor.pending_settings.pop(name, None)
        supervisor.record(name, "node_removed")


def _check_names(added: Iterable[Node], nodes: Collection[str]) -> None:
    """WrongStateError for the name of a workload.

    Both would write into one directory and one journal.
    """
    for node in added:
        if node.name in nodes:
            raise WrongStateError(f"the new node would be named {node.name}, as a workload of this cluster is")


def _check_ids(added: Iterable[Node], nodes: Iterable[Node]) -> None:
    """WrongStateError for a slave whose broker id another node has now."""
    taken = {(node.group, node.broker_id): node.name for node in nodes if node.is_slave}
    for node in added:
        if holder := taken.get((node.group, node.broker_id)):
            raise WrongStateError(f"{node.name} would have broker id {node.broker_id}, as {holder} has now")


async def _inform(supervisor: Supervisor) -> tuple[str, ...]:
    """Send all brokers the list of nameservers; return those that did not accept it.

    Those that do not run, or did not accept it, read it at their next start.
    """
    changes = {"namesrv_addr": namesrv_addr(supervisor.nodes.values())}
    uninformed = []

    async def inform(node: Node) -> None:
        process = supervisor.process_state(node.name)
        is_running = process.is_alive and not process.is_paused
        if not is_running or not await _accepts(node, {"namesrvAddr": changes["namesrv_addr"]}):
            supervisor.pending_settings.setdefault(node.name, {}).update(changes)
            uninformed.extend([node.name] if process.is_alive else [])

    async with trio.open_nursery() as nursery:
        for node in supervisor.nodes.values():
            if node.kind is NodeKind.BROKER:
                nursery.start_soon(inform, node)
    return tuple(sorted(uninformed))


async def _accepts(broker: Node, changes: Mapping[str, str]) -> bool:
    """Send request 25 to a broker; return False for another response than success."""
    async with open_reactor() as reactor:
        client = RemotingClient(reactor)
        try:
            command = request(RequestCode.UPDATE_BROKER_CONFIG, body=write_properties_text(changes).encode())
            reply = await client.request(broker.address, command, real_seconds(INFORM_SECONDS))
        except RemotingError:
            return False
        finally:
            client.close()
        return reply.code == ResponseCode.SUCCESS
