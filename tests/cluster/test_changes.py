"""Nodes that come to and leave a running cluster, and settings changed later.

Those that try settings, and the next start, have real processes, the others simulated ones.
"""

import pathlib
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

import pytest
import trio

from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.scenario.load import ScenarioError, parse_scenario
from rmqlab.cluster.scenario.result import Options
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.cluster.simulation.play import play_simulated
from rmqlab.cluster.supervisor import scaling
from rmqlab.cluster.supervisor.check_settings import BadSettingsError
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError, WrongStateError
from rmqlab.cluster.supervisor.plan.status import Document
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec, Node, UnknownTargetError
from rmqlab.cluster.supervisor.supervisor import Supervisor
from rmqlab.faults import Isolation
from rmqlab.verdict.verdict import Verdict
from tests.cluster.simulated import simulated

PATIENT = {"broker_fast_failure_enable": False, "register_broker_timeout_mills": 60_000}
SPEC = ClusterSpec(name="x", rate=10, broker_settings=PATIENT)

on_simulated_cluster = simulated({"simulated": SPEC})


@pytest.fixture
def place(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "x"


@pytest.fixture
async def cluster(place: pathlib.Path) -> AsyncIterator[Cluster]:
    async with open_cluster(SPEC, directory=place) as cluster:
        yield cluster


def settings_of(place: pathlib.Path, node: str) -> dict[str, object]:
    return tomllib.loads((place / node / "config.toml").read_text())


async def produce(cluster: Cluster, count: int) -> None:
    work = await cluster.run_workload("rmqlab.cluster.workload.produce", {"topic": "orders", "count": count})
    assert await work.wait_ended() == 0


@on_simulated_cluster
async def test_a_slave_that_is_added_late_catches_up(cluster: Cluster) -> None:
    await produce(cluster, 20)
    assert await cluster.add_slave("broker-a", {"slave_read_enable": True}) == "broker-a-s2"
    document = await cluster.wait_until("slave-caught-up broker-a-s2")
    logs = {node["name"]: node["commit_log"] for node in document["nodes"] if node["kind"] == "broker"}
    assert logs["broker-a-s2"]["max"] == logs["broker-a"]["max"] > 0
    assert settings_of(cluster.supervisor.directory.path, "broker-a-s2")["slave_read_enable"] is True
    assert settings_of(cluster.supervisor.directory.path, "broker-a-s")["broker_id"] == 1


@on_simulated_cluster
async def test_brokers_register_at_an_added_nameserver_and_run_on_without_the_first(cluster: Cluster) -> None:
    place = cluster.supervisor.directory.path
    await cluster.pause("broker-a-s")
    name = await cluster.add_nameserver()
    await cluster.resume("broker-a-s")
    document = await cluster.wait_until(lambda now: bool((now["routes"].get(name) or {}).get("broker-a", {}).get("0")))
    assert len(document["namesrv_addr"].split(";")) == 2
    await cluster.restart("broker-a-s")  # it was paused when the others were given the new list
    await cluster.wait_until("route-has broker-a-s")
    assert await cluster.remove("namesrv-1") == ("namesrv-1",)
    address = cluster.namesrv_addr
    assert address.endswith(".2:9876")
    await produce(cluster, 3)
    await cluster.restart("broker-a")
    assert settings_of(place, "broker-a")["namesrv_addr"] == address
    await cluster.wait_until("route-has broker-a")


async def test_the_next_start_has_the_nodes_and_settings_of_the_end(place: pathlib.Path) -> None:
    async with open_cluster(SPEC, directory=place) as cluster:
        assert await cluster.add_group() == ("broker-b", "broker-b-s")
        assert await cluster.remove("broker-a-s") == ("broker-a-s",)
        await cluster.change_settings("broker-b:slave", {"slave_read_enable": True})
        assert "slave_read_enable" not in settings_of(place, "broker-b-s")
        await cluster.restart("broker-b-s")
        assert settings_of(place, "broker-b-s")["slave_read_enable"] is True
        kinds = [event.kind for event in cluster.events if event.node == "broker-a-s"]
        assert kinds[-1] == "node_removed"
    record = ClusterDirectory.at(place).read_record()
    assert record is not None
    assert [node.name for node in record.nodes()] == ["namesrv-1", "broker-a", "broker-b", "broker-b-s"]
    async with open_cluster(record.spec, directory=place) as cluster:
        assert [*cluster.supervisor.nodes] == ["namesrv-1", "broker-a", "broker-b", "broker-b-s"]
        assert settings_of(place, "broker-b-s")["slave_read_enable"] is True
        assert await cluster.add_slave("broker-a-s") == "broker-a-s"
        assert cluster.supervisor.nodes["broker-a-s"].host.endswith(".21"), "its address of before"


@on_simulated_cluster
async def test_two_additions_at_once_are_done_one_after_the_other(cluster: Cluster) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.add_slave, "broker-a")
        nursery.start_soon(cluster.add_slave, "broker-a")
    assert [*cluster.supervisor.nodes] == ["namesrv-1", "broker-a", "broker-a-s", "broker-a-s2", "broker-a-s3"]


async def test_a_rejected_change_leaves_the_cluster_file_unchanged(cluster: Cluster, place: pathlib.Path) -> None:
    before = (place / "cluster.json").read_text()
    with pytest.raises(UnknownTargetError, match="did you mean broker-a"):
        await cluster.add_slave("broker-aa")
    with pytest.raises(BadSettingsError, match="did you mean slave_read_enable"):
        await cluster.add_slave("broker-a", {"slave_red_enable": True})
    with pytest.raises(BadSettingsError, match="did you mean slave_read_enable"):
        await cluster.change_settings("broker-a", {"slave_red_enable": True})
    with pytest.raises(BadSettingsError, match="broker_id: each node has its own"):
        await cluster.change_settings("broker-a", {"broker_id": 3})
    with pytest.raises(WrongStateError, match="namesrv-1 is a nameserver: only brokers"):
        await cluster.change_settings("namesrv-1", {"slave_read_enable": True})
    await cluster.pause("broker-a-s")
    with pytest.raises(WrongStateError, match="broker-a-s is paused"):
        await cluster.remove("broker-a-s")
    await cluster.resume("broker-a-s")
    fault = await cluster.fault(Isolation(target="broker-a-s"))
    with pytest.raises(WrongStateError, match=f"the fault {fault.id} is in force at broker-a-s: heal it first"):
        await cluster.remove("broker-a-s")
    await cluster.heal_all()
    assert [*cluster.supervisor.nodes] == ["namesrv-1", "broker-a", "broker-a-s"]
    assert (place / "cluster.json").read_text() == before


@on_simulated_cluster
async def test_a_node_that_does_not_start_is_not_added(cluster: Cluster) -> None:
    place = cluster.supervisor.directory.path
    (place / "elsewhere").mkdir()
    (place / "namesrv-2").symlink_to(place / "elsewhere")
    with pytest.raises(Exception, match="namesrv-2 is not started"):
        await cluster.add_nameserver()
    assert [*cluster.supervisor.nodes] == ["namesrv-1", "broker-a", "broker-a-s"]
    assert await cluster.add_slave("broker-a") == "broker-a-s2"


@on_simulated_cluster
async def test_a_node_that_is_started_again_while_its_addition_is_undone_is_ended(cluster: Cluster) -> None:
    """A report about a process that the supervisor had forgotten ended the cluster."""
    start, kill, starts = scaling._start, Supervisor.kill, ["broker-a-s2"]

    async def start_in_vain(supervisor: Supervisor, added: Sequence[Node]) -> None:
        await start(supervisor, added)
        raise NodeFailedError("it is not ready")

    async def kill_beside_a_start(supervisor: Supervisor, *names: str) -> None:
        await kill(supervisor, *names)
        if starts:
            await supervisor.spawn(starts.pop())

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scaling, "_start", start_in_vain)
        patched.setattr(Supervisor, "kill", kill_beside_a_start)
        with pytest.raises(NodeFailedError, match="it is not ready"):
            await cluster.add_slave("broker-a")
    kinds = ["node_spawned", "node_killed", "node_removed"]
    fates = [event.kind for event in cluster.events if event.node == "broker-a-s2" and event.kind in kinds]
    assert fates == ["node_spawned", "node_killed", *kinds]


@on_simulated_cluster
async def test_a_node_gets_no_name_of_a_workload_which_runs_on(cluster: Cluster) -> None:
    work = await cluster.run_workload("rmqlab.cluster.workload.produce", {"topic": "orders"}, name="namesrv-2")
    with pytest.raises(
        WrongStateError, match="the new node would be named namesrv-2, as a workload of this cluster is"
    ):
        await cluster.add_nameserver()
    assert cluster.supervisor.process_state("namesrv-2").is_alive
    await work.stop()


async def test_a_node_whose_directory_cannot_be_made_is_not_added(cluster: Cluster, place: pathlib.Path) -> None:
    (place / "namesrv-2").touch()
    with pytest.raises(NodeFailedError, match="namesrv-2 is not started"):
        await cluster.add_nameserver()
    assert [*cluster.supervisor.nodes] == ["namesrv-1", "broker-a", "broker-a-s"]


CHANGES: Mapping[str, Callable[[Cluster], Awaitable[object]]] = {
    "add": lambda cluster: cluster.add_slave("broker-a"),
    "remove": lambda cluster: cluster.remove("broker-a-s"),
    "settings": lambda cluster: cluster.change_settings("broker-a", {"slave_read_enable": True}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=[*CHANGES])
async def test_a_change_that_a_full_disk_cannot_save_has_no_effect(
    cluster: Cluster, place: pathlib.Path, change: Callable[[Cluster], Awaitable[object]]
) -> None:
    def seen(document: Document) -> object:
        return [(node["name"], node["pid"]) for node in document["nodes"]], document["node_settings"]

    before, record = seen(await cluster.status()), (place / "cluster.json").read_text()
    (place / "cluster.json.new").symlink_to("/dev/full")
    with pytest.raises(
        NodeFailedError, match=r"cluster\.json cannot be saved: No space left on device; the cluster keeps"
    ):
        await change(cluster)
    assert seen(await cluster.status()) == before
    assert cluster.supervisor.pending_settings == {}
    assert (place / "cluster.json").read_text() == record
    await change(cluster)  # there is room again
    assert (place / "cluster.json").read_text() != record


async def test_a_change_beside_a_damaged_record_is_refused(cluster: Cluster, place: pathlib.Path) -> None:
    (place / "cluster.json").write_text("{")
    with pytest.raises(NodeFailedError, match=r"cluster\.json is damaged: .*; the cluster keeps its nodes"):
        await cluster.remove("broker-a-s")
    assert cluster.supervisor.process_state("broker-a-s").is_alive


# ---- scenarios ---------------------------------------------------------------------------------------------------

GROWS = """
name = "grows"
claim = "A slave that is added late gets every message, and a removed group loses none"
[cluster]
rate = 10
groups = 2
[cluster.broker_settings]
broker_fast_failure_enable = false
[cluster.node_settings."broker-a:slave"]
slave_read_enable = true
[[workload]]
name = "orders"
kind = "produce"
topic = "orders"
count = 60
rate_per_second = 20
[[step]]
wait = "sent orders 20"
add = "slave broker-a"
[[step]]
wait = "slave-caught-up broker-a"
change-settings = {target = "broker-a-s2", sync_flush_timeout = 3000}
[[step]]
restart = "broker-a-s2"
[[step]]
wait = "ended orders"
remove = "broker-b:*"
[[step]]
wait = "slave-caught-up broker-a"
[[expect]]
metric = "lost.SEND_OK"
equals = "0 messages"
[[expect]]
event = "node_added"
where = {node = "broker-a-s2", broker_id = 2}
equals = "1 events"
[[expect]]
event = "node_removed"
equals = "2 events"
"""


def test_a_scenario_changes_the_cluster(tmp_path: pathlib.Path) -> None:
    directory = RunDirectory(tmp_path / "grows")
    directory.path.mkdir()
    run = play_simulated(parse_scenario(GROWS), Options(seed=1, keeps_stores=True), directory=directory)
    assert run.verdict is Verdict.HOLDS, run.reasons()
    settings = settings_of(directory.path, "broker-a-s2")
    assert (settings["slave_read_enable"], settings["sync_flush_timeout"]) == (True, 3000)
    assert (directory.path / "broker-b" / "store").is_dir()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('add = "slave broker-a"', 'add = "slave broker-q"', "unknown name 'broker-q'; did you mean broker-b?"),
        ('add = "slave broker-a"', 'add = "slav broker-a"', "did you mean slave?"),
        ('remove = "broker-b:*"', 'remove = "broker-b"', "broker-b has 2 nodes"),
        ('remove = "broker-b:*"', 'remove = "namesrv-1"', "namesrv-1 is the last nameserver"),
        ('target = "broker-a-s2"', 'target = "broker-a-s3"', "did you mean broker-a-s"),
        ("sync_flush_timeout = 3000", "broker_name = 3", "broker setting broker_name: each node has its own"),
        ('restart = "broker-a-s2"', 'restart = "broker-a-s3"', "no node 'broker-a-s3' here"),
        ('settings."broker-a:slave"', 'settings."broker-z:slave"', "no broker 'broker-z:slave' here"),
        ('[cluster.node_settings."broker-a:slave"]', "[cluster.node_settings]", "expected a table"),
        ('remove = "broker-b:*"', 'remove = "broker-b:*"\n[[step]]\nkill = "broker-b-s"', "no node 'broker-b-s' here"),
    ],
)
def test_a_scenario_whose_changes_cannot_work_is_rejected(old: str, new: str, said: str) -> None:
    assert old in GROWS
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(GROWS.replace(old, new))
    assert said in str(caught.value)
