"""`MIN_COPIES` on simulated processes: graded messages at an asynchronous master."""

from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from tests.cluster.simulated import simulated

SPEC = ClusterSpec(name="x", role="ASYNC_MASTER", broker_settings={"obey_min_copies": True})


@simulated({"simulated": SPEC})
async def test_a_graded_message_waits_for_the_slave_and_others_do_not(cluster: Cluster) -> None:
    """Issue 16, part 3."""

    async def outcomes(min_copies: int) -> set[str]:
        config = {"topic": "orders", "count": 3, "rate_per_second": 0.0, "retries": 0, "min_copies": min_copies}
        workload = await cluster.run_workload("rmqlab.cluster.workload.produce", config)
        await workload.wait_ended()
        return {event.fields["outcome"] for event in workload.events() if event.kind == "sent"}

    await cluster.wait_until("slave-in-sync broker-a")
    assert await outcomes(0) == await outcomes(2) == {"SEND_OK"}
    assert await outcomes(3) == {"SLAVE_NOT_AVAILABLE"}
    await cluster.kill("broker-a-s")
    await cluster.wait_until("killed broker-a-s")
    assert await outcomes(0) == {"SEND_OK"}
    assert await outcomes(2) == {"SLAVE_NOT_AVAILABLE"}
