"""The condition `is-master` of a group whose members elect their master."""

import pytest

from rmqlab.cluster.conditions import parse_condition
from rmqlab.cluster.supervisor.plan.process_state import ProcessState
from rmqlab.cluster.supervisor.plan.status import Document, Facts, status_document
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Placement, UnknownTargetError, nodes_of, place

SPEC = ClusterSpec(mode="dledger", slaves=2)
NODES = nodes_of(SPEC, place(SPEC, Placement(subnet=9)))
READY = ProcessState(is_alive=True, pid=7, ready={})


def status(**ids: int) -> Document:
    """Return the status of a group whose member n0 was killed; `ids` are of others."""
    facts: dict[str, Facts] = {f"broker-a-{name}": {"broker_id": number} for name, number in ids.items()}
    states = {node.name: READY for node in NODES} | {"broker-a-n0": ProcessState(exit_status=-9)}
    return status_document({"name": "c", "namesrv_addr": "x", "rate": 1}, NODES, states, facts, "/dir")


@pytest.mark.parametrize("target", ["broker-a:master", "broker-a"])
def test_the_master_of_a_group_is_whichever_member_is_when_it_is_looked_at(target: str) -> None:
    judged = parse_condition(["is-master", target], NODES)
    assert judged.explain(status(n1=2, n2=3)) == "broker-a has no running master"
    assert judged.holds(status(n1=2, n2=0))


def test_a_group_and_a_member_can_be_one_target() -> None:
    judged = parse_condition(["is-master", "broker-a:master,broker-a-n1"], NODES)
    assert judged.explain(status(n1=2, n2=0)) == "broker-a-n1 has broker id 2"
    assert judged.holds(status(n1=0, n2=3))


@pytest.mark.parametrize("target", ["broker-c:master", "broker-a:mster"])
def test_an_unknown_group_or_role_is_rejected(target: str) -> None:
    with pytest.raises(UnknownTargetError):
        parse_condition(["is-master", target], NODES)
