"""The faults in force in a cluster, and what each node is told of them. Pure.

Who does it to the bytes: the node that receives them, for it knows the sender by its IP address, and what is under
way outlives the sender's process. What goes outside is held back where it is sent. At a single address a node can
tell only whom it has connected to itself, so there the one that connects does both directions.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from rmqlab.cluster.faults.rules import (
    ANYONE,
    DEFAULT_CUT,
    OUTSIDE,
    ClockFault,
    DiskFault,
    Fault,
    FaultError,
    HaReportFault,
    Isolation,
    LinkFault,
    RequestFault,
    fault_values,
    targets_of,
)
from rmqlab.cluster.supervisor.topology import Node, NodeKind, find_targets
from rmqlab.runtime.fault_rules import ClockRule, DiskRule, LinkRule, NodeRules, RequestRule


@attrs.frozen
class ActiveFault:
    """A fault in force, by its id."""

    id: str
    fault: Fault
    applied_at: int
    """Milliseconds of the cluster's clock."""

    def as_json(self) -> dict[str, object]:
        """As `faults --json` and `status --json` list it."""
        return {"id": self.id, **fault_values(self.fault), "applied_at": self.applied_at}


@attrs.define(eq=False)
class FaultBoard:
    """What is in force, oldest first."""

    active: dict[str, ActiveFault] = attrs.field(factory=dict)
    _spent: dict[str, set[str]] = attrs.field(factory=dict, init=False)  # nodes that are done with it, by id
    _numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1), init=False)

    def add(self, fault: Fault, nodes: Sequence[Node], now: int) -> ActiveFault:
        """Put a fault in force. FaultError or UnknownTargetError where it cannot be played here."""
        check_playable(fault, nodes)
        active = ActiveFault(f"f{next(self._numbers)}", fault, now)
        self.active[active.id] = active
        return active

    def find(self, fault_id: str) -> ActiveFault:
        """The fault of this id. FaultError names those that there are."""
        if fault_id not in self.active:
            known = ", ".join(self.active) or "none"
            raise FaultError(f"no fault {fault_id!r} in force; in force: {known}")
        return self.active[fault_id]

    def remove(self, fault_id: str) -> ActiveFault:
        """End a fault. Errors as `find`."""
        found = self.find(fault_id)
        del self.active[fault_id]
        self._spent.pop(fault_id, None)
        return found

    def spent(self, fault_id: str, node: str, nodes: Sequence[Node]) -> bool:
        """A node has done what it was to do. True if that was the last one."""
        if fault_id not in self.active:
            return False
        done = self._spent.setdefault(fault_id, set())
        done.add(node)
        return done >= {
            found.name for target in targets_of(self.active[fault_id].fault) for found in find_targets(target, nodes)
        }

    def rules_for(self, node: Node, nodes: Sequence[Node]) -> NodeRules:
        """What this node is told."""
        links: list[LinkRule] = []
        rules: list[DiskRule | RequestRule | ClockRule] = []
        for active in self.active.values():
            fault = active.fault
            if isinstance(fault, (LinkFault, Isolation)):
                links += _link_rules(active.id, fault, node, nodes)
            elif node.name not in self._spent.get(active.id, ()) and _is_meant(node, fault.target, nodes):
                rules += _own_rules(active.id, fault)
        return NodeRules(
            links=tuple(links),
            disks=tuple(rule for rule in rules if isinstance(rule, DiskRule)),
            requests=tuple(rule for rule in rules if isinstance(rule, RequestRule)),
            clocks=tuple(rule for rule in rules if isinstance(rule, ClockRule)),
        )


def check_playable(fault: Fault, nodes: Sequence[Node]) -> None:
    """FaultError where this cluster cannot play it; UnknownTargetError where a target is none."""
    found = {target: find_targets(target, nodes) for target in targets_of(fault) if target not in (OUTSIDE, ANYONE)}
    if isinstance(fault, LinkFault):
        _check_link(fault, found, is_single=_is_single(nodes))
        return
    if not isinstance(fault, Isolation) and fault.target in (OUTSIDE, ANYONE):
        raise FaultError(f"{fault.target!r} is a target for links only: expected a node")
    wanted = None
    if isinstance(fault, (DiskFault, HaReportFault)):
        wanted = NodeKind.BROKER
    for target in found.values():
        for node in target:
            if wanted is not None and node.kind is not wanted:
                raise FaultError(f"{node.name} is a {node.kind}: expected a {wanted}")
    if isinstance(fault, Isolation) and not found:
        raise FaultError(f"isolate: {fault.target!r} cannot be isolated: expected a node")


def _check_link(fault: LinkFault, found: Mapping[str, list[Node]], *, is_single: bool) -> None:
    if is_single and OUTSIDE in (fault.src, fault.dst):
        raise FaultError("link: at a single address nobody can tell who is outside; use a cluster of own addresses")
    if not found:
        raise FaultError(f"link: from {fault.src!r} to {fault.dst!r}: one of them must be a node of the cluster")
    ends = {node.name for node in found.get(fault.src, ())}, {node.name for node in found.get(fault.dst, ())}
    if ends[0] and ends[0] == ends[1] and len(ends[0]) == 1:
        raise FaultError(f"link: from {fault.src!r} to itself: expected two nodes")
    if is_single and all(not node.port for nodes in found.values() for node in nodes) and len(found) == 2:
        raise FaultError(f"link: nothing ever goes from {fault.src!r} to {fault.dst!r}: neither serves")


def _is_single(nodes: Iterable[Node]) -> bool:
    return all(node.host == "127.0.0.1" for node in nodes)


def _is_meant(node: Node, target: str, nodes: Sequence[Node]) -> bool:
    return node in find_targets(target, nodes)


def _own_rules(fault_id: str, fault: Fault) -> list[DiskRule | RequestRule | ClockRule]:
    """Rules of a fault that a node plays by itself."""
    match fault:
        case DiskFault(kind=kind):
            return [
                DiskRule(
                    id=fault_id,
                    kind=kind,
                    bytes_left=fault.bytes_left or 0,
                    millis=fault.millis or 0,
                    percent=fault.percent or 0,
                )
            ]
        case RequestFault(kind=kind):
            return [
                RequestRule(
                    id=fault_id,
                    kind=kind,
                    code=fault.code_number,
                    times=fault.times or 0,
                    response_code=fault.response_number,
                    remark=fault.remark or "",
                    millis=fault.millis or 0,
                )
            ]
        case ClockFault(kind=kind):
            return [ClockRule(id=fault_id, kind=kind, millis=fault.millis or 0, ppm=fault.ppm or 0)]
    return []


def _link_rules(fault_id: str, fault: LinkFault | Isolation, node: Node, nodes: Sequence[Node]) -> Iterator[LinkRule]:
    """What a node is told of a link: one rule for each peer and direction that concerns it."""
    if isinstance(fault, Isolation):
        fault = LinkFault(src=fault.target, dst=ANYONE, kind="blackhole", both_ways=True)
    src, dst = _names(fault.src, fault.dst, nodes), _names(fault.dst, fault.src, nodes)
    ways = [(True, src, dst, fault.dst), (False, dst, src, fault.src)]
    if fault.both_ways:
        ways += [(True, dst, src, fault.src), (False, src, dst, fault.dst)]
    for is_outbound, own, others, other in ways:
        if node.name in own:
            peers = [peer for peer in nodes if peer != node and peer.name in others]
            yield from _rules_between(fault_id, fault, node, peers, is_outbound=is_outbound)
            if other in (OUTSIDE, ANYONE) and not _is_single(nodes):
                network = node.host.rpartition(".")[0] + "."
                yield _rule(fault_id, fault, is_outbound=is_outbound, ports=_ports(fault, [node]), not_in=network)


def _names(end: str, other: str, nodes: Sequence[Node]) -> set[str]:
    """Who is meant by an end of a link: by name, or as one of all those that the other end is not."""
    if end == OUTSIDE:
        return set()
    if end != ANYONE:
        return {node.name for node in find_targets(end, nodes)}
    others = set() if other in (OUTSIDE, ANYONE) else {node.name for node in find_targets(other, nodes)}
    return {node.name for node in nodes} - others


def _rules_between(
    fault_id: str, fault: LinkFault, node: Node, peers: Sequence[Node], *, is_outbound: bool
) -> Iterator[LinkRule]:
    if not peers:
        return
    if not _is_single([node, *peers]):
        # The receiver does it to the bytes. The sender must know all the same, for its own connecting.
        hosts = tuple(dict.fromkeys(peer.host for peer in peers))
        ports = _ports(fault, [node, *peers])
        yield _rule(fault_id, fault, is_outbound=is_outbound, is_shaped=not is_outbound, ports=ports, hosts=hosts)
        return
    ports = _ports(fault, peers)
    addresses = tuple(f"{peer.host}:{port}" for peer in peers for port in peer.listen_ports)
    if addresses:
        yield _rule(fault_id, fault, is_outbound=is_outbound, ports=ports, addresses=addresses)


def _ports(fault: LinkFault, servers: Iterable[Node]) -> tuple[int, ...]:
    """The ports that `only` means; none stands for all. A plane that nobody here has is port 0: it matches nothing."""
    if fault.only is None:
        return ()
    ports = (_port_of(server, fault.only) for server in servers)
    return tuple(dict.fromkeys(port for port in ports if port)) or (0,)


def _port_of(node: Node, plane: str) -> int | None:
    if node.port is None or (plane != "remoting" and node.kind is not NodeKind.BROKER):
        return None
    return {"remoting": node.port, "vip": node.port - 2, "ha": node.ha_port}[plane]


def _rule(
    fault_id: str,
    fault: LinkFault,
    *,
    is_outbound: bool,
    ports: tuple[int, ...],
    is_shaped: bool = True,
    hosts: tuple[str, ...] = (),
    not_in: str = "",
    addresses: tuple[str, ...] = (),
) -> LinkRule:
    is_slice, is_cut = fault.kind == "slice", fault.kind == "cut"
    return LinkRule(
        id=fault_id,
        kind=fault.kind,
        is_outbound=is_outbound,
        is_shaped=is_shaped,
        hosts=hosts,
        not_in=not_in,
        addresses=addresses,
        ports=ports,
        millis=(fault.gap_millis if is_slice else fault.millis) or 0,
        jitter_millis=fault.jitter_millis or 0,
        bytes_per_second=fault.bytes_per_second or 0,
        count=(fault.after_bytes or DEFAULT_CUT) if is_cut else (fault.segment_bytes or 1) if is_slice else 0,
    )
