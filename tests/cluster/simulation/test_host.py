"""Clusters on a simulated machine: processes, signals, logs, faults."""

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.simulation.forks import SimulatedForks
from rmqlab.cluster.simulation.host import simulate
from rmqlab.cluster.supervisor.fork.child import SpawnRequest
from rmqlab.cluster.supervisor.fork.forklaunch import WORKLOAD_MODULES
from rmqlab.cluster.supervisor.fork.forkserver import NotSpawned, Report
from rmqlab.cluster.supervisor.host import Host
from rmqlab.cluster.supervisor.plan.process_state import NodeFailedError
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.faults import FAULTS
from rmqlab.faults.documents import example_of
from rmqlab.runtime.clock import ClockSettings, cluster_millis
from rmqlab.runtime.journals.journalreader import read_journals
from rmqlab.simulation.child import run_in_child
from tests.cluster.simulated import on_cluster

SPEC = ClusterSpec(name="simulated", slaves=0)


def kinds_in(directory: Path, node: str) -> list[str]:
    return [entry.kind for entry in read_journals(directory / "journal") if entry.node == node]


def test_a_second_sigterm_ends_one_process_and_not_the_simulation(tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> int | None:
        supervisor = cluster.supervisor
        pid = supervisor.process_state("broker-a").pid
        assert pid is not None
        for _ in range(20):  # more than the process keeps
            await supervisor.forks.signal(pid, 15)
        assert await supervisor.processes.wait_state("broker-a", lambda process: not process.is_alive, 60)
        return supervisor.process_state("broker-a").exit_status

    assert on_cluster(tmp_path, play, SPEC) == 128 + 15


def test_a_killed_broker_starts_again_on_its_store(tmp_path: Path) -> None:
    """Its lock on the store ended with it."""

    async def play(cluster: Cluster) -> None:
        await cluster.kill("broker-a")
        await cluster.start("broker-a")

    on_cluster(tmp_path, play, SPEC)
    kinds = kinds_in(tmp_path, "broker-a")
    assert kinds.count("node_ready") == 2
    assert "node_killed" in kinds


def test_a_broker_that_cannot_start_logs_why(tmp_path: Path) -> None:
    """The reason arrives in a group of groups, one for each nursery around it."""

    async def play(cluster: Cluster) -> str:
        await cluster.kill("broker-a")
        store = tmp_path / "broker-a" / "store"
        shutil.rmtree(store)
        store.touch()
        with pytest.raises(NodeFailedError) as raised:
            await cluster.start("broker-a")
        return str(raised.value)

    said = on_cluster(tmp_path, play, SPEC)
    (logged,) = [line for line in (tmp_path / "broker-a" / "node.log").read_text().splitlines() if "ERROR" in line]
    assert str(tmp_path / "broker-a" / "store") in logged
    assert "Exceptions from Trio nursery" not in said + logged


def test_each_node_logs_to_its_own_file_in_virtual_time(tmp_path: Path) -> None:
    async def play(_cluster: Cluster) -> None:
        await trio.sleep(1.0)

    on_cluster(tmp_path, play, SPEC)
    for node in ("broker-a", "namesrv-1"):
        first = (tmp_path / node / "node.log").read_text().splitlines()[0]
        assert first.startswith("2023-11-14 22:13:20.")
        assert "ready address=127.1.1." in first


@attrs.define
class Quiet:
    """A machine whose supervisor has no nodes."""

    reports: list[Report] = attrs.field(factory=list)

    def play(self, fn: Callable[[SimulatedForks], Awaitable[None]]) -> list[Report]:
        async def run(host: Host) -> list[Report]:
            forks = host.start_forks((), Path("unused"), None)
            assert isinstance(forks, SimulatedForks)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(forks.attend, lambda _request_id, report: self.reports.append(report))
                await fn(forks)
                await trio.sleep(1.0)
                nursery.cancel_scope.cancel()
            return self.reports

        return run_in_child(lambda: simulate("1", run))


def spawn_request(directory: Path, **changes: Any) -> SpawnRequest:
    place = str(directory / "node.")
    clock = ClockSettings(monotonic_epoch=0.0, wall_epoch=0.0)
    request = SpawnRequest(
        id=7, name="x", module="none", config=f"{place}toml", log=f"{place}log", journal=f"{place}msgpack",
        control="", clock=clock,
    )  # fmt: skip
    return attrs.evolve(request, **changes)


@pytest.mark.parametrize("file", ["log", "journal"])
def test_a_process_whose_files_cannot_be_written_is_not_started(tmp_path: Path, file: str) -> None:
    request = spawn_request(tmp_path, **{file: str(tmp_path / "missing" / "file")})
    (report,) = Quiet().play(lambda forks: forks.spawn(request))
    assert isinstance(report, NotSpawned)
    assert report.id == 7
    assert "No such file or directory" in report.reason


def test_processes_that_are_ordered_and_not_yet_there_never_begin(tmp_path: Path) -> None:
    async def order_and_close(forks: SimulatedForks) -> None:
        await forks.spawn(spawn_request(tmp_path))
        forks.close()

    assert Quiet().play(order_and_close) == []


def test_every_kind_of_fault_is_played_and_healed(tmp_path: Path) -> None:
    """Messages are accepted again, and nothing unexpected happened in a node."""
    spec = ClusterSpec(name="faulty", slaves=1)

    async def play(cluster: Cluster) -> dict[str, Any]:
        orders = {"topic": "orders", "rate_per_second": 10.0}
        await cluster.run_workload(WORKLOAD_MODULES[0], orders, name="orders")
        for kind in FAULTS.kinds:
            await cluster.fault(example_of(FAULTS, kind))
            await trio.sleep(2.0)
            await cluster.heal_all()
            await trio.sleep(1.0)
        healed_at = cluster_millis()
        await trio.sleep(60.0)
        sent = [entry for entry in cluster.journal() if entry.kind == "sent" and entry.at_millis > healed_at]
        assert sent[-1].fields["outcome"] == "SEND_OK"
        return await cluster.status()

    status = on_cluster(tmp_path, play, spec)
    for node in status["nodes"]:
        assert node["state"] == "ready"
        assert not node.get("internal_errors")
