"""Brokers of both kinds for a measurement, and a way to fill them."""

from collections.abc import Mapping
from pathlib import Path

from tests.interop import rawrequest
from tests.interop.java import Java
from tests.interop.ours import OurBroker, OurNameserver
from tests.interop.realrocketmq import RealBroker, RealNameserver
from tests.interop.server import BrokerServer, Server
from tests.interop.waiting import wait_until

SYSTEMS = ("real", "ours")
BODY_SIZE = 1024
TOPIC = "CatchUpTopic"
QUEUES = range(8)
_RECORD_OVERHEAD = 150  # bytes, about: what a record has besides its body
_BATCH = 64
_HEAP = "1g"


def messages_in(megabytes: int) -> int:
    """How many messages fill so much of a commit log."""
    return megabytes * 10**6 // (BODY_SIZE + _RECORD_OVERHEAD)


def nameserver_of(kind: str, java: Java, directory: Path) -> Server:
    return RealNameserver(java, directory) if kind == "real" else OurNameserver(directory)


def broker_of(
    kind: str,
    java: Java,
    directory: Path,
    namesrv: str,
    broker_id: int = 0,
    settings: Mapping[str, object] | None = None,
) -> BrokerServer:
    role = "ASYNC_MASTER"
    if kind == "real":
        return RealBroker(java, directory, namesrv, broker_id=broker_id, role=role, settings=settings, heap=_HEAP)
    return OurBroker(directory, namesrv, broker_id=broker_id, role=role, settings=settings)


def fill(java: Java, master: BrokerServer, messages: int) -> None:
    """Send so many messages, and wait until all are in their queues."""
    options = [f"namesrv={master.namesrv}", f"topic={TOPIC}", f"count={messages}", f"batch={_BATCH}"]
    with java.start("Filler", *options, f"size={BODY_SIZE}", jvm=["-Xmx512m"]) as filler:
        filler.finish(300)
    wait_until(lambda: sum(entries_of(master)) == messages, f"{master.name} has dispatched {messages} messages", 60)


def entries_of(broker: BrokerServer) -> list[int]:
    """How many entries each queue has."""
    return [rawrequest.max_offset(broker.address, TOPIC, queue) for queue in QUEUES]
