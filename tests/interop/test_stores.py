"""A store written by one kind of broker and opened by the other.

The writer stopped cleanly, or by kill -9.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.interop import rawrequest
from tests.interop.conftest import MIXED
from tests.interop.java import Java
from tests.interop.ours import OurBroker, OurNameserver
from tests.interop.realrocketmq import RealBroker
from tests.interop.server import BrokerServer
from tests.interop.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPIC = "KeptTopic"
QUEUES = range(4)
COUNT = 400
PADDING = b"." * 6000  # 400 of them fill more than two commit log files
SETTINGS = {
    "mappedFileSizeCommitLog": 2**20,
    "mappedFileSizeConsumeQueue": 20 * 60,  # several files of each queue
    "maxHashSlotNum": 1000,
    "maxIndexNum": 500,  # more than one index file
}


@attrs.frozen
class Kept:
    """A written store, the system that opens it, and the expected content."""

    reader: BrokerServer
    queues: dict[int, list[bytes]]
    ids: dict[bytes, str]
    """Offset message id by body."""


def _broker(kind: str, java: Java, directory: Path, namesrv: str) -> BrokerServer:
    if kind == "real":
        return RealBroker(java, directory, namesrv, role="ASYNC_MASTER", settings=SETTINGS)
    return OurBroker(directory, namesrv, role="ASYNC_MASTER", settings=SETTINGS)


@pytest.fixture(params=["stop", "kill"])
def end(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=MIXED, ids="-".join)
def kept(request: pytest.FixtureRequest, java: Java, tmp_path: Path, end: str) -> Iterator[Kept]:
    """(who writes, who reads).

    The reader runs on the files themselves, moved to its own directory.
    """
    writer_kind, reader_kind = request.param
    with OurNameserver(tmp_path) as nameserver:
        queues: dict[int, list[bytes]] = {queue: [] for queue in QUEUES}
        ids = {}
        with _broker(writer_kind, java, tmp_path / "writer", nameserver.address) as writer:
            for number in range(COUNT):
                body, queue = b"%04d" % number + PADDING, number % len(QUEUES)
                properties = f"KEYS\x01key{number} every\x02TAGS\x01TagA\x02UNIQ_KEY\x01{number:032X}\x02"
                answer = rawrequest.send(writer.address, TOPIC, body, queue_id=queue, properties=properties)
                assert answer.code == rawrequest.SUCCESS
                queues[queue].append(body)
                ids[body] = answer.fields["msgId"]
            wait_until(
                lambda: all(rawrequest.max_offset(writer.address, TOPIC, queue) == COUNT // 4 for queue in QUEUES),
                "the writer has dispatched all",
            )
            if end == "stop":
                writer.stop()
            else:
                writer.kill()
        assert (writer.store / "abort").exists() == (end == "kill")
        reader = _broker(reader_kind, java, tmp_path / "reader", nameserver.address)
        shutil.move(writer.store, reader.store)
        with reader:
            yield Kept(reader, queues, ids)


def test_messages_are_read_by_offset_key_and_id_and_counters_continue(kept: Kept) -> None:
    """store-ha#25, #26: nothing of a killed process is lost, by the page cache."""
    address = kept.reader.address
    for queue, bodies in kept.queues.items():
        assert _all_of(address, queue) == bodies
        assert rawrequest.max_offset(address, TOPIC, queue) == len(bodies)
    for number in range(0, COUNT, 7):
        body = kept.queues[number % 4][number // 4]
        assert rawrequest.query(address, TOPIC, f"key{number}") == [body], f"by key{number}"
        assert rawrequest.query(address, TOPIC, f"{number:032X}") == [body], f"by unique key {number}"
        assert rawrequest.view(address, kept.ids[body]) == [body]
    before = int(rawrequest.runtime_info(address)["commitLogMaxOffset"])
    answer = rawrequest.send(address, TOPIC, b"one more", queue_id=1, properties="KEYS\x01more\x02")
    assert answer.code == rawrequest.SUCCESS
    assert int(answer.fields["queueOffset"]) == COUNT // 4
    assert int(answer.fields["msgId"][-16:], 16) == before
    wait_until(lambda: rawrequest.query(address, TOPIC, "more") == [b"one more"], "the new message is indexed")
    _, bodies = rawrequest.pull(address, TOPIC, 1, COUNT // 4)
    assert bodies == [b"one more"]


@pytest.mark.long
def test_a_store_returned_to_the_kind_of_its_writer_opens(kept: Kept, java: Java, tmp_path: Path, end: str) -> None:
    """What the other kind made of the store, and ended in its turn, opens as well."""
    other = "our" if isinstance(kept.reader, RealBroker) else "real"
    if end == "stop":
        kept.reader.stop()
    else:
        kept.reader.kill()
    again = _broker("ours" if other == "our" else "real", java, tmp_path / "again", kept.reader.namesrv)
    shutil.move(kept.reader.store, again.store)
    with again:
        for queue, bodies in kept.queues.items():
            assert _all_of(again.address, queue) == bodies


def _all_of(address: str, queue: int) -> list[bytes]:
    found: list[bytes] = []
    while True:
        answer, bodies = rawrequest.pull(address, TOPIC, queue, len(found))
        if answer.code != rawrequest.SUCCESS:
            return found
        found += bodies
