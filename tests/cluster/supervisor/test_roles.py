"""Changes of roles: which nodes become what, and which broker ids they get."""

import pytest

from rmqlab.cluster.supervisor.plan.process_state import WrongStateError
from rmqlab.cluster.supervisor.plan.roles import (
    acting_master,
    changes_of,
    check_one_each,
    demoted,
    promoted,
    with_changes,
)
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Node, Placement, nodes_of, place

SPEC = ClusterSpec(role="SYNC_MASTER", groups=2, slaves=2)
NODES = nodes_of(SPEC, place(SPEC, Placement(subnet=9)))


def named(name: str, nodes: list[Node]) -> Node:
    return next(node for node in nodes if node.name == name)


def replaced(now: Node, nodes: list[Node]) -> list[Node]:
    return [now if node.name == now.name else node for node in nodes]


def test_a_promoted_slave_is_the_acting_master_beside_the_old_one() -> None:
    now = promoted(named("broker-a-s", NODES), NODES, SPEC.role)
    nodes = replaced(now, NODES)
    assert (now.role, now.broker_id, now.is_master) == ("SYNC_MASTER", 0, True)
    assert acting_master("broker-a", nodes) is now
    assert acting_master("broker-b", nodes) is named("broker-b", NODES)
    assert named("broker-a", nodes).is_master


def test_a_demoted_master_gets_the_lowest_free_id_of_its_group() -> None:
    nodes = replaced(promoted(named("broker-a-s", NODES), NODES, SPEC.role), NODES)
    now = demoted(named("broker-a", nodes), nodes)
    assert (now.role, now.broker_id) == ("SLAVE", 1)
    nodes = replaced(now, nodes)
    assert demoted(named("broker-a-s", nodes), nodes).broker_id == 3  # 1 and 2 are taken


def test_of_two_promoted_slaves_the_later_one_acts() -> None:
    nodes = NODES
    for name in ("broker-a-s2", "broker-a-s"):
        nodes = replaced(promoted(named(name, nodes), nodes, SPEC.role), nodes)
    assert acting_master("broker-a", nodes) is named("broker-a-s", nodes)


def test_of_one_group_one_slave_can_be_promoted_at_a_time() -> None:
    check_one_each([named("broker-a-s", NODES), named("broker-b-s2", NODES), named("namesrv-1", NODES)])
    with pytest.raises(WrongStateError, match="broker-a-s and broker-a-s2 are slaves of broker-a: promote one of them"):
        check_one_each(node for node in NODES if node.group == "broker-a" and node.is_slave)


def test_a_master_beside_one_of_its_slaves_is_not_called_a_slave() -> None:
    nodes = [named("broker-a", NODES), named("broker-a-s", NODES)]
    for chosen in (nodes, nodes[::-1]):
        check_one_each(chosen)  # `promoted` rejects the master
    with pytest.raises(WrongStateError, match="broker-a-s and broker-a-s2 are slaves"):
        check_one_each([*nodes, named("broker-a-s2", NODES)])


def test_changes_are_kept_in_their_order() -> None:
    nodes = replaced(promoted(named("broker-a-s2", NODES), NODES, SPEC.role), NODES)
    nodes = replaced(demoted(named("broker-a", nodes), nodes), nodes)
    changes = changes_of(nodes)
    assert [*changes.items()] == [("broker-a-s2", 0), ("broker-a", 2)]
    assert with_changes(NODES, changes, SPEC.role) == nodes
    assert acting_master("broker-a", with_changes(NODES, {"broker-a": 3}, SPEC.role)) is None


@pytest.mark.parametrize(
    ("change", "name", "message"),
    [
        ("promote", "broker-a", "broker-a is already a master of broker-a; its slaves: broker-a-s, broker-a-s2"),
        ("demote", "broker-b-s", "broker-b-s is already a slave of broker-b"),
        ("promote", "namesrv-1", "namesrv-1 is a nameserver: only brokers have roles"),
        ("demote", "namesrv-1", "namesrv-1 is a nameserver: only brokers have roles"),
    ],
)
def test_an_impossible_change_is_rejected(change: str, name: str, message: str) -> None:
    node = named(name, NODES)
    with pytest.raises(WrongStateError, match=message):
        promoted(node, NODES, SPEC.role) if change == "promote" else demoted(node, NODES)
