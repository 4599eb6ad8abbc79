"""Five deaths of a master, distinguished by what others see.

The killed and the frozen one are real processes, the others simulated ones.
"""

import pathlib
from collections.abc import AsyncIterator

import pytest
import trio

from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.runtime.journals.journalentry import JournalEntry
from tests.cluster.simulated import simulated

RATE = 20
LONG = 300.0
"""Real seconds, in which 120 s of liveness pass in 6, or simulated ones."""
GONE = ("broker_unregistered", "broker_connection_lost", "broker_expired")


SPEC = ClusterSpec(name="x", rate=RATE, broker_settings={"register_broker_timeout_mills": 60_000})


@pytest.fixture
async def cluster(tmp_path: pathlib.Path) -> AsyncIterator[Cluster]:
    async with open_cluster(SPEC, directory=tmp_path / "lab") as made:
        await made.wait_until(has_followed)
        yield made


def has_followed(document: object) -> bool:
    """The slave has reported: from then on either side counts on the other."""
    (row,) = document["replication"]  # type: ignore[index]
    return row["slaveAckOffset"] is not None and row["slaveAckOffset"] >= 0


async def wait_followed(cluster: Cluster) -> None:
    await cluster.wait_until(has_followed)


on_simulated_cluster = simulated({"simulated": SPEC}, wait_followed)


def events_of(cluster: Cluster, since: int, node: str, *kinds: str) -> list[JournalEntry]:
    return [event for event in list(cluster.events)[since:] if event.node == node and event.kind in kinds]


def now(cluster: Cluster) -> int:
    return cluster.supervisor.clock.wall_millis()


async def gone_from_route(cluster: Cluster, since: int) -> JournalEntry:
    with trio.fail_after(LONG):
        while not any(event.fields["broker_id"] == 0 for event in events_of(cluster, since, "namesrv-1", *GONE)):
            await cluster.events.wait_changed()
    await cluster.wait_until("route-gone broker-a:master", LONG)
    return next(event for event in events_of(cluster, since, "namesrv-1", *GONE) if event.fields["broker_id"] == 0)


async def wait_event(cluster: Cluster, since: int, node: str, kind: str) -> JournalEntry:
    with trio.fail_after(LONG):
        while not (events := events_of(cluster, since, node, kind)):
            await cluster.events.wait_changed()
    return events[0]


@on_simulated_cluster
async def test_a_stopped_master_says_goodbye(cluster: Cluster) -> None:
    since = len(list(cluster.events))
    await cluster.stop("broker-a:master")
    assert (await gone_from_route(cluster, since)).kind == "broker_unregistered"
    assert await wait_event(cluster, since, "broker-a-s", "ha_client_disconnected")


async def test_of_a_killed_one_the_sockets_close(cluster: Cluster) -> None:
    await ends_with_its_sockets(cluster, has_lost_power=False)


@on_simulated_cluster
async def test_of_a_powerless_one_bytes_vanish_too(cluster: Cluster) -> None:
    await ends_with_its_sockets(cluster, has_lost_power=True)


async def ends_with_its_sockets(cluster: Cluster, *, has_lost_power: bool) -> None:
    since = len(list(cluster.events))
    workload = await cluster.run_workload("rmqlab.cluster.workload.produce", {"count": 3})
    await workload.wait_ended()
    if has_lost_power:
        await cluster.power_loss("broker-a:master")
    else:
        await cluster.kill("broker-a:master")
    assert (await gone_from_route(cluster, since)).kind == "broker_connection_lost"
    assert await wait_event(cluster, since, "broker-a-s", "ha_client_disconnected")
    assert bool(events_of(cluster, since, "broker-a", "power_lost")) is has_lost_power
    assert cluster.supervisor.process_state("broker-a").state == ("power-lost" if has_lost_power else "killed")


async def test_a_frozen_one_keeps_its_sockets_and_its_peers_believe_in_it(cluster: Cluster) -> None:
    since, began = len(list(cluster.events)), now(cluster)
    await cluster.pause("broker-a:master")
    assert await cluster.snapshot("broker-a:master") is None
    gone = await gone_from_route(cluster, since)
    assert gone.at_millis - began > 60_000  # 120 s since it was last heard, and that is 30 s ago at most
    assert not events_of(cluster, since, "broker-a-s", "ha_client_disconnected")  # 4.9's slave waits for ever
    assert not events_of(cluster, since, "broker-a", "ha_disconnected")  # and its master does nothing at all
    await cluster.resume("broker-a:master")
    await cluster.wait_until("route-has broker-a:master", LONG)


@on_simulated_cluster
async def test_an_isolated_master_keeps_running_and_loses_its_peers(cluster: Cluster) -> None:
    since, began = len(list(cluster.events)), now(cluster)
    fault = await cluster.isolate("broker-a:master")
    assert await cluster.snapshot("broker-a:master", LONG) is not None
    lost = await wait_event(cluster, since, "broker-a", "ha_disconnected")
    assert "no report for 20 s" in lost.fields["reason"]
    gone = await gone_from_route(cluster, since)
    assert gone.at_millis - began > 60_000
    assert not events_of(
        cluster, since, "broker-a-s", "ha_client_disconnected"
    )  # that its master has closed is lost, too
    await cluster.heal(fault)
    assert await wait_event(cluster, since, "broker-a-s", "ha_client_disconnected")
    await cluster.wait_until("route-has broker-a:master", LONG)
    await cluster.wait_until("slave-connected broker-a:master", LONG)


@on_simulated_cluster
async def test_not_even_the_kill_of_one_in_a_blackhole_is_heard(cluster: Cluster) -> None:
    await cluster.isolate("broker-a:master")
    since = len(list(cluster.events))
    await cluster.kill("broker-a:master")
    gone = await gone_from_route(cluster, since)
    killed = next(event for event in cluster.events if event.kind == "node_killed")
    assert gone.at_millis - killed.at_millis > 60_000
    assert not events_of(cluster, since, "broker-a-s", "ha_client_disconnected")
    await cluster.heal_all()
    assert await wait_event(cluster, since, "broker-a-s", "ha_client_disconnected")
