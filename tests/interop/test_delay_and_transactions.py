"""Delayed and transactional messages of the 4.9.8 Java client, at a lone master."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqlab.remoting.message import decode_message
from tests.interop.conftest import SYSTEMS
from tests.interop.java import Java
from tests.interop.ours import OurBroker, OurNameserver
from tests.interop.realrocketmq import SMALL_FILES, RealBroker, RealNameserver
from tests.interop.server import BrokerServer

pytestmark = pytest.mark.interop

OFTEN = {"transactionCheckInterval": 3000, "transactionTimeOut": 1000}
LATE_MILLIS = 4000
"""RocketMQ looks every 100 ms; a busy machine takes its time."""


@pytest.fixture(params=SYSTEMS)
def master(request: pytest.FixtureRequest, java: Java, tmp_path: Path) -> Iterator[BrokerServer]:
    """A master without a slave that checks transactions often."""
    settings = {**SMALL_FILES, **OFTEN}
    with RealNameserver(java, tmp_path) if request.param == "real" else OurNameserver(tmp_path) as nameserver:
        broker: BrokerServer
        if request.param == "real":
            broker = RealBroker(java, tmp_path, nameserver.address, role="ASYNC_MASTER", settings=settings)
        else:
            broker = OurBroker(tmp_path, nameserver.address, role="ASYNC_MASTER", settings=settings)
        with broker:
            yield broker


def consumed(java: Java, master: BrokerServer, topic: str, count: int) -> list[str]:
    """Bodies that a new group gets, with what comes in half a second more."""
    target = [f"namesrv={master.namesrv}", f"topic={topic}", f"group={topic}-readers", f"count={count}"]
    with java.start("Consumer", *target, "lingerMillis=500") as consumer:
        _, *received = consumer.finish()
    return sorted(line.split()[-1] for line in received)


def waits(master: BrokerServer, topic: str) -> list[int]:
    """Return the ms between both storings of each delayed message.

    Source: the commit log's first file.
    """
    raw = min((master.store / "commitlog").iterdir()).read_bytes()
    stored_at: dict[str, list[int]] = {}
    at = 0
    while any(raw[at : at + 4]):
        record = decode_message(raw, at)
        if topic in (record.topic, record.properties.get("REAL_TOPIC")):
            stored_at.setdefault(record.properties["UNIQ_KEY"], []).append(record.store_timestamp)
        at += record.store_size
    return [delivered - waiting for waiting, delivered in stored_at.values()]


@pytest.mark.long
@pytest.mark.parametrize(("level", "seconds"), [(1, 1), (2, 5)])
def test_delayed_messages_are_delivered_once_each_when_due(
    java: Java, master: BrokerServer, level: int, seconds: int
) -> None:
    """broker-requests#21."""
    target = [f"namesrv={master.namesrv}", "topic=DelayTopic", "count=10", f"delayLevel={level}"]
    with java.start("Producer", *target) as producer:
        assert [line for line in producer.finish() if line.startswith("FAILED")] == []
    assert consumed(java, master, "DelayTopic", 10) == [f"m-{i}" for i in range(10)]
    waited = waits(master, "DelayTopic")
    assert len(waited) == 10
    assert all(seconds * 1000 <= millis < seconds * 1000 + LATE_MILLIS for millis in waited)


def test_transactions_end_as_their_producer_says_at_once_or_when_it_is_asked(java: Java, master: BrokerServer) -> None:
    """broker-requests#49 to #52: committed is received once, rolled back never."""
    outcomes = ["commit", "rollback", "late-commit", "late-rollback", "slow-commit"]
    target = [f"namesrv={master.namesrv}", "topic=TransactionTopic", f"outcomes={','.join(outcomes)}", "checks=4"]
    with java.start("TransactionProducer", *target) as producer:
        lines = [line.split() for line in producer.finish()]
    states = {line[1]: line[2] for line in lines if line[0] == "SENT"}
    assert [states[outcome] for outcome in outcomes] == ["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", *["UNKNOW"] * 3]
    checks = sorted((line[1], line[2], line[4]) for line in lines if line[0] == "CHECKED")
    assert checks == [
        ("late-commit", "TransactionTopic", "1"),
        ("late-rollback", "TransactionTopic", "1"),
        ("slow-commit", "TransactionTopic", "1"),
        ("slow-commit", "TransactionTopic", "2"),
    ]
    assert consumed(java, master, "TransactionTopic", 3) == ["commit", "late-commit", "slow-commit"]
