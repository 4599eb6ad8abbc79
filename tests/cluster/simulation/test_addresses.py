"""Simulated clusters have the addresses that their specification demands."""

from pathlib import Path

import pytest

from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from tests.cluster.simulated import on_cluster


async def hosts_and_ports(cluster: Cluster) -> list[str]:
    return [node.address for node in cluster.supervisor.nodes.values()]


@pytest.mark.parametrize(
    ("is_single", "addresses"),
    [
        (True, ["127.0.0.1:9876", "127.0.0.1:10911", "127.0.0.1:10921"]),
        (False, ["127.1.1.1:9876", "127.1.1.20:10911", "127.1.1.21:10911"]),
    ],
)
def test_nodes_share_an_address_if_the_specification_says_so(
    tmp_path: Path, *, is_single: bool, addresses: list[str]
) -> None:
    spec = ClusterSpec(name="x", single_address=is_single)
    assert on_cluster(tmp_path / "lab", hosts_and_ports, spec) == addresses
    assert on_cluster(tmp_path / "lab", hosts_and_ports, spec) == addresses


def test_a_cluster_that_gets_a_single_address_keeps_none_of_its_own(tmp_path: Path) -> None:
    on_cluster(tmp_path / "lab", hosts_and_ports, ClusterSpec(name="x"))
    single = ClusterSpec(name="x", single_address=True)
    assert on_cluster(tmp_path / "lab", hosts_and_ports, single)[0] == "127.0.0.1:9876"
