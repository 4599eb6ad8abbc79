"""Stops of nodes that stop already, or cannot stop."""

import pathlib

import pytest
import trio
import trio.testing

from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.supervisor.plan.process_state import NodeState, WrongStateError
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from tests.cluster.fakes import FAKES


def commands(cluster: Cluster, node: str) -> list[object]:
    return [event.fields["command"] for event in cluster.events if (event.node, event.kind) == (node, "command")]


async def test_a_second_stop_waits_and_does_not_end_the_node_at_once(tmp_path: pathlib.Path) -> None:
    """A node exits with status 143 at a second SIGTERM, without saving its tables."""
    spec = ClusterSpec(name="x", slaves=0, broker_settings={"never_ends": True})
    async with open_cluster(spec, directory=tmp_path / "lab", modules=FAKES) as cluster, trio.open_nursery() as nursery:

        async def stop_again() -> None:
            await cluster.events.wait_event(lambda event: event.kind == "closing")
            async with trio.open_nursery() as again:
                again.start_soon(cluster.stop, "broker-a")
                await trio.testing.wait_all_tasks_blocked()
                await cluster.supervisor.kill_all()

        nursery.start_soon(stop_again)
        await cluster.stop("broker-a")
        await cluster.wait_until("killed broker-a")
        assert commands(cluster, "broker-a") == ["stop"]


async def test_nothing_stops_if_one_of_the_nodes_cannot(tmp_path: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x"), directory=tmp_path / "lab", modules=FAKES) as cluster:
        await cluster.pause("broker-a-s")
        with pytest.raises(WrongStateError, match="broker-a-s is paused"):
            await cluster.stop("broker-a", "broker-a-s")
        assert cluster.supervisor.process_state("broker-a").state is NodeState.READY
        await cluster.kill("broker-a-s")
        with pytest.raises(WrongStateError, match="broker-a-s is killed"):
            await cluster.stop("broker-a", "broker-a-s")
        assert cluster.supervisor.process_state("broker-a").state is NodeState.READY
