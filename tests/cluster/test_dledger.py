"""Clusters of mode dledger: processes, roles, targets, status.

The killed leader is a real process; transfers are simulated.
"""

from pathlib import Path

import pytest

from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError, WrongStateError
from rmqlab.cluster.supervisor.plan.specs import check_spec
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from tests.cluster.simulated import simulated

SPEC = ClusterSpec(name="dledger", mode="dledger", slaves=2, rate=10)
on_simulated_cluster = simulated({"simulated": SPEC})
MEMBERS = {"broker-a-n0", "broker-a-n1", "broker-a-n2"}


def leader(cluster: Cluster) -> str:
    (node,) = cluster.supervisor.find("broker-a:master")
    return node.name


async def test_a_killed_leader_is_replaced_and_returns_as_follower(tmp_path: Path) -> None:
    """Issue 16: roles are facts of nodes that the group changes."""
    async with open_cluster(SPEC, directory=tmp_path) as cluster:
        assert {node.name for node in cluster.supervisor.nodes.values() if node.group} == MEMBERS
        old = leader(cluster)
        await cluster.wait_until("slave-in-sync broker-a", 60)
        await cluster.kill("broker-a:master")
        await cluster.wait_until(f"route-gone {old}", 60)
        while (new := leader(cluster)) == old:
            await cluster.supervisor.events.wait_changed()
        await cluster.wait_until(f"route-has {new}", 60)
        await cluster.start(old)
        await cluster.wait_until("slave-in-sync broker-a", 60)
        status = await cluster.status()
        assert status["masters"] == {"broker-a": [new]}
        members = {node["name"]: node["dledger"] for node in status["nodes"] if node["group"]}
        assert {name for name, member in members.items() if member["role"] == "FOLLOWER"} == MEMBERS - {new}
        assert len({(member["term"], member["leader"]) for member in members.values()}) == 1


@on_simulated_cluster
async def test_a_leader_hands_over_to_the_promoted_member(cluster: Cluster) -> None:
    """dledger#21, #22: request 51005 between processes; no process is restarted."""
    await cluster.wait_until("slave-in-sync broker-a", 60)
    old = leader(cluster)
    new = min(MEMBERS - {old})
    pids = {name: cluster.supervisor.process_state(name).pid for name in MEMBERS}
    assert await cluster.promote(new) == (new,)
    assert leader(cluster) == new
    await cluster.wait_until(f"route-has {new}", 60)
    await cluster.wait_until("slave-in-sync broker-a", 60)
    assert {name: cluster.supervisor.process_state(name).pid for name in MEMBERS} == pids
    (asked,) = [event for event in cluster.events if event.kind == "leadership_asked"]
    assert (asked.node, asked.fields["code"]) == (new, 200)


@on_simulated_cluster
async def test_a_transfer_that_cannot_work_changes_nothing(cluster: Cluster) -> None:
    await cluster.wait_until("slave-in-sync broker-a", 60)
    first = leader(cluster)
    other, away = sorted(MEMBERS - {first})
    with pytest.raises(WrongStateError, match=f"{first} already leads broker-a"):
        await cluster.promote(first)
    with pytest.raises(WrongStateError, match="expected one member, for a DLedger group has one leader"):
        await cluster.promote("broker-a:slave")
    with pytest.raises(WrongStateError, match="which elects its leader: `promote` another member"):
        await cluster.demote(first)
    await cluster.kill(away)
    with pytest.raises(WrongStateError, match=f"{away} is killed: expected a running member"):
        await cluster.promote(away)
    await cluster.isolate(other)
    with pytest.raises(NodeFailedError, match="the transfer ended with 302 NETWORK_ERROR"):
        await cluster.promote(other)
    await cluster.pause(first)
    with pytest.raises(WrongStateError, match=f"{first}, the leader of broker-a, does not respond"):
        await cluster.promote(other)


@pytest.mark.parametrize("members", [2, 4])
def test_an_even_group_is_refused(members: int) -> None:
    with pytest.raises(ValueError, match=f"a DLedger group of {members} members: expected an odd number"):
        check_spec(ClusterSpec(mode="dledger", slaves=members - 1))
