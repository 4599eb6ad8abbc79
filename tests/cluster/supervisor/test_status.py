"""The status document of large clusters and of nodes with much to say."""

from typing import Any

import msgpack
import pytest

from rmqlab.cluster.supervisor.plan.process_state import ProcessState
from rmqlab.cluster.supervisor.plan.status import MOST_FACTS, Facts, status_document
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Node, Placement, nodes_of, place
from rmqlab.runtime.bounds import LEFT_OUT
from rmqlab.runtime.node.control import ControlLink

READY = ProcessState(is_alive=True, pid=7, ready={})


def cluster(groups: int) -> tuple[list[Node], dict[str, Facts]]:
    """Return the nodes of a cluster, and facts of them.

    The nameserver has the routes of all groups.
    """
    spec = ClusterSpec(groups=groups)
    nodes = nodes_of(spec, place(spec, Placement(subnet=9, more_subnets=(10, 11, 12, 13, 14))))
    routes: dict[str, Any] = {}
    for node in nodes[1:]:
        addresses = routes.setdefault(str(node.group), {"cluster": "DefaultCluster", "addresses": {}})["addresses"]
        addresses[str(node.broker_id)] = node.address
    link = ControlLink()
    link.on_snapshot.append(lambda: {"routes": routes, "topics": len(routes), "topic_names": [*routes]})
    small: Facts = {"commit_log": {"min": 0, "max": 0}}
    return nodes, {node.name: small for node in nodes} | {"namesrv-1": link.snapshot()}


def document(nodes: list[Node], facts: dict[str, Facts]) -> dict[str, Any]:
    return status_document({}, nodes, {node.name: READY for node in nodes}, facts, "/dir")


@pytest.mark.parametrize("groups", [2, 500])
def test_the_routes_of_a_nameserver_are_whole_however_many_brokers_there_are(groups: int) -> None:
    nodes, facts = cluster(groups)
    status = document(nodes, facts)
    assert len(status["routes"]["namesrv-1"]) == groups
    assert all(len(addresses) == 2 for addresses in status["routes"]["namesrv-1"].values())
    assert status["routes_left_out"] == {}


def test_facts_of_all_nodes_stay_below_their_limit_together() -> None:
    nodes, facts = cluster(20)
    for node in nodes[1:]:
        facts[node.name] = {"topic_names": ["x" * 1000] * 1000, "commit_log": {"min": 0, "max": 10**30}}
    status = document(nodes, facts)
    assert len(msgpack.packb(status)) < MOST_FACTS + 100_000
    assert len(status["routes"]["namesrv-1"]) == 20


def test_routes_that_do_not_fit_are_counted() -> None:
    nodes, facts = cluster(2)
    routes = {f"broker-{number}": {"addresses": {"0": "x" * 4000}} for number in range(3000)}
    status = document(nodes, facts | {"namesrv-1": {"routes": routes}})
    kept = len(status["routes"]["namesrv-1"])
    assert 200 < kept < 300
    assert status["routes_left_out"] == {"namesrv-1": 3000 - kept}
    assert LEFT_OUT not in status["routes"]["namesrv-1"]
