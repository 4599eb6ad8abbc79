"""Whole clusters of real processes that serve nothing; every wait is for a fact."""

import io
import os
import pathlib
import shutil
import signal
import socket

import attrs
import pytest
import trio
from rich.console import Console, RenderableType

from rmqlab.cluster.cli.output.tables import render_up
from rmqlab.cluster.lab import WaitTimeoutError, open_cluster
from rmqlab.cluster.supervisor import supervisor
from rmqlab.cluster.supervisor.fork.children import ForkServer
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError, WrongStateError
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Node, NodeKind, UnknownTargetError, check_workload_name
from rmqlab.cluster.supervisor.ports import PortTakenError, claim_subnet
from rmqlab.runtime.journals.journalentry import CLOSED, OPENED
from rmqlab.runtime.journals.journalreader import read_journals
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.offline.powerloss import Lost
from rmqlab.store.testing import ManualClock, new_message, small_config
from tests.cluster.fakes import FAKES, LONG


async def test_nodes_start_in_order_and_stop_in_the_reverse(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x", slaves=2), directory=place, modules=FAKES) as cluster:
        pass
    kinds = ("node_ready", "node_stopped")
    events = [(event.kind, event.node) for event in cluster.events if event.kind in kinds]
    assert events[:2] == [("node_ready", "namesrv-1"), ("node_ready", "broker-a")]
    assert set(events[2:4]) == {("node_ready", "broker-a-s"), ("node_ready", "broker-a-s2")}
    assert events[-2:] == [("node_stopped", "broker-a"), ("node_stopped", "namesrv-1")]
    entries = [entry for entry in read_journals(place / "journal") if entry.kind not in (OPENED, CLOSED)]
    written = [attrs.evolve(one, seq=0, fields={**one.fields, "crc": None}) for one in entries]  # the file's alone
    reported = [attrs.evolve(one, fields={**one.fields, "crc": None}) for one in cluster.events]
    assert sorted(map(repr, written)) == sorted(map(repr, reported))
    assert {path.name for path in (place / "journal").iterdir()} == {
        "namesrv-1.msgpack",
        "broker-a.msgpack",
        "broker-a-s.msgpack",
        "broker-a-s2.msgpack",
        "cluster.msgpack",
    }
    assert not (place / "control.sock").exists()


async def test_each_death_is_another_thing(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x"), directory=place, modules=FAKES) as cluster:
        await cluster.kill("broker-a:master")
        await cluster.wait_until("killed broker-a:master")
        with pytest.raises(WrongStateError, match="broker-a is killed: it has no process"):
            await cluster.pause("broker-a")
        await cluster.start("broker-a")
        await cluster.wait_until("ready")

        await cluster.pause("broker-a-s")
        await cluster.wait_until("paused broker-a-s")
        assert await cluster.snapshot("broker-a-s") is None
        with pytest.raises(WrongStateError, match="paused"):
            await cluster.stop("broker-a-s")
        await cluster.resume("broker-a-s")
        assert await cluster.snapshot("broker-a-s", LONG) is not None
        with pytest.raises(WrongStateError, match="not paused"):
            await cluster.resume("broker-a-s")

        await cluster.stop("broker-a-s")
        await cluster.wait_until("stopped broker-a-s")
        await cluster.restart("broker-a:slave")
        with pytest.raises(WrongStateError, match="is already ready"):
            await cluster.start("broker-a-s")
        await cluster.pause("namesrv-1")  # the end must cope with it
    by_slave = [event.kind for event in cluster.events if event.node == "broker-a-s"]
    assert by_slave.index("closing") < by_slave.index("node_stopped")


async def test_a_power_loss_removes_unsynced_bytes_and_a_wipe_removes_all(place: pathlib.Path) -> None:
    config = small_config(place / "broker-a" / "store")
    async with open_cluster(ClusterSpec(name="x"), directory=place, modules=FAKES) as cluster:
        store = MessageStore.open(config, now_millis=ManualClock())
        end = store.put(new_message(keys="k")).end_offset
        shutil.copytree(place / "broker-a" / "store", place / "saved")
        store.close()
        shutil.rmtree(place / "broker-a" / "store")
        shutil.move(place / "saved", place / "broker-a" / "store")  # as a killed process leaves it

        assert await cluster.power_loss("broker-a") == {"broker-a": Lost(0, end, 1, 1)}
        document = await cluster.wait_until("power-lost broker-a")
        assert [node["state"] for node in document["nodes"]] == ["ready", "power-lost", "ready"]
        assert await cluster.power_loss("broker-a") == {"broker-a": Lost()}  # it is down already
        assert await cluster.power_loss("namesrv-1") == {"namesrv-1": Lost()}
        await cluster.start("namesrv-1")
        await cluster.start("broker-a")
        await cluster.wait_until("ready")

        assert await cluster.wipe("broker-a:master") == {"broker-a": 7}
        await cluster.wait_until("killed broker-a")
        assert not any((place / "broker-a" / "store").iterdir())
        for empty in ("broker-a", "broker-a:slave", "namesrv-1"):
            with pytest.raises(WrongStateError, match="there is nothing to wipe"):
                await cluster.wipe(empty)
        assert cluster.supervisor.process_state("namesrv-1").is_alive
        (place / "namesrv-1" / "kvConfig.json").write_text("{}")
        assert await cluster.wipe("namesrv-1") == {"namesrv-1": 1}
    events = [(event.kind, event.fields) for event in cluster.events if event.kind in ("power_lost", "store_wiped")]
    assert events[0] == ("power_lost", {"flushed": 0, "log_bytes": end, "messages": 1, "queue_entries": 1})
    assert events[-1] == ("store_wiped", {"files": 1})


async def test_a_power_loss_needs_a_store_that_says_what_was_synced(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x", slaves=0), directory=place, modules=FAKES) as cluster:
        (place / "broker-a" / "store" / "commitlog").mkdir(parents=True)
        with pytest.raises(NodeFailedError, match=r"broker-a is killed, but: .* which records what was synced"):
            await cluster.power_loss("broker-a")


async def test_no_action_leaves_the_nodes_directory(place: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """issue 12.1: for any settings of the node, and any target of a link."""
    (tmp_path / "precious" / "commitlog").mkdir(parents=True)
    async with open_cluster(ClusterSpec(name="x", slaves=0), directory=place, modules=FAKES) as cluster:
        config = place / "broker-a" / "config.toml"
        text = config.read_text()
        config.write_text(text + f'store_path_commit_log = "{tmp_path}/precious/commitlog"\n')
        with pytest.raises(WrongStateError, match="there is nothing to wipe"):
            await cluster.wipe("broker-a")
        with pytest.raises(NodeFailedError, match=r"broker-a is not started: .*store_path_commit_log = .*precious"):
            await cluster.restart("broker-a")
        config.write_text(text)
        await cluster.start("broker-a")
        (place / "broker-a" / "store").symlink_to(tmp_path / "precious")
        for action in (cluster.wipe, cluster.power_loss):
            with pytest.raises(WrongStateError, match=r"is a link to .*precious, outside the node's directory"):
                await action("broker-a")
        assert cluster.supervisor.process_state("broker-a").is_alive
    assert (tmp_path / "precious" / "commitlog").exists()


@pytest.mark.parametrize("name", ["../x", "", "a/b", "broker-a", "journal", "cluster", "cluster.json"])
def test_a_workload_has_a_name_of_its_own(name: str) -> None:
    nodes = {"broker-a": Node(name="broker-a", kind=NodeKind.BROKER, host="127.0.0.1")}
    with pytest.raises(ValueError, match="workload name"):
        check_workload_name(name, nodes)


async def test_a_workload_that_runs_is_not_replaced(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x", slaves=0), directory=place, modules=FAKES) as cluster:
        workload = await cluster.run_workload("fakenode", {}, name="mine")
        with pytest.raises(WrongStateError, match="mine already runs"):
            await cluster.run_workload("fakenode", {}, name="mine")
        await workload.stop()
        await cluster.run_workload("fakenode", {}, name="mine")


async def test_a_signal_from_elsewhere_is_seen_as_well(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x", slaves=0), directory=place, modules=FAKES) as cluster:
        pid = cluster.supervisor.process_state("broker-a").pid
        assert pid
        os.kill(pid, signal.SIGSTOP)
        await cluster.wait_until("paused broker-a")
        os.kill(pid, signal.SIGKILL)
        await cluster.wait_until("killed broker-a")


async def test_a_restart_keeps_addresses_and_continues_the_cluster_time(place: pathlib.Path) -> None:
    spec = ClusterSpec(name="x", slaves=0, rate=1000)
    async with open_cluster(spec, directory=place, modules=FAKES) as cluster:
        address, node = cluster.namesrv_addr, await cluster.snapshot("broker-a", LONG)
    async with open_cluster(spec, directory=place, modules=FAKES) as again:
        assert again.namesrv_addr == address
        assert min(event.at_millis for event in again.events) >= max(event.at_millis for event in cluster.events)
        fresh = await again.snapshot("broker-a", LONG)
    assert node
    assert fresh
    assert fresh["config"] == node["config"]
    assert read_journals(place / "journal.old")[-1].kind == "cluster_stopped"
    assert len([event for event in read_journals(place / "journal") if event.kind == "cluster_starting"]) == 1


async def test_a_node_that_cannot_start_stops_the_rest_and_says_why(place: pathlib.Path) -> None:
    spec = ClusterSpec(name="x", broker_settings={"refuse": "no room"})
    with pytest.raises(NodeFailedError) as caught:
        async with open_cluster(spec, directory=place, modules=FAKES):
            pass
    assert str(caught.value) == "broker-a ended with exit status 1\n  broker-a| broker-a: refused: no room"
    kinds = [event.kind for event in read_journals(place / "journal") if event.node == "namesrv-1"]
    assert kinds[-1] == "node_stopped"


async def test_a_taken_port_starts_nothing(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x"), directory=place, modules=FAKES) as cluster:
        host, _, port = cluster.namesrv_addr.rpartition(":")
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
        listener.listen()
        with pytest.raises(PortTakenError, match=f"namesrv-1: {host}:9876 is taken by pid {os.getpid()}"):
            async with open_cluster(ClusterSpec(name="x"), directory=place, modules=FAKES):
                pass


async def test_an_error_in_the_cluster_block_is_raised_unchanged(place: pathlib.Path) -> None:
    with pytest.raises(UnknownTargetError, match="broker-a:slave"):
        async with open_cluster(ClusterSpec(name="x"), directory=place, modules=FAKES) as cluster:
            await cluster.kill("broker-z")


async def test_losing_the_fork_server_ends_the_cluster(place: pathlib.Path) -> None:
    async def run() -> None:
        async with open_cluster(ClusterSpec(name="x"), directory=place, modules=FAKES) as cluster:
            forks = cluster.supervisor.forks
            assert isinstance(forks, ForkServer)
            forks.process.kill()
            await trio.sleep_forever()

    with pytest.raises(NodeFailedError, match="fork server ended"):
        await run()


async def test_a_wait_ends_in_time_and_looks_once_without_time(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x", slaves=0), directory=place, modules=FAKES) as cluster:
        assert (await cluster.wait_until("ready", seconds=0))["name"] == "x"
        with pytest.raises(WaitTimeoutError, match="'stopped broker-a' is not true"):
            await cluster.wait_until("stopped broker-a", seconds=0.01)


async def test_a_node_that_does_not_stop_is_killed_and_that_is_a_failure(
    place: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "STOP_SECONDS", 0.05)
    spec = ClusterSpec(name="x", broker_settings={"never_ends": True})
    async with open_cluster(spec, directory=place, modules=FAKES) as cluster:
        with pytest.raises(NodeFailedError, match="stop had no effect"):
            await cluster.stop("broker-a")
        await cluster.wait_until("killed broker-a")
    assert "stop_overdue" in {event.kind for event in cluster.events}


async def test_killing_all_ends_a_stop_that_hangs(place: pathlib.Path) -> None:
    spec = ClusterSpec(name="x", slaves=0, broker_settings={"never_ends": True})
    async with open_cluster(spec, directory=place, modules=FAKES) as cluster, trio.open_nursery() as nursery:

        async def kill_all() -> None:
            await cluster.events.wait_event(lambda event: event.kind == "closing")
            await cluster.supervisor.kill_all()

        nursery.start_soon(kill_all)
        await cluster.stop("broker-a")
        await cluster.wait_until("killed broker-a")


async def test_a_cluster_at_a_single_address(place: pathlib.Path) -> None:
    spec = ClusterSpec(name="x", single_address=True)
    async with open_cluster(spec, directory=place, modules=FAKES, spawn_method="exec") as cluster:
        status = await cluster.status()
    assert {node["address"].rpartition(":")[0] for node in status["nodes"]} == {"127.0.0.1"}
    assert len({node["address"] for node in status["nodes"]}) == 3


async def test_a_workload_uses_the_cluster_time_and_emits_its_events(place: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x", slaves=0, rate=100), directory=place, modules=FAKES) as cluster:
        workload = await cluster.run_workload("fakenode", {"topic": "orders"})
        facts = await cluster.snapshot("fakenode-1", LONG)
        assert facts
        assert facts["config"] == {
            "namesrv_addr": cluster.namesrv_addr,
            "source_ip": cluster.supervisor.nodes["fakenode-1"].host,
            "topic": "orders",
        }
        await workload.stop()
        assert await workload.wait_ended() == 0
        assert [event.kind for event in workload.events()][-3:] == ["closing", CLOSED, "node_stopped"]
        own = [event.at_millis for event in workload.events() if event.kind in ("listening", "closing")]
        assert own == sorted(own)  # starts and ends are reported by another process, and may be late
        assert "fakenode-1" not in {node["name"] for node in (await cluster.status())["nodes"]}


async def test_the_settings_of_a_workload_are_private_and_gone_once_it_has_read_them(
    place: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 12.14: they may hold a secret key."""
    modes: list[int] = []
    path = place / "fakenode-1" / "config.toml"
    spawn = supervisor.Supervisor.spawn

    async def watched(self: supervisor.Supervisor, name: str) -> None:
        await spawn(self, name)
        if name == "fakenode-1":
            modes.append(path.stat().st_mode & 0o777)
            modes.append(path.parent.stat().st_mode & 0o777)

    monkeypatch.setattr(supervisor.Supervisor, "spawn", watched)
    async with open_cluster(ClusterSpec(name="x", slaves=0), directory=place, modules=FAKES) as cluster:
        workload = await cluster.run_workload("fakenode", {"secret_key": "a secret key"})
        assert not path.exists()
        await cluster.kill(workload.name)
        await cluster.start(workload.name)
        assert ((await cluster.snapshot(workload.name)) or {})["config"]["secret_key"] == "a secret key"
        assert not path.exists()
        assert modes == [0o600, 0o700] * 2
        with pytest.raises(NodeFailedError):
            await cluster.run_workload("fakenode", {"secret_key": "a secret key", "refuse": "it"}, name="other")
        assert not (place / "other" / "config.toml").exists()
        assert (place / "broker-a" / "config.toml").stat().st_mode & 0o777 == 0o600


async def test_a_cluster_whose_network_another_has_claimed_starts_at_a_free_one_and_says_so(
    place: pathlib.Path,
) -> None:
    spec = ClusterSpec(name="x", slaves=0)
    async with open_cluster(spec, directory=place, modules=FAKES) as cluster:
        before, address = cluster.supervisor.placement, cluster.namesrv_addr
        assert (await cluster.status())["moved"] == ""
    claim = claim_subnet(before.network, before.subnet or 0)
    with claim:
        async with open_cluster(spec, directory=place, modules=FAKES) as cluster:
            assert cluster.namesrv_addr != address
            moved = (await cluster.status())["moved"]
            assert f"addresses moved from {before.network}.{before.subnet}.* to " in moved
            assert [event.kind for event in cluster.events][:2] == ["cluster_starting", "cluster_moved"]
            assert moved in shown_of(render_up(await cluster.status()))
            after = cluster.namesrv_addr
    async with open_cluster(spec, directory=place, modules=FAKES) as cluster:
        assert cluster.namesrv_addr == after


def shown_of(renderable: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=1000, record=True)
    console.print(renderable)
    return console.export_text()
