"""Which nodes a cluster has after `add` and `remove`. No I/O."""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, get_args

import attrs

from rmqlab.cluster.supervisor.plan.process_state import WrongStateError
from rmqlab.cluster.supervisor.plan.specs import without_absent
from rmqlab.cluster.supervisor.plan.targets import find_targets
from rmqlab.cluster.supervisor.plan.topology import (
    BLOCK,
    DLEDGER,
    ClusterSpec,
    Node,
    NodeKind,
    Placement,
    UnknownTargetError,
    broker_name_of,
    group_name,
    is_broker,
    node_names,
    place,
    place_in_group,
)
from rmqlab.runtime.text.nearmiss import near_miss

Kind = Literal["group", "slave", "nameserver"]
KINDS: tuple[str, ...] = get_args(Kind)


@attrs.frozen
class Addition:
    """A cluster with more nodes."""

    spec: ClusterSpec
    placement: Placement
    names: tuple[str, ...]
    """The nodes that it did not have before."""


def addition(spec: ClusterSpec, placement: Placement, kind: str, name: str = "") -> Addition:
    """Return a cluster with another group, slave or nameserver.

    `name` is the group of the new slave, or a removed group or node, which returns with its address and its data.
    New nodes do not reuse the names of removed ones. UnknownTargetError for an unknown name; WrongStateError if there
    is no room, or the node is there already.
    """
    names = _names(spec, placement, kind, name)
    grown = attrs.evolve(spec, removed=tuple(each for each in spec.removed if each not in names))
    present = _all_names(grown)
    grown = attrs.evolve(grown, added=(*grown.added, *(each for each in names if each not in present)))
    try:
        placed = place(grown, placement)
    except ValueError as exc:
        raise WrongStateError(str(exc)) from None
    if placed.subnet is not None and any(placed.slots[each] // BLOCK > len(placed.more_subnets) for each in names):
        raise WrongStateError("the addresses of this cluster are used up while it runs: stop it, and use up --groups")
    return Addition(grown, placed, names)


def without(spec: ClusterSpec, names: Collection[str]) -> ClusterSpec:
    """Return a cluster without these nodes, and without settings for them alone."""
    shrunk = attrs.evolve(spec, added=tuple(name for name in spec.added if name not in names))
    planned = _all_names(shrunk)
    shrunk = attrs.evolve(shrunk, removed=(*shrunk.removed, *(name for name in names if name in planned)))
    return without_absent(shrunk)


def removal(target: str, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes that `remove` stops, slaves first.

    UnknownTargetError. WrongStateError, with what would be possible, for nodes that the cluster needs.
    """
    found = find_targets(target, nodes)
    group = [node for node in nodes if node.group == target]
    if len(group) > 1:
        master = f"{target}:master (its master), or " if any(node.is_master for node in group) else ""
        raise WrongStateError(f"{target} has {len(group)} nodes; expected {master}{target}:* (all of them)")
    names = {node.name for node in found}
    for node in found:
        if node.kind is NodeKind.WORKLOAD:
            raise WrongStateError(f"{node.name} is a workload: stop it")
        members = [other for other in nodes if other.group == node.group]
        if node.member_id and not names.issuperset(member.name for member in members):
            raise WrongStateError(
                f"{node.name} is a member of a DLedger group, whose members are fixed (dLegerPeers): stop it, or remove"
                f" the group with {node.group}:*"
            )
    for kind, what in ((NodeKind.NAMESERVER, "nameserver"), (NodeKind.BROKER, "broker group")):
        if all(node.name in names for node in nodes if node.kind is kind):
            raise WrongStateError(f"{target} is the last {what}: add another one before, or stop the cluster")
    return sorted(found, key=lambda node: node.is_master)


def _names(spec: ClusterSpec, placement: Placement, kind: str, name: str) -> tuple[str, ...]:
    former = {each for each in placement.slots if each not in _all_names(spec)}
    match kind:
        case "nameserver":
            return (
                _former(name, {each for each in former if not is_broker(each)}) if name else _next_server(placement),
            )
        case "group":
            return _group(spec, placement, former, name)
        case "slave":
            return (_slave(spec, placement, former, name),)
        case _:
            raise UnknownTargetError(f"add {kind!r}: expected one of {', '.join(KINDS)}")


def _group(spec: ClusterSpec, placement: Placement, former: Iterable[str], name: str) -> tuple[str, ...]:
    present = {place_in_group(each)[0] for each in node_names(spec)[1]}
    if name in present:
        raise WrongStateError(f"{name} is already a group of this cluster: `add slave {name}` adds a slave to it")
    if name:
        groups = {place_in_group(each)[0] for each in former if is_broker(each)} - present
        _former(name, groups)
        members = [each for each in former if is_broker(each) and place_in_group(each)[0] == name]
        return tuple(sorted(members, key=lambda each: place_in_group(each)[1]))
    known = {place_in_group(each)[0] for each in placement.slots if is_broker(each)}
    fresh = next(group for group in map(group_name, range(len(known) + 1)) if group not in known)
    return tuple(broker_name_of(spec, fresh, number) for number in range(spec.slaves + 1))


def _slave(spec: ClusterSpec, placement: Placement, former: Iterable[str], name: str) -> str:
    brokers = node_names(spec)[1]
    groups = {place_in_group(each)[0] for each in brokers}
    slaves = {
        each for each in former if is_broker(each) and place_in_group(each)[1] and place_in_group(each)[0] in groups
    }
    if spec.mode == DLEDGER:
        raise WrongStateError(
            "the members of a DLedger group are fixed (dLegerPeers): add a group, or start a cluster with --replicas"
        )
    if name in brokers and name not in groups:
        raise WrongStateError(f"{name} is already a node of this cluster: expected a group")
    if name not in groups:
        return _former(name, slaves, groups)
    taken = {place_in_group(each)[1] for each in placement.slots if is_broker(each) and place_in_group(each)[0] == name}
    return broker_name_of(spec, name, next(number for number in range(1, len(taken) + 2) if number not in taken))


def _former(name: str, former: Collection[str], others: Collection[str] = ()) -> str:
    """Return the name of a removed node. UnknownTargetError for any other."""
    if name not in former:
        known = sorted({*former, *others})
        expected = f"; expected one of {', '.join(known)}" if known else "; none was removed: leave the name out"
        raise UnknownTargetError(f"unknown name {name!r}{near_miss(name, known) or expected}")
    return name


def _next_server(placement: Placement) -> str:
    return next(f"namesrv-{n}" for n in range(1, len(placement.slots) + 2) if f"namesrv-{n}" not in placement.slots)


def _all_names(spec: ClusterSpec) -> set[str]:
    nameservers, brokers = node_names(spec)
    return {*nameservers, *brokers}
