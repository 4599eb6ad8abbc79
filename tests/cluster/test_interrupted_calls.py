"""What calls of the Python API leave behind if they are cancelled or fail."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.supervisor.directory import ClusterDirectory
from rmqlab.cluster.supervisor.topology import ClusterSpec, NodeKind
from rmqlab.faults import Latency

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

FAKES = {NodeKind.NAMESERVER: "fakenode", NodeKind.BROKER: "fakenode"}


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
