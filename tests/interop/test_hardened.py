"""Our brokers with all switches, and a real one on the other side of the HA link.

Tests compare the bytes, and check what the switches mend.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.interop import rawrequest
from tests.interop.java import Java
from tests.interop.ours import OurBroker, OurNameserver
from tests.interop.realrocketmq import RealBroker
from tests.interop.server import BrokerServer, wait_replicating
from tests.interop.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

TOPIC = "HardenedTopic"
BODY = bytes(range(256)) * 32
COUNT = 150  # of 8 KiB: more than one commit log file
FILE = 2**20
ROLLING = {"mappedFileSizeCommitLog": FILE, "mappedFileSizeConsumeQueue": 20 * 1000}


@attrs.frozen
class Pair:
    """Not started yet."""

    master: BrokerServer
    slave: BrokerServer

    def send(self, count: int, text: bytes = b"") -> set[int]:
        return {rawrequest.send(self.master.address, TOPIC, text + BODY).code for _ in range(count)}

    def end(self, broker: BrokerServer) -> int:
        return int(rawrequest.runtime_info(broker.address)["commitLogMaxOffset"])

    def entries(self, broker: BrokerServer) -> int:
        return rawrequest.max_offset(broker.address, TOPIC, 0)

    def wait_caught_up(self) -> None:
        wait_until(lambda: self.end(self.slave) == self.end(self.master), "the slave's log is as long", 60)
        wait_until(lambda: self.entries(self.slave) == self.entries(self.master), "its queue, too", 60)

    def compare(self, *, first_file: int = 0) -> None:
        """All bytes from a file of the master's on."""
        end = self.end(self.master)
        assert self.end(self.slave) == end
        names = [f"{at:020d}" for at in range(first_file * FILE, end, FILE)]
        assert names
        for name in names:
            ours, theirs = (broker.store / "commitlog" / name for broker in (self.master, self.slave))
            assert ours.read_bytes() == theirs.read_bytes(), f"commit logs differ in {name}"


@pytest.fixture(params=["real slave", "real master"])
def pair(request: pytest.FixtureRequest, java: Java, tmp_path: Path) -> Iterator[Pair]:
    with OurNameserver(tmp_path) as nameserver:
        hardened = {**ROLLING, "profile": "hardened"}
        if request.param == "real slave":
            pair = Pair(
                OurBroker(tmp_path, nameserver.address, settings=hardened),
                RealBroker(java, tmp_path, nameserver.address, broker_id=1, settings=ROLLING),
            )
        else:
            pair = Pair(
                RealBroker(java, tmp_path, nameserver.address, settings=ROLLING),
                OurBroker(tmp_path, nameserver.address, broker_id=1, settings=hardened),
            )
        try:
            yield pair
        finally:
            pair.slave.kill()
            pair.master.kill()


def test_both_have_the_same_log_through_restarts_of_either(pair: Pair) -> None:
    """The log has several files: a real slave gets all of ours.

    A real master gives a slave its last file only.
    """
    pair.master.start()
    pair.send(COUNT)
    pair.slave.start()
    wait_replicating(pair.master.address)
    assert pair.send(COUNT) == {rawrequest.SUCCESS}
    pair.wait_caught_up()
    is_ours = isinstance(pair.master, OurBroker)
    assert (pair.slave.store / "commitlog" / f"{0:020d}").exists() is is_ours
    pair.compare(first_file=0 if is_ours else 2)

    pair.slave.kill()
    assert rawrequest.SUCCESS not in pair.send(10)
    pair.slave.start()
    pair.wait_caught_up()
    pair.master.kill()
    pair.master.start()
    wait_replicating(pair.master.address, 60)
    assert pair.send(10) == {rawrequest.SUCCESS}
    pair.wait_caught_up()
    pair.compare(first_file=0 if is_ours else 2)


def test_a_slave_ahead_of_its_master_does_not_diverge_silently(pair: Pair, tmp_path: Path) -> None:
    """Our slave cuts what its master lost, by asking it.

    Our master refuses a real slave, which can't be told to.
    """
    pair.master.start()
    pair.slave.start()
    wait_replicating(pair.master.address)
    pair.send(5)
    pair.wait_caught_up()
    pair.master.stop()
    shutil.copytree(pair.master.store, tmp_path / "before")
    pair.master.start()
    wait_replicating(pair.master.address, 60)
    assert pair.send(5, b"lost") == {rawrequest.SUCCESS}
    pair.wait_caught_up()
    pair.master.stop()
    shutil.rmtree(pair.master.store)
    shutil.copytree(tmp_path / "before", pair.master.store)
    ahead = (pair.slave.store / "commitlog" / f"{0:020d}").read_bytes()
    pair.master.start()
    pair.send(20, b"other")  # beyond the end of the slave's log

    if isinstance(pair.slave, OurBroker):
        wait_replicating(pair.master.address, 60)
        pair.wait_caught_up()
        pair.compare()
        assert any((pair.slave.store / "diverged").iterdir())
    else:
        ends = [pair.end(pair.slave)]
        assert rawrequest.SUCCESS not in pair.send(30)  # each as long as the slave's next attempts take
        ends.append(pair.end(pair.slave))
        assert ends[0] == ends[1]
        assert (pair.slave.store / "commitlog" / f"{0:020d}").read_bytes() == ahead
