"""Journals of nodes with a wrong clock: their entries have the cluster's time."""

from pathlib import Path

from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.faults import ClockStep
from rmqlab.runtime.journals.journalentry import CLOSED, OPENED
from rmqlab.runtime.journals.journalreader import read_journals
from tests.cluster.simulated import on_cluster

HOUR = 3_600_000
SPEC = ClusterSpec(name="x", slaves=0)


async def restart_with_a_wrong_clock(cluster: Cluster) -> None:
    """Restart a broker and a nameserver while their clocks are an hour wrong."""
    await cluster.fault(ClockStep(target="broker-a", millis=-HOUR))
    await cluster.fault(ClockStep(target="namesrv-1", millis=HOUR))
    await cluster.restart("broker-a,namesrv-1")


def check_times(journal: Path) -> None:
    """Each start and end of a process has the cluster's time."""
    entries = read_journals(journal)
    begin = min(entry.at_millis for entry in entries if entry.kind == "cluster_starting")
    of_processes = [entry for entry in entries if entry.kind in (OPENED, CLOSED) and entry.node]
    assert sorted(entry.kind for entry in of_processes) == [CLOSED] * 4 + [OPENED] * 4
    assert all(begin <= entry.at_millis < begin + HOUR for entry in of_processes)


async def test_processes_begin_and_end_their_journals_at_the_clusters_time(tmp_path: Path) -> None:
    async with open_cluster(SPEC, directory=tmp_path / "lab") as cluster:
        await restart_with_a_wrong_clock(cluster)
    check_times(tmp_path / "lab" / "journal")


def test_simulated_nodes_begin_and_end_their_journals_at_the_clusters_time(tmp_path: Path) -> None:
    on_cluster(tmp_path / "lab", restart_with_a_wrong_clock, SPEC)
    check_times(tmp_path / "lab" / "journal")
