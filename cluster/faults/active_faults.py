"""The faults in force in a cluster, and the resulting rules of each node. Pure.

The receiving node impairs the bytes: it identifies the sender by IP address, and bytes in flight outlive the
sender's process. Bytes for peers outside are impaired where they are sent. At a single address a node recognises only
the peers that it has connected to itself, so there the node that connects impairs both directions.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from rmqlab.cluster.supervisor.plan.targets import find_targets
from rmqlab.cluster.supervisor.plan.topology import Node, NodeKind
from rmqlab.faults import Fault, FaultError, Isolation, fault_values
from rmqlab.faults.link.fault import ANYONE, OUTSIDE, LinkFault
from rmqlab.faults.rules import LinkRule, NodeRules, OwnRule
from rmqlab.faults.specification import SupervisorFault


@attrs.frozen
class ActiveFault:
    """A fault in force, by its id."""

    id: str
    fault: Fault
    applied_at: int
    """Milliseconds of the cluster's clock."""
    nodes_of: Mapping[str, frozenset[str]]
    """The names of the nodes that each target meant then: a later change of roles does not move a fault."""

    def as_json(self) -> dict[str, object]:
        """As `faults --json` and `status --json` list it."""
        return {"id": self.id, **fault_values(self.fault), "applied_at": self.applied_at}


@attrs.define(eq=False)
class ActiveFaults:
    """The faults in force, oldest first."""

    by_id: dict[str, ActiveFault] = attrs.field(factory=dict)
    _spent: dict[str, set[str]] = attrs.field(factory=dict, init=False)  # nodes that are done with it, by id
    _numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1), init=False)

    def add(self, fault: Fault, nodes: Sequence[Node], now: int) -> ActiveFault:
        """Put a fault in force.

        FaultError or UnknownTargetError if this cluster cannot play it.
        """
        check_playable(fault, nodes)
        targets = (target for target in fault.targets if target not in (OUTSIDE, ANYONE))
        nodes_of = {target: frozenset(node.name for node in find_targets(target, nodes)) for target in targets}
        active = ActiveFault(f"f{next(self._numbers)}", fault, now, nodes_of)
        self.by_id[active.id] = active
        return active

    def find(self, fault_id: str) -> ActiveFault:
        """Return the fault of this id. FaultError names those in force."""
        if fault_id not in self.by_id:
            known = ", ".join(self.by_id) or "none"
            raise FaultError(f"no fault {fault_id!r} in force; in force: {known}")
        return self.by_id[fault_id]

    def remove(self, fault_id: str) -> ActiveFault:
        """End a fault. Errors as `find`."""
        found = self.find(fault_id)
        del self.by_id[fault_id]
        self._spent.pop(fault_id, None)
        return found

    def mark_spent(self, fault_id: str, node: str) -> bool:
        """Note that a node has played a fault as often as it should.

        Return True for the last of its nodes.
        """
        if fault_id not in self.by_id:
            return False
        done = self._spent.setdefault(fault_id, set())
        done.add(node)
        return done >= frozenset().union(*self.by_id[fault_id].nodes_of.values())

    def rules_for(self, node: Node, nodes: Sequence[Node]) -> NodeRules:
        """Return the rules of one node."""
        links: list[LinkRule] = []
        own: list[OwnRule] = []
        for active in self.by_id.values():
            fault = active.fault.as_link() if isinstance(active.fault, Isolation) else active.fault
            if isinstance(fault, LinkFault):
                links += _link_rules(active, fault, node, nodes)
            elif not isinstance(fault, SupervisorFault) and self._is_played_by(node, active):
                own.append(OwnRule(id=active.id, fault=fault))
        return NodeRules(links=tuple(links), own=tuple(own))

    def _is_played_by(self, node: Node, active: ActiveFault) -> bool:
        if node.name in self._spent.get(active.id, ()):
            return False
        return any(node.name in names for names in active.nodes_of.values())


def check_playable(fault: Fault, nodes: Sequence[Node]) -> None:
    """FaultError if this cluster cannot play the fault.

    UnknownTargetError if it has no such target.
    """
    found = {target: find_targets(target, nodes) for target in fault.targets if target not in (OUTSIDE, ANYONE)}
    if isinstance(fault, LinkFault):
        _check_link(fault, found, is_single=_is_single(nodes))
        _check_served(fault, found, nodes)
    elif not found:
        (target,) = fault.targets
        if isinstance(fault, Isolation):
            raise FaultError(f"isolate: {target!r} cannot be isolated: expected a node")
        raise FaultError(f"{target!r} is a target for links only: expected a node")
    elif fault.is_brokers_only:
        for node in itertools.chain(*found.values()):
            if node.kind is not NodeKind.BROKER:
                raise FaultError(f"{node.name} is a {node.kind}: expected a {NodeKind.BROKER}")


def _check_link(fault: LinkFault, found: Mapping[str, list[Node]], *, is_single: bool) -> None:
    if is_single and OUTSIDE in (fault.src, fault.dst):
        raise FaultError("link: at a single address peers outside cannot be recognised; use a cluster of own addresses")
    if not found:
        raise FaultError(f"link: from {fault.src!r} to {fault.dst!r}: one of them must be a node of the cluster")
    ends = {node.name for node in found.get(fault.src, ())}, {node.name for node in found.get(fault.dst, ())}
    if ends[0] and ends[0] == ends[1] and len(ends[0]) == 1:
        raise FaultError(f"link: from {fault.src!r} to itself: expected two nodes")


def _check_served(fault: LinkFault, found: Mapping[str, list[Node]], nodes: Sequence[Node]) -> None:
    """FaultError if no connection between the ends can exist.

    The fault would have no effect.
    """
    ends = [*itertools.chain(*found.values()), *(nodes if ANYONE in fault.targets else ())]
    if fault.only not in (None, "remoting") and not any(node.kind is NodeKind.BROKER for node in ends):
        raise FaultError(f"link: only = {fault.only!r}: neither {fault.src!r} nor {fault.dst!r} is a broker")
    if fault.only == "ha":
        groups = [{node.group for node in found.get(end, nodes)} - {None} for end in (fault.src, fault.dst)]
        if groups[0].isdisjoint(groups[1]):
            text = f"{fault.src!r} and {fault.dst!r} have no group in common, so neither replicates from the other"
            raise FaultError(f"link: only = 'ha': {text}")
    if len(found) == 2 and not any(node.port for node in ends):
        raise FaultError(f"link: {fault.src!r} never sends to {fault.dst!r}, because neither of them is a server")


def _is_single(nodes: Iterable[Node]) -> bool:
    return all(node.host == "127.0.0.1" for node in nodes)


def _link_rules(active: ActiveFault, fault: LinkFault, node: Node, nodes: Sequence[Node]) -> Iterator[LinkRule]:
    """Yield a node's rules: one per affected group of peers and direction."""
    src, dst = _names(fault.src, fault.dst, active, nodes), _names(fault.dst, fault.src, active, nodes)
    ways = [(True, src, dst, fault.dst), (False, dst, src, fault.src)]
    if fault.both_ways:
        ways += [(True, dst, src, fault.src), (False, src, dst, fault.dst)]
    for is_outbound, own, others, other in ways:
        if node.name in own:
            peers = [peer for peer in nodes if peer != node and peer.name in others]
            yield from _rules_between(active.id, fault, node, peers, is_outbound=is_outbound)
            if other in (OUTSIDE, ANYONE) and not _is_single(nodes):
                subnets = tuple(dict.fromkeys(each.host.rpartition(".")[0] + "." for each in nodes))
                yield LinkRule(
                    id=active.id,
                    fault=fault,
                    node=node.name,
                    is_outbound=is_outbound,
                    ports=_ports(fault, [node]),
                    not_in=subnets,
                )


def _names(end: str, other: str, active: ActiveFault, nodes: Sequence[Node]) -> frozenset[str]:
    """Names of the nodes at one end of a link.

    `*` stands for all nodes that are not at the other end.
    """
    if end == OUTSIDE:
        return frozenset()
    if end != ANYONE:
        return active.nodes_of[end]
    return frozenset(node.name for node in nodes) - active.nodes_of.get(other, frozenset())


def _rules_between(
    fault_id: str, fault: LinkFault, node: Node, peers: Sequence[Node], *, is_outbound: bool
) -> Iterator[LinkRule]:
    if not peers:
        return
    if not _is_single([node, *peers]):
        # The receiver impairs the bytes. The sender needs the rule for its own connects.
        hosts = tuple(dict.fromkeys(peer.host for peer in peers))
        ports = _ports(fault, [node, *peers])
        yield LinkRule(
            id=fault_id,
            fault=fault,
            node=node.name,
            is_outbound=is_outbound,
            is_enforced_here=not is_outbound,
            ports=ports,
            hosts=hosts,
        )
        return
    ports = _ports(fault, peers)
    addresses = tuple(f"{peer.host}:{port}" for peer in peers for port in peer.listen_ports)
    if addresses:
        yield LinkRule(
            id=fault_id, fault=fault, node=node.name, is_outbound=is_outbound, ports=ports, addresses=addresses
        )


def _ports(fault: LinkFault, servers: Iterable[Node]) -> tuple[int, ...]:
    """The ports that `only` names; empty for all.

    Port 0 matches nothing: no node here serves that plane.
    """
    if fault.only is None:
        return ()
    ports = (_port_of(server, fault.only) for server in servers)
    return tuple(dict.fromkeys(port for port in ports if port)) or (0,)


def _port_of(node: Node, plane: str) -> int | None:
    if node.port is None or (plane != "remoting" and node.kind is not NodeKind.BROKER):
        return None
    return {"remoting": node.port, "vip": node.port - 2, "ha": node.group_port or node.ha_port}[plane]
