"""Who is told what: the rules of each node follow from the faults in force."""

import attrs
import pytest

from rmqlab.cluster.faults.active_faults import FaultBoard
from rmqlab.cluster.faults.rules import ClockFault, DiskFault, Fault, FaultError, Isolation, LinkFault, RequestFault
from rmqlab.cluster.supervisor.topology import (
    ClusterSpec,
    Node,
    NodeKind,
    Placement,
    UnknownTargetError,
    nodes_of,
    place,
)
from rmqlab.runtime.fault_rules import LinkRule, NodeRules

SPEC = ClusterSpec(slaves=2)
OWN = place(SPEC, Placement(subnet=9))
NODES = nodes_of(SPEC, OWN)
SINGLE = nodes_of(SPEC, attrs.evolve(OWN, subnet=None))
WORKLOAD = Node(name="produce-1", kind=NodeKind.WORKLOAD, host="127.77.9.240")

NAMESRV, MASTER, SLAVE, SLAVE2 = (node.host for node in NODES)


def rules(fault: Fault, name: str, nodes: list[Node] = NODES) -> NodeRules:
    board = FaultBoard()
    board.add(fault, nodes, 0)
    return board.rules_for(next(node for node in nodes if node.name == name), nodes)


def test_a_directed_link_is_played_by_its_receiver_and_known_to_its_sender() -> None:
    fault = LinkFault(src="broker-a-s", dst="broker-a", kind="latency", millis=200, jitter_millis=50)
    (received,) = rules(fault, "broker-a").links
    assert (received.hosts, received.is_outbound, received.is_shaped) == ((SLAVE,), False, True)
    assert (received.millis, received.jitter_millis, received.kind) == (200, 50, "latency")
    (sent,) = rules(fault, "broker-a-s").links
    assert (sent.hosts, sent.is_outbound, sent.is_shaped) == ((MASTER,), True, False)
    assert rules(fault, "broker-a-s2") == rules(fault, "namesrv-1") == NodeRules()


def test_only_one_plane_is_meant_by_its_ports() -> None:
    assert {
        only: rules(LinkFault(src="broker-a", dst="broker-a-s", kind="reset", only=only), "broker-a-s").links[0].ports
        for only in ("remoting", "vip", "ha")
    } == {"remoting": (10911,), "vip": (10909,), "ha": (10912,)}
    (rule,) = rules(LinkFault(src="broker-a", dst="namesrv-1", kind="reset", only="remoting"), "namesrv-1").links
    assert rule.ports == (9876, 10911)


def test_several_slaves_are_one_end() -> None:
    fault = LinkFault(src="broker-a:slave", dst="broker-a", kind="blackhole")
    assert rules(fault, "broker-a").links[0].hosts == (SLAVE, SLAVE2)
    assert rules(fault, "broker-a-s2").links[0].is_outbound


def test_an_isolated_node_hears_nobody_and_nobody_hears_it() -> None:
    fault = Isolation(target="broker-a")
    nodes = [*NODES, WORKLOAD]
    own = rules(fault, "broker-a", nodes).links

    def is_deaf(host: str) -> bool:
        return any(rule.concerns(host, "", 10911) and rule.is_shaped and not rule.is_outbound for rule in own)

    assert all(map(is_deaf, (NAMESRV, SLAVE, SLAVE2, WORKLOAD.host, "127.0.0.1", "10.0.0.1")))
    assert any(rule.not_in == "127.77.9." and rule.is_outbound and rule.is_shaped for rule in own)
    for name in ("namesrv-1", "broker-a-s", "produce-1"):
        assert {rule.hosts for rule in rules(fault, name, nodes).links} == {(MASTER,)}
        assert {rule.is_outbound for rule in rules(fault, name, nodes).links} == {True, False}


def test_the_outside_is_whoever_is_not_in_the_network() -> None:
    (rule,) = rules(LinkFault(src="outside", dst="broker-a", kind="blackhole"), "broker-a").links
    assert rule.concerns("127.0.0.1", "", 10911)
    assert not rule.concerns(SLAVE, "", 10911)
    (rule,) = rules(LinkFault(src="broker-a", dst="outside", kind="blackhole"), "broker-a").links
    assert rule.is_outbound
    assert rule.is_shaped
    assert rules(LinkFault(src="outside", dst="broker-a", kind="blackhole"), "broker-a-s") == NodeRules()


def test_at_a_single_address_the_one_that_connects_does_both_directions() -> None:
    fault = LinkFault(src="broker-a-s", dst="broker-a", kind="blackhole", only="ha", both_ways=True)
    slave, master = rules(fault, "broker-a-s", SINGLE).links, rules(fault, "broker-a", SINGLE).links
    assert [(rule.is_outbound, rule.is_shaped) for rule in slave] == [(True, True), (False, True)]
    address = f"127.0.0.1:{SINGLE[1].ha_port}"
    assert all(rule.concerns("127.0.0.1", address, SINGLE[1].ha_port or 0) for rule in slave)
    assert not any(rule.concerns("127.0.0.1", address, SINGLE[1].ha_port or 0) for rule in master)


def test_own_faults_are_told_to_their_target_only() -> None:
    board = FaultBoard()
    for fault in (
        DiskFault(target="broker-a", kind="full"),
        RequestFault(target="broker-a:slave", code="310", times=2),
        ClockFault(target="namesrv-1", kind="step", millis=-5000),
    ):
        board.add(fault, NODES, 0)
    told = {node.name: board.rules_for(node, NODES) for node in NODES}
    assert [len(told["broker-a"].disks), len(told["broker-a"].requests), len(told["broker-a"].clocks)] == [1, 0, 0]
    assert told["broker-a-s"] == told["broker-a-s2"]
    assert told["broker-a-s"].requests[0].response_code == 2
    assert told["namesrv-1"].clocks[0].millis == -5000


def test_a_counted_fault_is_over_when_the_last_of_its_nodes_is_done() -> None:
    board = FaultBoard()
    fault_id = board.add(RequestFault(target="broker-a:slave", code="310", times=2), NODES, 0).id
    assert not board.spent(fault_id, "broker-a-s", NODES)
    assert not board.rules_for(NODES[2], NODES).requests  # else a restart would begin again
    assert board.rules_for(NODES[3], NODES).requests
    assert board.spent(fault_id, "broker-a-s2", NODES)


def test_an_unknown_id_is_told_with_those_in_force() -> None:
    board = FaultBoard()
    board.add(Isolation(target="broker-a"), NODES, 0)
    with pytest.raises(FaultError, match="no fault 'f7' in force; in force: f1"):
        board.remove("f7")


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (LinkFault(src="outside", dst="*", kind="reset"), "one of them must be a node"),
        (LinkFault(src="broker-a", dst="broker-a:master", kind="reset"), "to itself"),
        (Isolation(target="outside"), "cannot be isolated"),
        (DiskFault(target="namesrv-1", kind="full"), "namesrv-1 is a nameserver: expected a broker"),
        (ClockFault(target="*", kind="step", millis=1), "a target for links only"),
    ],
)
def test_what_cannot_be_played_is_refused(fault: Fault, told: str) -> None:
    with pytest.raises(FaultError, match=told):
        FaultBoard().add(fault, NODES, 0)


def test_a_single_address_has_no_outside() -> None:
    with pytest.raises(FaultError, match="single address"):
        FaultBoard().add(LinkFault(src="outside", dst="broker-a", kind="reset"), SINGLE, 0)


def test_a_target_that_is_none_is_told_with_those_that_are() -> None:
    with pytest.raises(UnknownTargetError, match="broker-a-s"):
        FaultBoard().add(LinkFault(src="broker-b", dst="broker-a", kind="reset"), NODES, 0)


def test_a_plane_that_nobody_of_a_link_has_matches_no_connection() -> None:
    (rule,) = rules(
        LinkFault(src="produce-1", dst="namesrv-1", kind="reset", only="ha"), "namesrv-1", [*NODES, WORKLOAD]
    ).links
    assert isinstance(rule, LinkRule)
    assert not rule.concerns(WORKLOAD.host, "", 9876)
