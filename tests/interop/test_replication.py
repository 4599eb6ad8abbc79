"""A slave of one kind at a master of the other: the same bytes, the same queues."""

import contextlib
import itertools
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.interop import kinds, rawrequest
from tests.interop.conftest import MIXED_WITH_ALL
from tests.interop.java import Java, Mqadmin
from tests.interop.server import BrokerServer, wait_replicating
from tests.interop.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

TOPIC = "ReplicatedTopic"
QUEUES = range(4)
QUEUE_ENTRY = 20  # bytes
BODY = bytes(range(256)) * 32
SLOW = 120.0  # seconds that a start, a reconnect and two synchronisations may take while others work
COUNT = 200  # of 8 KiB: more than one commit log file
STORED_WITHOUT_SLAVE = {11, 12}  # SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT
NOT_WAITING = "WAIT\x01false\x02"  # the reply does not wait for the slave
DELAYED_ONE = re.compile(r'\b1"?:\s*1\b')  # level 1: one message; in either dialect of integer keys

# Small enough to roll over in the test: a file's blank end is replicated too.
ROLLING = {"mappedFileSizeCommitLog": 2**20, "mappedFileSizeConsumeQueue": 20 * 1000}

# Our slave resumes at a real master in the first test, too; killed ones of ours are also played by every hunt.
KILLED = [pytest.param(one, marks=pytest.mark.long) if one == ("real", "ours") else one for one in MIXED_WITH_ALL]


@attrs.frozen
class Pair:
    master: BrokerServer
    slave: BrokerServer


@pytest.fixture(params=MIXED_WITH_ALL, ids="-".join)
def pair(request: pytest.FixtureRequest, java: Java, tmp_path: Path) -> Iterator[Pair]:
    """(kind of the master and its nameserver, kind of the slave)."""
    master_kind, slave_kind = request.param
    with kinds.nameserver(master_kind, java, tmp_path) as nameserver:
        at = nameserver.address
        with (
            kinds.broker(master_kind, java, tmp_path, at, settings=ROLLING) as master,
            kinds.broker(slave_kind, java, tmp_path, at, broker_id=1, settings=ROLLING) as slave,
        ):
            wait_replicating(master.address, SLOW)
            yield Pair(master, slave)


def test_slave_of_the_other_kind_has_the_masters_bytes_and_queues(pair: Pair) -> None:
    """Live first, every send acknowledged by the slave.

    Then a backlog, fetched after the slave was away.
    """
    assert {_send(pair, number) for number in range(COUNT)} == {rawrequest.SUCCESS}
    _wait_same_queues(pair)
    assert sum(_max_offsets(pair.master)) == COUNT
    _compare_stores(pair)
    assert len(pair.slave.describe().commit_log()) > 1

    pair.slave.stop()
    assert _send(pair, 0) in STORED_WITHOUT_SLAVE
    assert {_send(pair, number, NOT_WAITING) for number in range(1, COUNT)} == {rawrequest.SUCCESS}
    pair.slave.start()
    _wait_same_queues(pair)
    assert sum(_max_offsets(pair.master)) == 2 * COUNT
    _compare_stores(pair)


@pytest.mark.parametrize("pair", KILLED, indirect=True, ids="-".join)
def test_both_are_the_same_after_either_was_killed_under_load(pair: Pair) -> None:
    """kill -9 of the slave, then of the master, while a producer sends.

    The slave's messages are read.
    """
    with _load(pair):
        wait_until(lambda: sum(_max_offsets(pair.master)) >= COUNT, "load", SLOW)
        pair.slave.kill()
        pair.slave.start()
        wait_replicating(pair.master.address, SLOW)
        pair.master.kill()
        pair.master.start()
        wait_replicating(pair.master.address, SLOW)
        before = sum(_max_offsets(pair.master))
        wait_until(lambda: sum(_max_offsets(pair.master)) >= before + COUNT, "load on the master that is back", SLOW)
    _wait_same_queues(pair)
    _compare_stores(pair)
    wait_until(lambda: rawrequest.knows_topic(pair.slave.address, TOPIC), "the slave knows the topic", SLOW)
    answer, bodies = rawrequest.pull(pair.slave.address, TOPIC, 0, 0)
    assert answer.code == rawrequest.SUCCESS, answer
    assert set(bodies) == {BODY}


def test_topics_groups_and_offsets_follow_the_log(pair: Pair, mqadmin: Mqadmin) -> None:
    """A slave asks its master for them every ten seconds.

    For those of delayed messages, too.
    """
    master, slave = pair.master.address, pair.slave.address
    namesrv = pair.master.namesrv
    mqadmin.run(namesrv, "updateTopic", "-b", master, "-t", "SyncedTopic", "-r", "3", "-w", "5")
    mqadmin.run(namesrv, "updateSubGroup", "-b", master, "-g", "synced-group")
    rawrequest.send(master, "SyncedTopic", b"later", properties="DELAY\x011\x02")
    rawrequest.commit_offset(master, "synced-group", "SyncedTopic", 2, 1)
    wait_until(lambda: rawrequest.knows_topic(slave, "SyncedTopic"), "the slave knows the topic", SLOW)
    wait_until(lambda: rawrequest.knows_group(slave, "synced-group"), "the slave knows the group", SLOW)
    wait_until(
        lambda: rawrequest.committed_offset(slave, "synced-group", "SyncedTopic", 2) == 1,
        "the slave has the offset",
        SLOW,
    )
    delays = pair.slave.store / "config" / "delayOffset.json"
    wait_until(lambda: DELAYED_ONE.search(delays.read_text()), "the slave knows that level 1 was delivered", SLOW)
    topics = (pair.slave.store / "config" / "topics.json").read_text()
    assert re.search(r'"readQueueNums":\s*3[^}]*"topicName":\s*"SyncedTopic"[^}]*"writeQueueNums":\s*5', topics), topics


def _send(pair: Pair, number: int, properties: str = "") -> int:
    queue_id = number % len(QUEUES)
    return rawrequest.send(pair.master.address, TOPIC, BODY, queue_id=queue_id, properties=properties).code


@contextlib.contextmanager
def _load(pair: Pair) -> Iterator[None]:
    """Send one message after the other, also while the master is dead."""
    is_over = threading.Event()

    def send() -> None:
        for number in itertools.count():
            with contextlib.suppress(OSError):  # it is dead just now
                _send(pair, number, NOT_WAITING)
            if is_over.wait(0.005):
                return

    sender = threading.Thread(target=send, name="load")
    sender.start()
    try:
        yield
    finally:
        is_over.set()
        sender.join()


def _max_offsets(broker: BrokerServer) -> list[int]:
    return [rawrequest.max_offset(broker.address, TOPIC, queue) for queue in QUEUES]


def _wait_same_queues(pair: Pair) -> None:
    """A real master replies before it enters and pushes a message."""

    def is_same() -> bool:
        master, slave = (rawrequest.runtime_info(one.address) for one in (pair.master, pair.slave))
        return (
            master["commitLogMaxOffset"] == slave["commitLogMaxOffset"]
            and master["dispatchBehindBytes"] == slave["dispatchBehindBytes"] == "0"
            and _max_offsets(pair.master) == _max_offsets(pair.slave)
        )

    wait_until(is_same, "the slave has every queue entry of the master", SLOW)


def _compare_stores(pair: Pair) -> None:
    """Compare the logs from the first byte, and the queues derived from each."""
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
