"""A slave with a full disk on simulated processes, named in remarks and `status`."""

from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.faults import DiskFull
from tests.cluster.simulated import simulated

SPEC = ClusterSpec(name="x", role="SYNC_MASTER", profile="hardened")


@simulated({"simulated": SPEC})
async def test_the_remark_of_a_send_and_the_status_name_the_full_disk_of_the_slave(cluster: Cluster) -> None:
    """Issue 16, part 3."""

    async def send() -> tuple[str, str]:
        config = {"topic": "orders", "count": 1, "rate_per_second": 0.0, "retries": 0}
        workload = await cluster.run_workload("rmqlab.cluster.workload.produce", config)
        await workload.wait_ended()
        (event,) = [event for event in workload.events() if event.kind == "sent"]
        return event.fields["outcome"], event.fields.get("remark", "")

    async def trouble() -> str | None:
        (row,) = (await cluster.status())["replication"]
        text: str | None = row["trouble"]
        return text

    await cluster.wait_until("slave-in-sync broker-a")
    full = await cluster.fault(DiskFull(target="broker-a-s"))
    outcome, remark = await send()
    assert outcome == "SLAVE_NOT_AVAILABLE"
    assert remark.startswith("slave broker-a-s: cannot append ")
    assert remark.endswith(": No space left on device")
    assert await trouble() == remark.removeprefix("slave broker-a-s: ")
    await cluster.heal(full)
    await cluster.wait_until("slave-caught-up broker-a")
    while await send() != ("SEND_OK", ""):
        await cluster.wait_until("slave-in-sync broker-a")
    assert await trouble() is None
    assert [entry.node for entry in cluster.journal() if entry.kind == "slave_recovered"] == ["broker-a"]
