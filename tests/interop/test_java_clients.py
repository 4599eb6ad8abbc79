"""The 4.9.8 Java client, used as its quickstart does, against a cluster."""

from collections import Counter

import pytest

from tests.interop.java import Java
from tests.interop.topology import Cluster

pytestmark = pytest.mark.interop

COUNT = 200


def test_java_consumer_gets_every_message_of_a_java_producer_once(java: Java, shared: Cluster) -> None:
    """The topic does not exist before: it is created by the first send.

    Offsets of each queue count from 0.
    """
    target = [f"namesrv={shared.namesrv}", "topic=QuickstartTopic", f"count={COUNT}"]
    with java.start("Producer", *target) as producer:
        results = [line.split() for line in producer.finish()]
    assert Counter(status for status, *_ in results) == {"SEND_OK": COUNT}
    assert {broker for _, _, broker, *_ in results} == {shared.broker_name}
    queues: dict[str, list[int]] = {}
    for _, _, _, queue, offset, _ in results:
        queues.setdefault(queue, []).append(int(offset))
    assert sorted(queues) == ["0", "1", "2", "3"]
    assert all(offsets == list(range(len(offsets))) for offsets in queues.values())

    with java.start("Consumer", *target, "group=QuickstartGroup", "lingerMillis=500") as consumer:
        started, *received = consumer.finish()
    assert started == "STARTED"
    rows = [line.split() for line in received]
    sent = {(message, queue, offset) for _, message, _, queue, offset, _ in results}
    assert Counter((message, queue, offset) for message, queue, offset, *_ in rows) == Counter(sent)
    assert sorted(row[-1] for row in rows) == sorted(f"m-{i}" for i in range(COUNT))
    assert {host for _, _, _, host, *_ in rows} == {shared.master.address}
    assert {times for *_, times, _ in rows} == {"0"}


def test_java_consumer_resumes_at_the_committed_offset_of_its_group(java: Java, shared: Cluster) -> None:
    """The first consumer commits at shutdown.

    The second, of the same group, sees only what came later.
    """
    target = [f"namesrv={shared.namesrv}", "topic=ResumeTopic"]
    for prefix in ("early", "late"):
        with java.start("Producer", *target, f"prefix={prefix}", "count=20") as producer:
            producer.finish()
        with java.start("Consumer", *target, "group=ResumeGroup", "count=20", "lingerMillis=500") as consumer:
            _, *received = consumer.finish()
        assert sorted(line.split()[-1] for line in received) == sorted(f"{prefix}-{i}" for i in range(20))


def test_java_consumer_with_a_tag_gets_nothing_of_another_tag(java: Java, shared: Cluster) -> None:
    """The broker filters by the tag's hash; our producer program writes TagA only."""
    target = [f"namesrv={shared.namesrv}", "topic=TaggedTopic"]
    with java.start("Producer", *target, "count=8") as producer:
        producer.finish()
    with (
        java.start("Consumer", *target, "group=TagBGroup", "tags=TagB", "timeoutMillis=4000") as other,
        java.start("Consumer", *target, "group=TagAGroup", "tags=TagA || TagC", "count=8") as matching,
    ):
        _, *received = matching.finish()
        assert len(received) == 8
        assert other.wait_exit(30) == 3  # its time ran out
        assert other.lines == ["STARTED"]
