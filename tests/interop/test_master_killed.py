"""The master is killed with -9: what Java consumers still get, from the slave."""

import pytest

from tests.interop import rawrequest
from tests.interop.java import Java
from tests.interop.topology import Cluster
from tests.interop.waiting import wait_until

pytestmark = pytest.mark.interop

COUNT = 400
BEFORE_THE_KILL = 100


def test_java_consumers_read_on_from_the_slave_when_the_master_is_killed(java: Java, mortal: Cluster) -> None:
    """broker-requests#66: one consumer in mid backlog, one started after the kill.

    The first pulls 2 messages at a time. Every message was acknowledged by both brokers, so each consumer gets all.
    Repeats are allowed: the offsets of the last seconds were not committed.
    """
    target = [f"namesrv={mortal.namesrv}", "topic=KilledTopic", f"count={COUNT}"]
    with java.start("Producer", *target) as producer:
        assert {line.split()[0] for line in producer.finish()} == {"SEND_OK"}
    wait_until(lambda: rawrequest.knows_topic(mortal.slave.address, "KilledTopic"), "the slave knows the topic")
    slow = ["pullBatchSize=2", "pullIntervalMillis=400"]
    with java.start("Consumer", *target, *slow, "group=SlowGroup", "timeoutMillis=180000") as reading:
        for number in range(BEFORE_THE_KILL):
            reading.wait_line(rf" m-{number}$")
        mortal.kill_master()
        wait_until(
            lambda: (
                rawrequest.route_of(mortal.namesrv, "KilledTopic") == {mortal.broker_name: {1: mortal.slave.address}}
            ),
            "the route has the slave only",
            timeout=30,
        )
        assert len(reading.lines) <= COUNT  # it had not read everything before
        with java.start("Consumer", *target, "group=LateGroup") as late:
            _, *received_late = late.finish()
        _, *received = reading.finish(200)
    everything = {f"m-{i}" for i in range(COUNT)}
    assert {line.split()[-1] for line in received_late} == everything
    assert {line.split()[-1] for line in received} == everything
