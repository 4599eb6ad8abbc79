"""A program with one more entry in the table of actions, which it then uses in every way that there is.

A program of its own: the other tables are made from this one when their modules are imported.
"""

import os
from typing import Any

import pytest
import trio
from typer.testing import CliRunner

from rmqlab.cluster.actions import table
from rmqlab.cluster.actions.action import HEAL, Liveness, NodeAction, Targets
from rmqlab.cluster.supervisor.directory import ClusterDirectory
from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.cluster.supervisor.topology import ClusterSpec, NodeKind

FAKES = {NodeKind.NAMESERVER: "fakenode", NodeKind.BROKER: "fakenode"}
SCENARIO = """
name = "nudges"
claim = "An action of the table is an action of scenarios"
[[step]]
far-nudge = "broker-a"
"""


async def _nudge(supervisor: Supervisor, target: str) -> int:
    await trio.lowlevel.checkpoint()
    nodes = supervisor.find(target)
    for node in nodes:
        supervisor.record(node.name, "command", command="far-nudge")
    return len(nodes)


def add_entry() -> None:
    """Do what Python does with an entry in the body of `NodeActions`."""
    entry = NodeAction(
        run=_nudge,
        help="Nudge nodes.",
        doing="nudging",
        needs=(Liveness.RUNNING,),
        targets=Targets.NODES,
        undo=HEAL,
        key="n",
    )
    entry.__set_name__(table.NodeActions, "far_nudge")
    table.NodeActions.far_nudge = entry  # type: ignore[attr-defined]
    table.ACTIONS = {**table.ACTIONS, entry.name: entry}


def use_blocking_api() -> None:
    from rmqlab.cluster.blocking import BlockingCluster

    spec = ClusterSpec(name="blocking", slaves=0)
    with BlockingCluster(spec, ClusterDirectory.named(spec.name)) as cluster:
        method: Any = cluster.far_nudge  # type: ignore[attr-defined]
        assert method(target="broker-a") == 1


def use_command_line() -> None:
    from rmqlab.cluster.__main__ import app

    assert "far-nudge" in CliRunner().invoke(app, ["--help"]).stdout
    assert "Nudge nodes." in CliRunner().invoke(app, ["far-nudge", "--help"]).stdout
    done = CliRunner().invoke(app, ["far-nudge", "-n", "async", "broker-a:slave"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("broker-a-s is ready (pid ")


async def use_scenario(cluster: Any) -> None:
    from rmqlab.cluster.scenario.load import ScenarioError, parse_scenario
    from rmqlab.cluster.scenario.player import Player

    await Player(cluster, parse_scenario(SCENARIO)).play()
    with pytest.raises(ScenarioError, match="broker-a does not run: it was killed before"):
        parse_scenario(SCENARIO.replace("[[step]]", '[[step]]\nkill = "broker-a"\n[[step]]'))
    with pytest.raises(ScenarioError, match="orders is a workload: far-nudge needs a node"):
        parse_scenario(SCENARIO.replace("broker-a", "orders") + '[[workload]]\nname = "orders"\nkind = "produce"\n')


async def use_key(cluster: Any) -> None:
    from rmqlab.cluster.cli.live.keys import KEYS, Act, Selection, press

    assert ("n", "far-nudge") in KEYS
    assert press(Selection("broker-a"), "n", await cluster.status())[1] == Act("far-nudge", "broker-a")


async def use_everything_else() -> None:
    from rmqlab.cluster.faults.schedule import RandomFaults
    from rmqlab.cluster.lab import open_cluster
    from rmqlab.cluster.supervisor.commandserver import serve_commands

    async with open_cluster(ClusterSpec(name="async"), modules=FAKES) as cluster, trio.open_nursery() as nursery:
        await nursery.start(serve_commands, cluster, lambda: None)
        method: Any = cluster.far_nudge  # type: ignore[attr-defined]
        assert await method("broker-a:master") == 1
        await trio.to_thread.run_sync(use_command_line)
        await use_scenario(cluster)
        await use_key(cluster)
        assert RandomFaults(of=("far-nudge",)).of == ("far_nudge",)
        nursery.cancel_scope.cancel()
    told = [event.node for event in cluster.events if event.fields.get("command") == "far-nudge"]
    assert told == ["broker-a", "broker-a-s", "broker-a"]


if __name__ == "__main__":
    assert os.environ["RMQLAB_HOME"]
    add_entry()
    use_blocking_api()
    trio.run(use_everything_else)
