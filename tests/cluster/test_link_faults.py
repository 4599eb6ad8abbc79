"""Faults of links: effective while in force, no later trace in logs.

The first test and the one about peers outside have real processes, the others simulated ones.
"""

import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, UnknownTargetError
from rmqlab.faults import (
    Bandwidth,
    Blackhole,
    Corrupt,
    Cut,
    FaultError,
    FullTable,
    Latency,
    Loss,
    Refuse,
    Reorder,
    Reset,
    Slice,
    SlowReader,
)
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import request as command
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalreader import read_journals
from rmqlab.runtime.net.reactor import open_reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.remoting_errors import RequestTimeoutError
from tests.cluster.simulated import simulated

LONG = 60.0
"""Real seconds."""


PATIENT = {"slave_timeout": 10_000, "register_broker_timeout_mills": 60_000}
"""Room for a busy machine, which has a fifth of these times."""
SPECS = {
    "own addresses": ClusterSpec(name="x", role="SYNC_MASTER", rate=5, broker_settings=PATIENT),
    "single address": ClusterSpec(name="x", role="SYNC_MASTER", rate=5, single_address=True, broker_settings=PATIENT),
}


async def has_reported(cluster: Cluster) -> None:
    """Wait for the slave's first report."""
    await cluster.wait_until(lambda document: document["replication"][0]["slaveAckOffset"] == 0, LONG)


on_simulated_links = simulated(SPECS, has_reported)


@pytest.fixture(params=[*SPECS])
async def cluster(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> AsyncIterator[Cluster]:
    async with open_cluster(SPECS[request.param], directory=tmp_path / "lab") as made:
        await has_reported(made)
        yield made


async def send(cluster: Cluster, count: int, **config: object) -> list[JournalEntry]:
    """Send; what became of each."""
    workload = await cluster.run_workload(
        "rmqlab.cluster.workload.produce",
        {"count": count, "rate_per_second": 0, "topic": "orders", "send_timeout": 60.0, **config},
    )
    assert await workload.wait_ended(LONG) == 0
    entries = read_journals(cluster.supervisor.directory.journal_dir)
    return [entry for entry in entries if entry.node == workload.name and entry.kind == "sent"]


def log_of(cluster: Cluster, node: str, end: int) -> bytes:
    (path,) = (cluster.supervisor.directory.data_dir(node) / "store" / "commitlog").iterdir()
    with path.open("rb") as file:
        return file.read(end)


async def assert_equal_logs(cluster: Cluster) -> None:
    document = await cluster.wait_until("slave-caught-up broker-a:master", LONG)
    end = document["replication"][0]["masterCommitLogMaxOffset"]
    assert end > 0
    assert log_of(cluster, "broker-a", end) == log_of(cluster, "broker-a-s", end)


def disconnects(cluster: Cluster) -> int:
    return sum(event.kind == "ha_client_disconnected" for event in cluster.events)


@pytest.mark.parametrize("cluster", ["own addresses"], indirect=True)
async def test_replication_outlives_every_fault_of_its_link(cluster: Cluster) -> None:
    await outlives_every_fault(cluster)


@simulated({"single address": SPECS["single address"]}, has_reported)
async def test_simulated_replication_outlives_every_fault_of_its_link(cluster: Cluster) -> None:
    await outlives_every_fault(cluster)


async def outlives_every_fault(cluster: Cluster) -> None:
    """Faults between or within frames leave the slave's log whole."""
    link: dict[str, Any] = {"src": "broker-a", "dst": "broker-a-s", "only": "ha"}
    for fault in (
        Slice(**link, segment_bytes=7),
        Latency(**link, millis=50, jitter_millis=50, both_ways=True),
        Bandwidth(**link, bytes_per_second=20_000),
        Loss(**link, percent=5, both_ways=True),
        Reorder(**link, percent=50),
        SlowReader(**link, read_bytes=20_000, window_bytes=8192),
    ):
        before = disconnects(cluster)
        active = await cluster.fault(fault)
        await send(cluster, 20)
        await assert_equal_logs(cluster)
        assert disconnects(cluster) == before
        await cluster.heal(active)
    for ending in (
        Cut(**link, after_bytes=100),
        Reset(**link),
    ):
        before = disconnects(cluster)
        active = await cluster.fault(ending)
        await send(cluster, 20)
        with trio.fail_after(LONG):
            while disconnects(cluster) == before:
                await cluster.events.wait_changed()
        await cluster.heal(active)
        await assert_equal_logs(cluster)


@on_simulated_links
async def test_bytes_that_change_on_the_way_are_stored_by_the_slave(cluster: Cluster) -> None:
    """RocketMQ's HA stream has no checksum: the slave stores what it receives."""
    await cluster.fault(Corrupt(src="broker-a", dst="broker-a-s", only="ha", every_bytes=2000, count=3))
    await send(cluster, 20, size=2000)
    document = await cluster.wait_until("slave-caught-up broker-a:master", LONG)
    end = document["replication"][0]["masterCommitLogMaxOffset"]
    ours, theirs = log_of(cluster, "broker-a", end), log_of(cluster, "broker-a-s", end)
    assert sum(one != other for one, other in zip(ours, theirs, strict=True)) == 3
    log = cluster.supervisor.directory.log_path("broker-a-s").read_text("utf-8")
    assert log.count("link broker-a -> broker-a-s: byte") == 3


@on_simulated_links
async def test_a_sync_send_waits_for_its_delayed_ack(cluster: Cluster) -> None:
    await send(cluster, 1)
    await cluster.fault(Latency(src="broker-a-s", dst="broker-a", millis=500, only="ha"))
    (sent,) = await send(cluster, 1)
    assert sent.fields["outcome"] == "SEND_OK"
    assert sent.fields["took"] >= 490


@on_simulated_links
async def test_a_blackhole_of_the_acks_alone_leaves_a_slave_that_has_all_and_a_master_that_does_not_know(
    cluster: Cluster,
) -> None:
    await send(cluster, 1)
    fault = await cluster.fault(Blackhole(src="broker-a-s", dst="broker-a", only="ha"))
    (sent,) = await send(cluster, 1, retries=0)
    assert sent.fields["outcome"] in {"FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"}  # the latter once it is given up
    await assert_equal_logs(cluster)
    await cluster.heal(fault)
    await cluster.wait_until("slave-connected broker-a:master", LONG)


@on_simulated_links
async def test_a_workload_is_cut_off_from_its_nameserver_alone(cluster: Cluster) -> None:
    await cluster.fault(Refuse(src="*", dst="namesrv-1"))
    sent = await send(cluster, 1)
    assert [one.fields["outcome"] for one in sent] == ["refused"]


@on_simulated_links
async def test_a_slave_cannot_connect_while_its_master_rejects_connections(cluster: Cluster) -> None:
    fault = await cluster.fault(FullTable(src="broker-a-s", dst="broker-a", only="ha"))
    await send(cluster, 1)  # the live connection continues
    await assert_equal_logs(cluster)
    await cluster.restart("broker-a-s")
    (sent,) = await send(cluster, 1, retries=0)
    assert sent.fields["outcome"] == "SLAVE_NOT_AVAILABLE"
    await cluster.heal(fault)
    await assert_equal_logs(cluster)


async def test_outside_faults_require_nodes_with_their_own_addresses(cluster: Cluster) -> None:
    fault = Blackhole(src="outside", dst="namesrv-1")
    if cluster.supervisor.spec.single_address:
        with pytest.raises(FaultError, match="peers outside cannot be recognised"):
            await cluster.fault(fault)
    else:
        await cluster.fault(fault)
        assert [one.fields["outcome"] for one in await send(cluster, 1)] == ["SEND_OK"]
        async with open_reactor() as reactor:
            client = RemotingClient(reactor)
            with pytest.raises(RequestTimeoutError):
                await client.request(cluster.namesrv_addr, command(RequestCode.GET_BROKER_CLUSTER_INFO), 0.3)
            await cluster.heal_all()
            answer = await client.request(cluster.namesrv_addr, command(RequestCode.GET_BROKER_CLUSTER_INFO), LONG)
            assert answer.code == 0
            client.close()


@on_simulated_links
async def test_a_value_that_is_no_fault_is_named(cluster: Cluster) -> None:
    with pytest.raises(TypeError, match="fault = 'latency': expected a Fault"):
        await cluster.fault("latency")  # type: ignore[arg-type]
    assert cluster.faults == []


@on_simulated_links
async def test_a_snapshot_is_of_one_node(cluster: Cluster) -> None:
    with pytest.raises(UnknownTargetError, match="expected one node, got broker-a, broker-a-s"):
        await cluster.snapshot("broker-a:*")
