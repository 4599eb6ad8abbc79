"""A fork server that a signal has stopped. Its nodes are without services."""

import os
import pathlib
import signal

import pytest

from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.supervisor.commandhandlers import HANDLERS
from rmqlab.cluster.supervisor.fork.children import ForkServer, ForkServerStoppedError
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from tests.cluster.fakes import FAKES

pytestmark = pytest.mark.skipif(not hasattr(os, "waitid"), reason="this system does not say that a child is stopped")


def stop_fork_server(cluster: Cluster) -> int:
    """Stop the fork server, and return its process id once the kernel reports it."""
    forks = cluster.supervisor.forks
    assert isinstance(forks, ForkServer)
    os.kill(forks.process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, forks.process.pid, os.WSTOPPED | os.WNOWAIT)
    return forks.process.pid


def continue_fork_server(pid: int) -> None:
    """Continue the fork server, and wait until the kernel reports it."""
    os.kill(pid, signal.SIGCONT)
    os.waitid(os.P_PID, pid, os.WCONTINUED)


async def send_nothing(_item: object) -> None:
    raise AssertionError("no item was expected")


async def test_a_command_names_the_process_and_the_remedy_and_changes_nothing(tmp_path: pathlib.Path) -> None:
    async with open_cluster(ClusterSpec(name="x"), directory=tmp_path / "lab", modules=FAKES) as cluster:
        pid = stop_fork_server(cluster)
        with pytest.raises(ForkServerStoppedError, match=rf"\(pid {pid}\), .* continue it with: kill -CONT {pid}"):
            await HANDLERS["down"](cluster, {}, send_nothing)
        assert not cluster.supervisor.is_stopping
        with pytest.raises(ForkServerStoppedError, match=f"kill -CONT {pid}"):
            await cluster.kill("broker-a-s")
        assert cluster.supervisor.process_state("broker-a-s").is_alive
        continue_fork_server(pid)
        await cluster.kill("broker-a-s")


async def test_nodes_start_and_stop_once_the_fork_server_continues(tmp_path: pathlib.Path) -> None:
    """Neither start nor kill had an effect."""
    async with open_cluster(ClusterSpec(name="x"), directory=tmp_path / "lab", modules=FAKES) as cluster:
        await cluster.kill("broker-a-s")
        pid = stop_fork_server(cluster)
        with pytest.raises(ForkServerStoppedError):
            await cluster.start("broker-a-s")
        with pytest.raises(ForkServerStoppedError):
            await cluster.stop("broker-a")
        states = [cluster.supervisor.process_state(name).state for name in ("broker-a-s", "broker-a")]
        assert states == ["killed", "ready"]
        continue_fork_server(pid)
        await cluster.start("broker-a-s")
        await cluster.stop("broker-a")


async def test_the_end_of_a_cluster_waits_for_no_node(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqlab.cluster.supervisor.fork.children.CLOSE_SECONDS", 0.1)
    async with open_cluster(ClusterSpec(name="x"), directory=tmp_path / "lab", modules=FAKES) as cluster:
        stop_fork_server(cluster)
    (overdue, *_) = [event for event in cluster.events if event.kind == "stop_overdue"]
    assert "kill -CONT" in overdue.fields["reason"]
