"""Brokers that change roles, on processes without services; waits are for facts."""

import pathlib
import tomllib

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError, WrongStateError
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, UnknownTargetError
from rmqlab.faults import Isolation
from tests.cluster.fakes import FAKES


def settings_of(place: pathlib.Path, node: str) -> tuple[str, int]:
    settings = tomllib.loads((place / node / "config.toml").read_text())
    return settings["broker_role"], settings["broker_id"]


async def roles_of(cluster: Cluster) -> dict[str, tuple[str, int]]:
    nodes = (await cluster.status())["nodes"]
    return {node["name"]: (node["role"], node["broker_id"]) for node in nodes if node["kind"] == "broker"}


async def test_a_slave_is_started_as_master_and_the_old_master_as_slave(place: pathlib.Path) -> None:
    spec = ClusterSpec(name="x", role="SYNC_MASTER")
    async with open_cluster(spec, directory=place, modules=FAKES) as cluster:
        await cluster.kill("broker-a:master")
        assert await cluster.promote("broker-a:slave") == ("broker-a-s",)
        assert settings_of(place, "broker-a-s") == ("SYNC_MASTER", 0)
        assert (await cluster.status())["masters"] == {"broker-a": ["broker-a-s"]}
        assert await cluster.demote("broker-a") == ("broker-a",)
        assert settings_of(place, "broker-a") == ("SLAVE", 1)
        roles = {"broker-a": ("SLAVE", 1), "broker-a-s": ("SYNC_MASTER", 0)}
        assert await roles_of(cluster) == roles
        (row,) = (await cluster.status())["replication"]
        assert (row["master"], row["slave"]) == ("broker-a-s", "broker-a")
        changed = [(event.node, event.fields["broker_id"]) for event in cluster.events if event.kind == "role_changed"]
        assert changed == [("broker-a-s", 0), ("broker-a", 1)]
    async with open_cluster(spec, directory=place, modules=FAKES) as cluster:
        assert await roles_of(cluster) == roles  # as at the last start
        assert settings_of(place, "broker-a") == ("SLAVE", 1)


async def test_an_old_master_that_is_started_is_a_second_one(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x"), directory=place, modules=FAKES) as cluster:
        await cluster.kill("broker-a")
        await cluster.promote("broker-a-s")
        await cluster.stop("broker-a:master")  # of two masters the one that runs
        assert (await cluster.status())["masters"] == {"broker-a": []}
        await cluster.start("broker-a:master")
        assert (await cluster.status())["masters"] == {"broker-a": ["broker-a", "broker-a-s"]}


@pytest.mark.parametrize("action", ["start", "restart", "resume"])
async def test_a_second_master_is_reported_when_it_starts(place: pathlib.Path, action: str) -> None:
    report = ACTIONS[action].report
    async with open_cluster(ClusterSpec(name="x"), directory=place, modules=FAKES) as cluster:
        document = await report.document(cluster.supervisor, ["broker-a", "broker-a-s"], None)
        assert len([*report.lines(document)]) == 2
        await cluster.kill("broker-a")
        await cluster.promote("broker-a-s")
        assert len([*report.lines(await report.document(cluster.supervisor, ["broker-a-s"], None))]) == 1
        await cluster.start("broker-a")
        document = await report.document(cluster.supervisor, ["broker-a"], None)
        assert document[0]["other_masters"] == [{"name": "broker-a-s", "state": "ready"}]
        _, line = report.lines(document)
        assert line.startswith("broker-a has 2 masters: broker-a, broker-a-s. Each accepts writes; a route has")
        assert line.endswith("`demote` makes one a slave")


def test_members_of_a_dledger_group_are_no_second_masters() -> None:
    node = {"name": "a-n0", "group": "a", "kind": "broker", "state": "ready", "pid": 1, "broker_id": 0}
    document = [{**node, "ha_address": None, "other_masters": [{"name": "a-n1", "state": "ready"}]}]
    assert [*ACTIONS["start"].report.lines(document)] == ["a-n0 is ready (pid 1)"]


async def test_a_role_change_applies_to_all_targets_or_to_no_target(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x", groups=2), directory=place, modules=FAKES) as cluster:
        await cluster.pause("broker-b-s")
        with pytest.raises(WrongStateError, match="broker-b-s is paused and cannot stop gracefully"):
            await cluster.promote("broker-a:slave", "broker-b:slave")
        with pytest.raises(WrongStateError, match="namesrv-1 is a nameserver: only brokers have roles"):
            await cluster.demote("namesrv-1")
        assert (await cluster.status())["masters"] == {"broker-a": ["broker-a"], "broker-b": ["broker-b"]}
        assert cluster.supervisor.process_state("broker-a-s").is_alive
        with pytest.raises(UnknownTargetError, match="no node 'broker-x' here"):
            await cluster.promote("broker-x")


async def test_a_slave_that_is_removed_meanwhile_is_not_promoted(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x", slaves=2), directory=place, modules=FAKES) as cluster:

        async def promote() -> None:
            with pytest.raises(WrongStateError, match="broker-a-s is no node of this cluster any more"):
                await cluster.promote("broker-a-s")

        async with trio.open_nursery() as nursery, cluster.supervisor.changing:
            nursery.start_soon(cluster.remove, "broker-a-s")
            await wait_all_tasks_blocked()
            nursery.start_soon(promote)
            await wait_all_tasks_blocked()
            assert cluster.supervisor.process_state("broker-a-s").is_alive, "both wait"
        assert [*cluster.supervisor.nodes] == ["namesrv-1", "broker-a", "broker-a-s2"]


async def test_a_node_with_unreadable_settings_keeps_its_role(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x"), directory=place, modules=FAKES) as cluster:
        (place / "broker-a-s" / "config.toml").write_text("broker_role = ")
        with pytest.raises(NodeFailedError, match="broker-a-s is stopped, and keeps its role"):
            await cluster.promote("broker-a-s")
        assert (await roles_of(cluster))["broker-a-s"] == ("SLAVE", 1)


async def test_a_role_that_a_full_disk_cannot_save_is_kept(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x"), directory=place, modules=FAKES) as cluster:
        (place / "cluster.json.new").symlink_to("/dev/full")
        with pytest.raises(
            NodeFailedError, match=r"broker-a-s is stopped, and keeps its role: .* No space left on device"
        ):
            await cluster.promote("broker-a-s")
        assert (await roles_of(cluster))["broker-a-s"] == ("SLAVE", 1)
        assert settings_of(place, "broker-a-s") == ("SLAVE", 1)


async def test_a_fault_stays_where_it_was_applied(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x"), directory=place, modules=FAKES) as cluster:
        fault = await cluster.fault(Isolation(target="broker-a:slave"))
        await cluster.promote("broker-a-s")
        await cluster.demote("broker-a")
        rules = cluster.supervisor.faults.rules_for("broker-a-s")
        assert [link.hosts for link in rules.links if link.is_enforced_here] != []
        assert rules.ids == [fault.id]
        await cluster.heal(fault.id)
