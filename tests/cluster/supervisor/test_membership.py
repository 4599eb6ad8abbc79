"""Which nodes a cluster has after additions and removals."""

import re

import attrs
import pytest

from rmqlab.cluster.supervisor.plan.membership import Addition, addition, removal, without
from rmqlab.cluster.supervisor.plan.nodesettings import own_settings, set_for
from rmqlab.cluster.supervisor.plan.process_state import WrongStateError
from rmqlab.cluster.supervisor.plan.specs import check_spec, planned_names
from rmqlab.cluster.supervisor.plan.topology import (
    BLOCK,
    ClusterSpec,
    Node,
    NodeKind,
    Placement,
    UnknownTargetError,
    node_names,
    nodes_of,
    place,
)

SPEC = ClusterSpec(groups=2)
PLACEMENT = place(SPEC, Placement(subnet=9))
MEMBERS = ClusterSpec(mode="dledger", slaves=2)


def nodes(addition: Addition) -> list[Node]:
    return nodes_of(addition.spec, addition.placement)


def test_a_group_has_the_next_name_and_as_many_slaves_as_the_others() -> None:
    grown = addition(SPEC, PLACEMENT, "group")
    assert grown.names == ("broker-c", "broker-c-s")
    assert {PLACEMENT.slots[name] for name in PLACEMENT.slots} < set(grown.placement.slots.values())
    (master,) = (node for node in nodes(grown) if node.name == "broker-c")
    assert (master.group, master.broker_id, master.role) == ("broker-c", 0, "ASYNC_MASTER")


def test_a_slave_has_the_next_broker_id_of_its_group() -> None:
    once = addition(SPEC, PLACEMENT, "slave", "broker-a")
    twice = addition(once.spec, once.placement, "slave", "broker-a")
    assert (once.names, twice.names) == (("broker-a-s2",), ("broker-a-s3",))
    assert [node.broker_id for node in nodes(twice) if node.group == "broker-a"] == [0, 1, 2, 3]
    assert [node.name for node in nodes(twice)][:3] == ["namesrv-1", "broker-a", "broker-b"], "slaves start last"


def test_a_removed_name_is_reused_only_on_request() -> None:
    fewer = without(SPEC, ["broker-b", "broker-b-s"])
    assert node_names(fewer)[1] == ["broker-a", "broker-a-s"]
    assert addition(fewer, PLACEMENT, "group").names == ("broker-c", "broker-c-s")
    again = addition(fewer, PLACEMENT, "group", "broker-b")
    assert (again.names, again.spec, again.placement) == (("broker-b", "broker-b-s"), SPEC, PLACEMENT)


def test_an_added_node_that_is_removed_leaves_the_cluster_as_it_was() -> None:
    grown = addition(SPEC, PLACEMENT, "nameserver")
    assert grown.names == ("namesrv-2",)
    assert without(grown.spec, grown.names) == SPEC
    assert addition(SPEC, grown.placement, "nameserver").names == ("namesrv-3",)


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("slave", "broker-x", "unknown name 'broker-x'; did you mean broker-b?"),
        ("slave", "broker-a-s2", "unknown name 'broker-a-s2'; did you mean broker-a?"),
        ("group", "orders", "unknown name 'orders'; none was removed: leave the name out"),
        ("nameserver", "namesrv-7", "none was removed"),
        ("brokr", "", "expected one of group, slave, nameserver"),
    ],
)
def test_an_unknown_name_is_rejected(kind: str, name: str, said: str) -> None:
    with pytest.raises(UnknownTargetError) as caught:
        addition(SPEC, PLACEMENT, kind, name)
    assert said in str(caught.value)


def test_an_existing_node_is_not_added_again() -> None:
    with pytest.raises(WrongStateError, match="`add slave broker-a` adds a slave"):
        addition(SPEC, PLACEMENT, "group", "broker-a")
    with pytest.raises(WrongStateError, match="broker-a-s is already a node of this cluster: expected a group"):
        addition(SPEC, PLACEMENT, "slave", "broker-a-s")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (
            "broker-a",
            "broker-a has 2 nodes; expected broker-a:master \\(its master\\), or broker-a:\\* \\(all of them\\)",
        ),
        ("namesrv-1", "namesrv-1 is the last nameserver: add another one before, or stop the cluster"),
    ],
)
def test_a_removal_that_is_unclear_or_leaves_no_cluster_is_rejected(target: str, said: str) -> None:
    with pytest.raises(WrongStateError, match=said):
        removal(target, nodes_of(SPEC, PLACEMENT))


def test_the_last_group_and_workloads_are_not_removed() -> None:
    alone = nodes_of(ClusterSpec(), place(ClusterSpec(), Placement(subnet=9)))
    with pytest.raises(WrongStateError, match="last broker group"):
        removal("broker-a:*", alone)
    with pytest.raises(WrongStateError, match="orders is a workload: stop it"):
        removal("orders", [*alone, Node(name="orders", kind=NodeKind.WORKLOAD, host="127.77.9.240")])


def test_slaves_are_removed_before_their_master() -> None:
    assert [node.name for node in removal("broker-b:*", nodes_of(SPEC, PLACEMENT))] == ["broker-b-s", "broker-b"]


def test_a_dledger_group_is_added_and_removed_as_a_whole() -> None:
    placement = place(MEMBERS, Placement(subnet=9))
    grown = addition(MEMBERS, placement, "group")
    assert grown.names == ("broker-b-n0", "broker-b-n1", "broker-b-n2")
    with pytest.raises(WrongStateError, match="members of a DLedger group are fixed"):
        addition(MEMBERS, placement, "slave", "broker-a")
    with pytest.raises(WrongStateError, match="stop it, or remove the group with broker-a:"):
        removal("broker-a-n1", nodes(grown))
    assert len(removal("broker-b:*", nodes(grown))) == 3


def test_a_running_cluster_grows_within_its_addresses() -> None:
    full = ClusterSpec(groups=220, slaves=0)
    placement = place(full, Placement(subnet=9))
    with pytest.raises(WrongStateError, match="used up while it runs: stop it"):
        addition(full, placement, "group")
    roomy = attrs.evolve(placement, more_subnets=(10,))
    (name,) = addition(full, roomy, "group").names
    assert addition(full, roomy, "group").placement.slots[name] == BLOCK + 1


def test_settings_of_a_removed_node_go_with_it() -> None:
    given = {"broker-b": {"a": 1}, "broker-b-s": {"a": 2}}
    fewer = without(attrs.evolve(SPEC, node_settings=given), ["broker-b-s"])
    assert fewer.node_settings == {"broker-b": {"a": 1}}
    check_spec(fewer)


# ---- settings of single brokers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("broker-a", ["broker-a", "broker-a-s"]),
        ("broker-a:master", ["broker-a"]),
        ("broker-a:slave", ["broker-a-s"]),
        ("broker-a-s", ["broker-a-s"]),
    ],
)
def test_settings_are_for_a_group_a_planned_role_or_a_broker(target: str, names: list[str]) -> None:
    assert planned_names(SPEC, target) == names


def test_the_settings_that_were_given_last_win() -> None:
    spec = ClusterSpec(broker_settings={"a": 1, "b": 1, "c": 1}, node_settings={"broker-a": {"b": 2, "c": 2}})
    spec = attrs.evolve(spec, node_settings=set_for(spec, ["broker-a"], {"c": 3}))
    assert own_settings(spec, "broker-a") == {"a": 1, "b": 2, "c": 3}
    assert own_settings(spec, "broker-a-s") == {"a": 1, "b": 2, "c": 2}


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("broker-a-z", "no broker 'broker-a-z' here; did you mean broker-a-s?"),
        ("namesrv-1", "namesrv-1 is a nameserver: expected a broker"),
        ("broker-a:leader", "no broker 'broker-a:leader' here; did you mean broker-a"),
    ],
)
def test_settings_for_what_is_no_broker_are_rejected(target: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        check_spec(attrs.evolve(SPEC, node_settings={target: {"slave_read_enable": True}}))


def test_a_setting_that_each_node_has_of_its_own_is_rejected_for_single_brokers_too() -> None:
    with pytest.raises(ValueError, match="broker setting broker_id: each node has its own"):
        check_spec(attrs.evolve(SPEC, node_settings={"broker-a": {"broker_id": 7}}))
