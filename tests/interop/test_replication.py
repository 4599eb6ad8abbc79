"""A slave of one kind at a master of the other: the same bytes, the same queues."""

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.interop import rawrequest
from tests.interop.conftest import MIXED
from tests.interop.java import Java
from tests.interop.ours import OurBroker, OurNameserver
from tests.interop.realrocketmq import RealBroker, RealNameserver
from tests.interop.server import BrokerServer, wait_replicating
from tests.interop.waiting import wait_until

pytestmark = pytest.mark.interop

TOPIC = "ReplicatedTopic"
QUEUES = range(4)
QUEUE_ENTRY = 20  # bytes
BODY = bytes(range(256)) * 32
COUNT = 200  # of 8 KiB: more than one commit log file

# Small enough to roll over in the test: a file's blank end is replicated too.
ROLLING = {"mappedFileSizeCommitLog": 2**20, "mappedFileSizeConsumeQueue": 20 * 1000}


@attrs.frozen
class Pair:
    master: BrokerServer
    slave: BrokerServer


@pytest.fixture(params=MIXED, ids="-".join)
def pair(request: pytest.FixtureRequest, java: Java, tmp_path: Path) -> Iterator[Pair]:
    """(kind of the master and its nameserver, kind of the slave)."""
    master_kind, slave_kind = request.param
    with RealNameserver(java, tmp_path) if master_kind == "real" else OurNameserver(tmp_path) as nameserver:

        def broker(kind: str, broker_id: int) -> BrokerServer:
            if kind == "real":
                return RealBroker(java, tmp_path, nameserver.address, broker_id=broker_id, settings=ROLLING)
            return OurBroker(tmp_path, nameserver.address, broker_id=broker_id, settings=ROLLING)

        with broker(master_kind, 0) as master, broker(slave_kind, 1) as slave:
            wait_replicating(master.address)
            yield Pair(master, slave)


def test_slave_of_the_other_kind_has_the_masters_bytes_and_queues(pair: Pair) -> None:
    """Live first, every send acknowledged by the slave; then a backlog, fetched after the slave was away."""
    assert {_send(pair, number) for number in range(COUNT)} == {rawrequest.SUCCESS}
    _wait_same_queues(pair)
    _compare_stores(pair)
    assert len(pair.slave.describe().commit_log()) > 1

    pair.slave.stop()
    assert rawrequest.SUCCESS not in {_send(pair, number) for number in range(COUNT)}
    pair.slave.start()
    _wait_same_queues(pair)
    _compare_stores(pair)


def _send(pair: Pair, number: int) -> int:
    return rawrequest.send(pair.master.address, TOPIC, BODY, queue_id=number % len(QUEUES)).code


def _max_offsets(broker: BrokerServer) -> list[int]:
    return [rawrequest.max_offset(broker.address, TOPIC, queue) for queue in QUEUES]


def _wait_same_queues(pair: Pair) -> None:
    wanted = _max_offsets(pair.master)
    assert sum(wanted) % COUNT == 0
    wait_until(lambda: _max_offsets(pair.slave) == wanted, "the slave has every queue entry of the master", 40)


def _compare_stores(pair: Pair) -> None:
    """The logs from the first byte on, and what each side derived from its own: the queues."""
    master, slave = pair.master.describe(), pair.slave.describe()
    # Both allocate files ahead, each in its own time: those that only one side has are empty.
    for ours, theirs in zip(master.commit_log(), slave.commit_log(), strict=False):
        assert ours.name == theirs.name
        assert ours.read_bytes() == theirs.read_bytes(), f"commit logs differ in {ours.name}"
    for queue, entries in zip(QUEUES, _max_offsets(pair.master), strict=True):
        assert _queue_bytes(master.store, queue, entries) == _queue_bytes(slave.store, queue, entries)


def _queue_bytes(store: Path, queue: int, entries: int) -> bytes:
    files = sorted((store / "consumequeue" / TOPIC / str(queue)).iterdir())
    data = b"".join(file.read_bytes() for file in files)[: entries * QUEUE_ENTRY]
    assert len(data) == entries * QUEUE_ENTRY
    return data
