"""The rules sent to each node follow from the faults in force."""

import attrs
import pytest

from rmqlab.cluster.faults.active_faults import ActiveFaults
from rmqlab.cluster.supervisor.plan.topology import (
    ClusterSpec,
    Node,
    NodeKind,
    Placement,
    UnknownTargetError,
    nodes_of,
    place,
)
from rmqlab.faults import (
    AnswerRequest,
    Blackhole,
    ClockStep,
    DiskFull,
    Fault,
    FaultError,
    ForgedHaReport,
    Isolation,
    Latency,
    Reset,
)
from rmqlab.faults.rules import LinkRule, NodeRules, OwnRule

SPEC = ClusterSpec(slaves=2)
OWN = place(SPEC, Placement(subnet=9))
NODES = nodes_of(SPEC, OWN)
SINGLE = nodes_of(SPEC, attrs.evolve(OWN, subnet=None))
WORKLOAD = Node(name="produce-1", kind=NodeKind.WORKLOAD, host="127.77.9.240")

NAMESRV, MASTER, SLAVE, SLAVE2 = (node.host for node in NODES)


def rules(fault: Fault, name: str, nodes: list[Node] = NODES) -> NodeRules:
    active = ActiveFaults()
    active.add(fault, nodes, 0)
    return active.rules_for(next(node for node in nodes if node.name == name), nodes)


def test_a_directed_link_is_played_by_its_receiver_and_known_to_its_sender() -> None:
    fault = Latency(src="broker-a-s", dst="broker-a", millis=200, jitter_millis=50)
    (received,) = rules(fault, "broker-a").links
    assert (received.hosts, received.is_outbound, received.is_enforced_here) == ((SLAVE,), False, True)
    assert received.fault == fault
    (sent,) = rules(fault, "broker-a-s").links
    assert (sent.hosts, sent.is_outbound, sent.is_enforced_here) == ((MASTER,), True, False)
    assert rules(fault, "broker-a-s2") == rules(fault, "namesrv-1") == NodeRules()


def test_only_one_plane_is_meant_by_its_ports() -> None:
    assert {
        only: rules(Reset(src="broker-a", dst="broker-a-s", only=only), "broker-a-s").links[0].ports
        for only in ("remoting", "vip", "ha")
    } == {"remoting": (10911,), "vip": (10909,), "ha": (10912,)}
    (rule,) = rules(Reset(src="broker-a", dst="namesrv-1", only="remoting"), "namesrv-1").links
    assert rule.ports == (9876, 10911)


def test_several_slaves_are_one_end() -> None:
    fault = Blackhole(src="broker-a:slave", dst="broker-a")
    assert rules(fault, "broker-a").links[0].hosts == (SLAVE, SLAVE2)
    assert rules(fault, "broker-a-s2").links[0].is_outbound


def test_an_isolated_node_neither_receives_nor_sends() -> None:
    fault = Isolation(target="broker-a")
    nodes = [*NODES, WORKLOAD]
    own = rules(fault, "broker-a", nodes).links

    def is_deaf(host: str) -> bool:
        return any(rule.concerns(host, "", 10911) and rule.is_enforced_here and not rule.is_outbound for rule in own)

    assert all(map(is_deaf, (NAMESRV, SLAVE, SLAVE2, WORKLOAD.host, "127.0.0.1", "10.0.0.1")))
    assert any(rule.not_in == ("127.77.9.",) and rule.is_outbound and rule.is_enforced_here for rule in own)
    for name in ("namesrv-1", "broker-a-s", "produce-1"):
        assert {rule.hosts for rule in rules(fault, name, nodes).links} == {(MASTER,)}
        assert {rule.is_outbound for rule in rules(fault, name, nodes).links} == {True, False}


def test_the_outside_is_every_host_not_in_the_network() -> None:
    (rule,) = rules(Blackhole(src="outside", dst="broker-a"), "broker-a").links
    assert rule.concerns("127.0.0.1", "", 10911)
    assert not rule.concerns(SLAVE, "", 10911)
    (rule,) = rules(Blackhole(src="broker-a", dst="outside"), "broker-a").links
    assert rule.is_outbound
    assert rule.is_enforced_here
    assert rules(Blackhole(src="outside", dst="broker-a"), "broker-a-s") == NodeRules()


def test_at_a_single_address_the_one_that_connects_does_both_directions() -> None:
    fault = Blackhole(src="broker-a-s", dst="broker-a", only="ha", both_ways=True)
    slave, master = rules(fault, "broker-a-s", SINGLE).links, rules(fault, "broker-a", SINGLE).links
    assert [(rule.is_outbound, rule.is_enforced_here) for rule in slave] == [(True, True), (False, True)]
    address = f"127.0.0.1:{SINGLE[1].ha_port}"
    assert all(rule.concerns("127.0.0.1", address, SINGLE[1].ha_port or 0) for rule in slave)
    assert not any(rule.concerns("127.0.0.1", address, SINGLE[1].ha_port or 0) for rule in master)


def test_node_faults_are_sent_to_their_target_only() -> None:
    active = ActiveFaults()
    for fault in (
        DiskFull(target="broker-a"),
        AnswerRequest(target="broker-a:slave", code="310", times=2),
        ClockStep(target="namesrv-1", millis=-5000),
        ForgedHaReport(target="broker-a"),  # played by the supervisor
    ):
        active.add(fault, NODES, 0)
    rules_of = {node.name: active.rules_for(node, NODES) for node in NODES}
    assert rules_of["broker-a"] == NodeRules(own=(OwnRule(id="f1", fault=DiskFull(target="broker-a")),))
    assert rules_of["broker-a-s"] == rules_of["broker-a-s2"]
    assert [rule.id for rule in rules_of["broker-a-s"].own] == ["f2"]
    assert [rule.id for rule in rules_of["namesrv-1"].own] == ["f3"]


def test_a_counted_fault_is_over_when_the_last_of_its_nodes_is_done() -> None:
    active = ActiveFaults()
    fault_id = active.add(AnswerRequest(target="broker-a:slave", code="310", times=2), NODES, 0).id
    assert not active.mark_spent(fault_id, "broker-a-s")
    assert not active.rules_for(NODES[2], NODES).own  # else a restart would begin again
    assert active.rules_for(NODES[3], NODES).own
    assert active.mark_spent(fault_id, "broker-a-s2")


def test_an_unknown_id_is_reported_with_the_active_faults() -> None:
    active = ActiveFaults()
    active.add(Isolation(target="broker-a"), NODES, 0)
    with pytest.raises(FaultError, match="no fault 'f7' in force; in force: f1"):
        active.remove("f7")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Reset(src="outside", dst="*"), "one of them must be a node"),
        (Reset(src="broker-a", dst="broker-a:master"), "to itself"),
        (Isolation(target="outside"), "cannot be isolated"),
        (DiskFull(target="namesrv-1"), "namesrv-1 is a nameserver: expected a broker"),
        (ClockStep(target="*", millis=1), "a target for links only"),
        (Reset(src="produce-1", dst="consume-1"), "never sends to 'consume-1', because neither of them is a server"),
        (Reset(src="produce-1", dst="namesrv-1", only="ha"), "neither 'produce-1' nor 'namesrv-1' is a broker"),
        (Reset(src="broker-a", dst="namesrv-1", only="ha"), "'broker-a' and 'namesrv-1' have no group in common"),
        (Reset(src="produce-1", dst="*", only="ha"), "'produce-1' and '\\*' have no group in common"),
        (Reset(src="outside", dst="namesrv-1", only="vip"), "neither 'outside' nor 'namesrv-1' is a broker"),
    ],
)
def test_an_impossible_fault_is_rejected(fault: Fault, message: str) -> None:
    with pytest.raises(FaultError, match=message):
        ActiveFaults().add(fault, [*NODES, WORKLOAD, attrs.evolve(WORKLOAD, name="consume-1")], 0)


def test_a_single_address_has_no_outside() -> None:
    with pytest.raises(FaultError, match="single address"):
        ActiveFaults().add(Reset(src="outside", dst="broker-a"), SINGLE, 0)


def test_an_unknown_target_is_reported_with_the_known_ones() -> None:
    with pytest.raises(UnknownTargetError, match="broker-a-s"):
        ActiveFaults().add(Reset(src="broker-b", dst="broker-a"), NODES, 0)


def test_in_a_dledger_group_replication_is_at_the_port_of_the_group() -> None:
    spec = ClusterSpec(mode="dledger", slaves=2)
    members = nodes_of(spec, place(spec, Placement(subnet=9)))
    (rule,) = rules(Reset(src="broker-a-n0", dst="broker-a-n1", only="ha"), "broker-a-n1", members).links
    assert rule.ports == (members[1].group_port,)


def test_a_plane_that_no_node_of_a_link_has_matches_no_connection() -> None:
    fault = Reset(src="outside", dst="broker-a,namesrv-1", only="vip")
    (rule,) = rules(fault, "namesrv-1").links
    assert isinstance(rule, LinkRule)
    assert rules(fault, "broker-a").links[0].concerns("10.0.0.1", "", 10909)
    assert not rule.concerns("10.0.0.1", "", 9876)
