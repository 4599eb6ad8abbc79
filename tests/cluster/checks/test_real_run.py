"""A real cluster whose master is killed under load, and the judged consequences."""

import json
from pathlib import Path

import pytest
import trio

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.lab import Cluster, open_cluster
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.runtime.clock import real_seconds

COUNT = 600
SPEC = ClusterSpec(
    name="judged",
    role="SYNC_MASTER",
    rate=5,
    broker_settings={"broker_fast_failure_enable": False},  # what a busy machine costs is no loss of the cluster's
)


@pytest.mark.timeout(300)
async def test_a_killed_master_is_seen_by_every_check(tmp_path: Path) -> None:
    async with open_cluster(SPEC, directory=tmp_path) as cluster:
        await cluster.wait_until("slave-in-sync broker-a")
        sends = {"topic": "orders", "rate_per_second": 20.0, "count": COUNT, "send_timeout": 60.0}
        producer = await cluster.run_workload("rmqlab.cluster.workload.produce", sends)
        await happened(cluster, "sent")
        consumer = await cluster.run_workload("rmqlab.cluster.workload.consume", {"topic": "orders", "group": "shop"})
        await happened(cluster, "delivered")
        await cluster.kill("broker-a:master")
        await cluster.wait_until("route-gone broker-a:master")
        await happened(cluster, "attempt_failed")
        await cluster.start("broker-a:master")
        await producer.wait_ended(seconds=120)
        await cluster.wait_until("slave-caught-up broker-a")
        await all_delivered(cluster)  # else the consumer's pace decides whether reading is known to be back
        await consumer.stop()
    findings = judge_directory(tmp_path)
    assert findings.conditions.gaps == ()
    assert (findings.conditions.role, findings.conditions.outside_clients) == ("SYNC_MASTER", ())

    assert findings["sent"].value == COUNT
    assert findings["lost"].value == 0
    assert findings["stored.refused"].value == 0
    assert findings["stored_unsent"].value == 0
    assert findings["order.stored"].value == 0
    assert findings["divergence broker-a-s"].value == findings["missing broker-a-s"].value == 0
    assert findings["duplicates.unexplained"].value == 0

    outage = findings["write_unavailable broker-a"]
    assert outage.value is not None
    assert outage.value > 0
    assert outage.evidence[0].message_ids
    for metric in ("detection namesrv-1", "read_unavailable broker-a", "replication_lag broker-a-s"):
        assert findings[metric].is_known, findings[metric].missing
    # A nameserver that noticed was wrong for exactly as long as it took.
    assert findings["stale_route namesrv-1"].value == findings["detection namesrv-1"].value
    assert findings["missing_route namesrv-1"].is_known
    # What the sends say, and what the journal says of each of them, is one story.
    by_outcome = sum(findings[f"sent.{outcome}"].value or 0 for outcome in OUTCOMES)
    assert by_outcome == COUNT
    json.dumps(findings.as_json())


OUTCOMES = (
    "SEND_OK",
    "FLUSH_DISK_TIMEOUT",
    "FLUSH_SLAVE_TIMEOUT",
    "SLAVE_NOT_AVAILABLE",
    "indeterminate",
    "refused",
)


async def happened(cluster: Cluster, kind: str) -> None:
    """Wait until a workload has reported this."""
    with trio.fail_after(real_seconds(100)):
        async with cluster.follow_journal() as batches:
            async for batch in batches:
                if any(event.kind == kind for event in batch):
                    return


async def all_delivered(cluster: Cluster) -> None:
    """Wait until each message that is known to be stored has been delivered.

    The producer has ended.
    """
    sent = [event.fields for event in cluster.journal() if event.kind == "sent"]
    left = {fields["number"] for fields in sent if fields["outcome"] not in {"refused", "indeterminate"}}
    with trio.fail_after(real_seconds(100)):
        async with cluster.follow_journal() as batches:
            async for batch in batches:
                left -= {event.fields["number"] for event in batch if event.kind == "delivered"}
                if not left:
                    return
