"""Changes roles of brokers: stop, two changed settings, start on the same store."""

from collections.abc import Callable

from rmqlab.cluster.supervisor.files import nodestore
from rmqlab.cluster.supervisor.files.directory import RecordNotSavedError
from rmqlab.cluster.supervisor.leadership import hand_over
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError, WrongStateError
from rmqlab.cluster.supervisor.plan.roles import changes_of, check_one_each, demoted, promoted
from rmqlab.cluster.supervisor.plan.topology import Node
from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.runtime.net.worker import in_thread


async def promote(supervisor: Supervisor, *names: str) -> tuple[str, ...]:
    """Stop slaves and start them as masters on their stores. Return their names.

    Other masters of their groups are left alone. To a member of a DLedger group, its leader hands over instead;
    NodeFailedError if it is not elected. WrongStateError for nodes that are no slaves, paused, or of one group.
    """
    async with supervisor.changing:
        nodes = [supervisor.node(name) for name in names]
        if any(node.member_id for node in nodes):
            await hand_over(supervisor.processes, *names)
            return names
        check_one_each(nodes)
        role = supervisor.spec.role
        await _change_roles(supervisor, names, lambda node: promoted(node, [*supervisor.nodes.values()], role))
    await supervisor.start(*names)  # it may take long, and other changes need not wait
    return names


async def demote(supervisor: Supervisor, *names: str) -> tuple[str, ...]:
    """Stop masters and start them as slaves on their stores. Return their names.

    WrongStateError, without any effect, for a node that is not a master, or is paused.
    """
    async with supervisor.changing:
        await _change_roles(supervisor, names, lambda node: demoted(node, [*supervisor.nodes.values()]))
    await supervisor.start(*names)
    return names


async def _change_roles(supervisor: Supervisor, names: tuple[str, ...], change: Callable[[Node], Node]) -> None:
    for name in names:
        change(supervisor.node(name))  # all or none
        if supervisor.process_state(name).is_paused:
            raise WrongStateError(f"{name} is paused and cannot stop gracefully: resume it first, or kill it")
    await supervisor.stop(*(name for name in names if supervisor.process_state(name).is_alive))
    for name in names:
        await _change_role(supervisor, supervisor.nodes[name], change(supervisor.nodes[name]))


async def _change_role(supervisor: Supervisor, before: Node, now: Node) -> None:
    roles = changes_of({**supervisor.nodes, now.name: now}.values())
    try:
        with supervisor.directory.changed_record(roles=roles):
            await in_thread(nodestore.write_role, supervisor.directory, now)
    except (OSError, ValueError, nodestore.OutsideError, RecordNotSavedError) as exc:
        raise NodeFailedError(f"{now.name} is stopped, and keeps its role: {exc}") from None
    supervisor.nodes[now.name] = now
    supervisor.record(
        now.name,
        "role_changed",
        broker_name=now.group,
        role=now.role,
        broker_id=now.broker_id,
        role_before=before.role,
        broker_id_before=before.broker_id,
    )
