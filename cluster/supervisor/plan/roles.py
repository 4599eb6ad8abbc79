"""Role changes by an operator: RocketMQ 4.9's remedy for a dead master. No I/O.

Source: issue 16, part 1. A broker reads its role and its broker id at its start (BrokerStartup), so a change of role is
a stop, two changed settings, and a start on the same store.
"""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from rmqlab.cluster.supervisor.plan.process_state import WrongStateError
from rmqlab.cluster.supervisor.plan.topology import Node, NodeKind, follower_id

MASTER_ID = 0
SLAVE_ROLE = "SLAVE"
FIRST_MEMBERS_ID = 1


def check_one_each(nodes: Iterable[Node]) -> None:
    """Raise WrongStateError if two of the nodes to promote are slaves of one group.

    The group would get two masters. So `broker-a:slave` is rejected in a group with several slaves.
    """
    chosen: dict[str | None, Node] = {}
    for node in nodes:
        other = chosen.setdefault(node.group, node) if node.is_slave else node
        if other.name != node.name:
            raise WrongStateError(f"{other.name} and {node.name} are slaves of {node.group}: promote one of them")


def several_masters(group: str, masters: Sequence[str], *, is_dledger: bool = False) -> str:
    """Describe a group of which several masters run."""
    effect = "Each accepts writes; a route has the one that registered last"
    if is_dledger:
        effect = "Only the one with a quorum stores messages"
    return f"{group} has {len(masters)} masters: {', '.join(masters)}. {effect}"


def promoted(node: Node, nodes: Sequence[Node], master_role: str) -> Node:
    """Return the node as a master; raise WrongStateError for masters and non-brokers."""
    _check_has_role(node)
    if node.is_master:
        slaves = ", ".join(other.name for other in nodes if other.group == node.group and other.is_slave)
        hint = f"; its slaves: {slaves}" if slaves else ", and has no slave"
        raise WrongStateError(f"{node.name} is already a master of {node.group}{hint}")
    return attrs.evolve(node, role=master_role, broker_id=MASTER_ID, role_changes=_next_change(nodes))


def demoted(node: Node, nodes: Sequence[Node]) -> Node:
    """Return the node as a slave, with the lowest broker id that is free in its group.

    WrongStateError for a slave, or another kind of node.
    """
    _check_has_role(node)
    if not node.is_master:
        raise WrongStateError(f"{node.name} is already a slave of {node.group}")
    taken = {other.broker_id for other in nodes if other.group == node.group and other.name != node.name}
    broker_id = next(number for number in range(MASTER_ID + 1, len(taken) + 2) if number not in taken)
    return attrs.evolve(node, role=SLAVE_ROLE, broker_id=broker_id, role_changes=_next_change(nodes))


def with_changes(nodes: Iterable[Node], changes: Mapping[str, int], master_role: str) -> list[Node]:
    """Return nodes with the broker ids of earlier role changes, in the changes' order."""
    order = {name: number for number, name in enumerate(changes, 1)}

    def changed(node: Node) -> Node:
        if node.name not in changes:
            return node
        broker_id = changes[node.name]
        role = SLAVE_ROLE if broker_id else master_role
        return attrs.evolve(node, role=role, broker_id=broker_id, role_changes=order[node.name])

    return [changed(node) for node in nodes]


def changes_of(nodes: Iterable[Node]) -> dict[str, int]:
    """Return the broker ids of nodes with changed roles, in the order of the changes."""
    changed = sorted((node for node in nodes if node.role_changes), key=lambda node: node.role_changes)
    return {node.name: node.broker_id for node in changed if node.broker_id is not None}


def acting_master(group: str | None, nodes: Iterable[Node]) -> Node | None:
    """Return the master of a group, the last promoted of several, or None."""
    masters = [node for node in nodes if node.group == group and node.is_master]
    return max(masters, key=lambda node: node.role_changes, default=None)


def elected(node: Node, nodes: Iterable[Node], role: str, broker_id: int) -> Node:
    """Return a member of a DLedger group with the role that its group gave it."""
    return attrs.evolve(node, role=role, broker_id=broker_id, role_changes=_next_change(nodes))


def with_first_members_leading(nodes: Sequence[Node]) -> list[Node]:
    """Return nodes with the first member of each DLedger group as its leader."""
    return [
        attrs.evolve(node, broker_id=MASTER_ID) if node.member_id and node.broker_id == FIRST_MEMBERS_ID else node
        for node in nodes
    ]


def as_follower(node: Node) -> Node:
    """Return a member of a DLedger group as it starts: a slave."""
    if node.member_id is None:
        return node
    return attrs.evolve(node, role=SLAVE_ROLE, broker_id=follower_id(node.member_id))


def _check_has_role(node: Node) -> None:
    if node.kind is not NodeKind.BROKER:
        raise WrongStateError(f"{node.name} is a {node.kind}: only brokers have roles")
    if node.member_id is not None:
        raise WrongStateError(
            f"{node.name} is a member of a DLedger group, which elects its leader: `promote` another member"
        )


def _next_change(nodes: Iterable[Node]) -> int:
    return max((node.role_changes for node in nodes), default=0) + 1
