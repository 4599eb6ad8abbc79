"""Random faults on simulated clusters."""

import pathlib
from typing import Any

import pytest
import trio

from rmqlab.cluster.faults.random_player import play_random_faults
from rmqlab.cluster.faults.schedule import RandomFaults
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from tests.cluster.simulated import on_cluster, simulated

PLANNED = ((2, "kill"), (3, "start"), (4, "kill"), (5, "start"))


async def states(cluster: Cluster) -> set[str]:
    return {node["state"] for node in (await cluster.status())["nodes"]}


@pytest.mark.parametrize("action", ["kill", "pause", "isolate", "stop"])
def test_an_interrupted_player_leaves_no_faults_behind(tmp_path: pathlib.Path, action: str) -> None:
    async def play(cluster: Cluster) -> None:
        strikes: list[dict[str, Any]] = []
        scope = trio.CancelScope()

        async def on_action(strike: dict[str, Any]) -> None:
            strikes.append(strike)
            if len(strikes) == 2:
                assert cluster.faults or await states(cluster) != {"ready"}
                scope.cancel()

        with scope:
            await play_random_faults(
                cluster, RandomFaults(every=1, heal_after=1e6, of=(action,), on="brokers"), on_action
            )
        assert {strike["target"] for strike in strikes} == {"broker-a", "broker-a-s"}
        assert {strike["error"] for strike in strikes} == {None}
        assert await states(cluster) == {"ready"}
        assert cluster.faults == []

    on_cluster(tmp_path / "lab", play, ClusterSpec(name="x", slaves=1))


@simulated({"simulated": ClusterSpec(name="x", slaves=0)})
async def test_an_action_already_done_by_others_is_reported_and_play_continues(cluster: Cluster) -> None:
    await cluster.kill("broker-a")
    strikes: list[dict[str, Any]] = []

    async def on_action(strike: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        strikes.append(strike)

    await play_random_faults(cluster, RandomFaults(every=2, heal_after=1, of=("kill",), count=2), on_action)
    assert [(strike["action"], strike["error"] is None) for strike in strikes] == [
        ("kill", False),
        ("start", True),
        ("kill", True),
        ("start", True),
    ]
    written = [entry for entry in cluster.events if entry.kind.startswith("random_fault")]
    assert [entry.kind for entry in written] == [
        "random_faults_drawn",
        *["random_fault"] * 4,
        "random_faults_over",
    ]
    assert written[0].fields["drawn"] == [f"{at} s {verb} broker-a" for at, verb in PLANNED]
    assert [entry.fields["planned"] for entry in written[1:-1]] == [at * 1000 for at, _ in PLANNED]
    assert [entry.fields["error"] for entry in written[1:-1]] == [strike["error"] for strike in strikes]
