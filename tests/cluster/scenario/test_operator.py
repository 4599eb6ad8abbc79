"""The operator beside a scenario, on processes that serve nothing."""

import pathlib

import pytest
import trio

from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.scenario.operator import Operator
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from tests.cluster.fakes import FAKES, LONG


async def wait_promoted(cluster: Cluster, name: str) -> None:
    await cluster.wait_until(lambda document: document["masters"]["broker-a"] == [name], LONG)


@pytest.mark.parametrize("action", ["kill", "pause"])
async def test_a_slave_of_a_master_that_is_away_is_promoted(tmp_path: pathlib.Path, action: str) -> None:
    lines: list[str] = []
    spec = ClusterSpec(name="x", rate=10)
    async with open_cluster(spec, directory=tmp_path / "lab", modules=FAKES) as cluster, trio.open_nursery() as nursery:
        nursery.start_soon(Operator(cluster, 1.0, lines.append).watch_forever)
        if action == "kill":
            await cluster.kill("broker-a")
            await wait_promoted(cluster, "broker-a-s")
        else:
            await cluster.pause("broker-a")
            await cluster.wait_until(lambda document: "broker-a-s" in document["masters"]["broker-a"], LONG)
            await cluster.resume("broker-a")
        assert lines == ["promote broker-a-s, by the operator"]
        nursery.cancel_scope.cancel()


async def test_a_master_that_returns_in_time_keeps_its_role(tmp_path: pathlib.Path) -> None:
    spec = ClusterSpec(name="x")
    async with open_cluster(spec, directory=tmp_path / "lab", modules=FAKES) as cluster, trio.open_nursery() as nursery:
        nursery.start_soon(Operator(cluster, 3600.0).watch_forever)
        await cluster.restart("broker-a")
        await cluster.kill("broker-a-s")
        assert (await cluster.status())["masters"] == {"broker-a": ["broker-a"]}
        nursery.cancel_scope.cancel()


async def test_without_a_ready_slave_nothing_is_promoted_until_there_is_one(tmp_path: pathlib.Path) -> None:
    spec = ClusterSpec(name="x", rate=10)
    async with open_cluster(spec, directory=tmp_path / "lab", modules=FAKES) as cluster, trio.open_nursery() as nursery:
        await cluster.kill("broker-a-s")
        await cluster.kill("broker-a")
        nursery.start_soon(Operator(cluster, 1.0).watch_forever)
        await cluster.start("broker-a-s")
        await wait_promoted(cluster, "broker-a-s")
        nursery.cancel_scope.cancel()
