"""A program with an additional action, which it uses by every interface.

It adds the action to the table of actions. A program of its own: the other tables are made from this one when their
modules are imported.
"""

import os
from typing import Any

import pytest
import trio
from click.testing import CliRunner

from rmqlab.cluster.actions import table
from rmqlab.cluster.actions.action import HEAL, Liveness, NodeAction, Targets
from rmqlab.cluster.actions.reports import FaultReport
from rmqlab.cluster.cli import commands
from rmqlab.cluster.faults.active_faults import ActiveFault
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.faults import Isolation
from tests.cluster.fakes import FAKES

SCENARIO = """
name = "cut-off"
claim = "An action of the table is an action of scenarios"
[[step]]
cut-off = "broker-a"
label = "cut"
[[step]]
heal = "cut"
"""


async def _cut_off(supervisor: Supervisor, target: str) -> ActiveFault:
    return await supervisor.faults.apply(Isolation(target=target))


def add_entry() -> None:
    """Do what Python does with an entry in `NodeActions`, and list its command."""
    entry = NodeAction(
        run=_cut_off,
        help="Cut nodes off.",
        doing="cutting off",
        needs=(Liveness.RUNNING,),
        targets=Targets.NODES,
        undo=HEAL,
        key="n",
        report=FaultReport(),
    )
    entry.__set_name__(table.NodeActions, "cut_off")
    table.NodeActions.cut_off = entry  # type: ignore[attr-defined]
    table.ACTIONS = {**table.ACTIONS, entry.name: entry}
    commands.PURPOSES["Act on nodes"][entry.name] = commands.Entry(commands.ACTION, entry.help)


def use_blocking_api() -> None:
    from rmqlab.cluster.blocking import BlockingCluster

    spec = ClusterSpec(name="blocking", slaves=0)
    with BlockingCluster(spec, ClusterDirectory.named(spec.name)) as cluster:
        method: Any = cluster.cut_off  # type: ignore[attr-defined]
        assert method(target="broker-a").id == "f1"


def use_command_line() -> None:
    from rmqlab.cluster.__main__ import app

    assert "cut-off" in CliRunner().invoke(app, ["--help"]).stdout
    assert "Cut nodes off." in CliRunner().invoke(app, ["cut-off", "--help"]).stdout
    done = CliRunner().invoke(app, ["cut-off", "-n", "async", "broker-a:slave"])
    assert done.exit_code == 0, done.output
    assert done.stdout == "f2: isolate broker-a:slave\n"


async def use_scenario(cluster: Any) -> None:
    from rmqlab.cluster.scenario.load import ScenarioError, parse_scenario
    from rmqlab.cluster.scenario.player import Player

    await Player(cluster, parse_scenario(SCENARIO)).play()
    with pytest.raises(ScenarioError, match="broker-a does not run: it was killed before"):
        parse_scenario(SCENARIO.replace("[[step]]", '[[step]]\nkill = "broker-a"\n[[step]]', 1))
    with pytest.raises(ScenarioError, match="orders is a workload: cut-off needs a node"):
        parse_scenario(SCENARIO.replace("broker-a", "orders") + '[[workload]]\nname = "orders"\nkind = "produce"\n')


async def use_key(cluster: Any) -> None:
    from rmqlab.cluster.cli.live.keys import KEYS, Act, Selection, press

    assert ("n", "cut-off") in KEYS
    assert press(Selection("broker-a"), "n", await cluster.status())[1] == Act("cut-off", "broker-a")


async def use_random_faults(cluster: Any) -> None:
    from rmqlab.cluster.faults.random_player import play_random_faults
    from rmqlab.cluster.faults.schedule import RandomFaults

    async def check(done: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        assert done["error"] is None
        assert (done["action"] == "cut_off") == bool(cluster.faults)

    assert cluster.faults == []
    await play_random_faults(cluster, RandomFaults(count=1, of=("cut-off",), every=0.1, heal_after=0.1), check)
    assert cluster.faults == []


def use_control_api() -> None:
    from rmqlab.cluster.control.endpoints import ENDPOINTS
    from rmqlab.cluster.control.openapi import openapi_document

    (endpoint,) = (endpoint for endpoint in ENDPOINTS if endpoint.path == "/v1/actions/cut-off")
    assert (endpoint.method, endpoint.name) == ("POST", "cut_off")
    assert openapi_document()["paths"]["/v1/actions/cut-off"]["post"]["summary"] == "Cut nodes off."


async def use_everything_else() -> None:
    from rmqlab.cluster.lab import open_cluster
    from rmqlab.cluster.supervisor.commandserver import serve_commands

    async with open_cluster(ClusterSpec(name="async"), modules=FAKES) as cluster, trio.open_nursery() as nursery:
        await nursery.start(serve_commands, cluster, lambda: None)
        method: Any = cluster.cut_off  # type: ignore[attr-defined]
        assert (await method("broker-a:master")).id == "f1"
        await trio.to_thread.run_sync(use_command_line)
        await use_key(cluster)
        await cluster.heal_all()
        await use_scenario(cluster)
        await use_random_faults(cluster)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    assert os.environ["RMQLAB_HOME"]
    add_entry()
    use_blocking_api()
    use_control_api()
    trio.run(use_everything_else)
