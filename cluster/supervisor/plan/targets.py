"""The nodes that a target names. No I/O.

Targets are `broker-a`, `broker-a:slave`, `broker-a:*`, or several with commas.
"""

from collections.abc import Callable, Iterable, Mapping

from rmqlab.cluster.supervisor.plan.topology import Node, UnknownTargetError
from rmqlab.runtime.config.validators import shown
from rmqlab.runtime.text.nearmiss import near_miss

ALL_MEMBERS = "*"
"""The role that names all members of a group: `broker-a:*`."""
_ROLES: Mapping[str, Callable[[Node], bool]] = {
    "master": lambda node: node.is_master,
    "slave": lambda node: node.is_slave,
    ALL_MEMBERS: lambda _node: True,
}


def target_words(target: str) -> list[str]:
    """Return the single targets of `broker-a:*,broker-b-s`. An empty target is one.

    Spaces separate, too.
    """
    return target.replace(",", " ").split() or [""]


def join_targets(targets: Iterable[str]) -> str:
    """Return the target that names all of these, as `target_words` splits it."""
    return ",".join(targets)


def find_targets(target: str, nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes of a target. UnknownTargetError lists the valid ones.

    Targets are `broker-a-s`, `broker-a` (the node of that name: the master), `broker-a:master`, `broker-a:slave`,
    `broker-a:*`, and several of them with commas. In a DLedger group, `broker-a` is the member that leads.
    """
    known = list(nodes)
    found = [node for word in target_words(target) for node in _find_target(word, known)]
    return list({node.name: node for node in found}.values())


def _find_target(target: str, known: list[Node]) -> list[Node]:
    name, colon, role = target.partition(":")
    if not colon:
        found = [node for node in known if node.name == name]
        found = found or [node for node in known if node.group == name and node.member_id and node.is_master]
    else:
        members = [node for node in known if node.group == name]
        found = [node for node in members if _has_role(node, role)]
    if not found and colon and members and role in _ROLES:
        own = ", ".join(f"{node.name} is a {'master' if node.is_master else 'slave'}" for node in members)
        raise UnknownTargetError(f"{name} has no {role}: {own}")
    if not found:
        groups = dict.fromkeys(node.group for node in known if node.group)
        listed = "; groups: " + ", ".join(f"{group}:master, {group}:slave, {group}:*" for group in groups)
        raise UnknownTargetError(
            f"no node {shown(target)} here; nodes: {', '.join(node.name for node in known)}"
            f"{listed if groups else ''}{_near(target, known)}"
        )
    return found


def _has_role(node: Node, role: str) -> bool:
    return role in _ROLES and _ROLES[role](node)


def _near(target: str, nodes: Iterable[Node]) -> str:
    known = list(nodes)
    roles = {f"{node.group}:{'master' if node.is_master else 'slave'}" for node in known if node.group}
    groups = {f"{node.group}:{ALL_MEMBERS}" for node in known if node.group}
    return near_miss(target, {node.name for node in known} | roles | groups)
