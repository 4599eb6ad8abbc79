"""What calls of the Python API leave behind if they are cancelled or fail."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from rmqlab.cluster.blocking import BlockingCluster
from rmqlab.cluster.lab import Cluster, ClusterClosedError, open_cluster
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.faults import Latency
from rmqlab.runtime.journals.journalreader import read_journals
from tests.cluster.fakes import FAKES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


async def test_a_cancelled_fault_is_not_in_force(tmp_path: Path) -> None:
    async with open_cluster(ClusterSpec(name="x", slaves=0), directory=tmp_path, modules=FAKES) as cluster:
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: cluster.isolate("broker-a"),
            lambda: cluster.fault(Latency(src="namesrv-1", dst="broker-a", millis=5)),
        ]
        for start in calls:
            with trio.CancelScope() as scope:
                scope.cancel()
                await start()
            assert scope.cancelled_caught
            assert cluster.faults == []
            assert cluster.supervisor.faults.rules_for("broker-a").links == ()
        kept = await cluster.isolate("broker-a")
        assert cluster.faults == [kept]
    ends = [event.fields.get("reason") for event in cluster.events if event.kind == "fault_healed"]
    assert ends[:2] == ["cancelled", "cancelled"]


def test_a_forked_process_neither_calls_nor_ends_the_cluster(tmp_path: Path) -> None:
    with BlockingCluster(ClusterSpec(name="x", slaves=0), tmp_path) as cluster:
        child = os.fork()
        if not child:
            try:
                with pytest.raises(
                    ClusterClosedError, match=f"runs in process {os.getppid()}: expected a call in that"
                ):
                    cluster.status()
                cluster.__exit__(None, None, None)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert cluster.status()["nodes"]
        with pytest.raises(TypeError, match="expected its namesrv_addr in other processes"):
            pickle.dumps(cluster)
        assert " running " in repr(cluster)
    assert " stopped " in repr(cluster)


def test_a_cluster_that_still_runs_when_python_ends_is_stopped(tmp_path: Path) -> None:
    """As at the end of a notebook or of an interactive session."""
    program = (
        "import sys\n"
        "from rmqlab.cluster.blocking import BlockingCluster\n"
        "from rmqlab.cluster.supervisor.plan.topology import ClusterSpec\n"
        "BlockingCluster(ClusterSpec(name='x', slaves=0), sys.argv[1]).__enter__()\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=120)
    events = [entry.kind for entry in read_journals(ClusterDirectory.at(tmp_path).journal_dir)]
    assert "cluster_stopped" in events
    assert events.count("node_stopped") == 2


@pytest.mark.parametrize("failure", [ZeroDivisionError, KeyboardInterrupt])
async def test_a_cluster_whose_block_fails_keeps_its_changes_for_the_next_start(
    tmp_path: Path, failure: type[BaseException]
) -> None:
    async def run(cluster: Cluster) -> None:
        assert await cluster.add_slave("broker-a") == "broker-a-s"
        raise failure

    with pytest.raises(failure):
        async with open_cluster(ClusterSpec(name="x", slaves=0), directory=tmp_path, modules=FAKES) as cluster:
            await run(cluster)
    record = ClusterDirectory.at(tmp_path).read_record()
    assert record is not None
    assert record.clock_millis > 0
    assert [node.name for node in record.nodes()] == ["namesrv-1", "broker-a", "broker-a-s"]


async def test_a_cancelled_cluster_keeps_its_clock_for_the_next_start(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with open_cluster(ClusterSpec(name="x", slaves=0), directory=tmp_path, modules=FAKES):
            scope.cancel()
            await trio.sleep_forever()
    record = ClusterDirectory.at(tmp_path).read_record()
    assert record is not None
    assert record.clock_millis > 0
