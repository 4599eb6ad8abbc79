"""Logs of RocketMQ 5 with topics longer than 127 bytes.

Lengths of these topics have two bytes. A group's name may be that long that its retry topic is. 5.3.3 then writes such
a record, with a magic code of its own; 4.9 has no name for it.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.interop import kinds, rawrequest
from tests.interop.conftest import MIXED_WITH_5
from tests.interop.java import Java
from tests.interop.realrocketmq import SMALL_FILES
from tests.interop.server import BrokerServer, wait_replicating
from tests.interop.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

TOPIC = "ShortTopic"
GROUP = "g" * 125
RETRY_TOPIC = f"%RETRY%{GROUP}"
MAGIC_V2 = struct.pack(">I", 0xDAA320AB)  # that of 4.9's is 0xDAA320A7
MASTERS_OF_5 = [pair for pair in MIXED_WITH_5 if pair[0] == "real5"]


@attrs.frozen
class Pair:
    master: BrokerServer
    slave: BrokerServer

    def end(self, broker: BrokerServer) -> int:
        return int(rawrequest.runtime_info(broker.address)["commitLogMaxOffset"])

    def first_file(self, broker: BrokerServer) -> bytes:
        return broker.describe().commit_log()[0].read_bytes()


@pytest.fixture(params=MASTERS_OF_5, ids="-".join)
def pair(request: pytest.FixtureRequest, java: Java, tmp_path: Path) -> Iterator[Pair]:
    master_kind, slave_kind = request.param
    with kinds.nameserver("real5", java, tmp_path) as nameserver:
        at = nameserver.address
        with (
            kinds.broker(master_kind, java, tmp_path, at, settings=SMALL_FILES) as master,
            kinds.broker(slave_kind, java, tmp_path, at, broker_id=1, settings=SMALL_FILES) as slave,
        ):
            wait_replicating(master.address, 120)
            yield Pair(master, slave)


def test_a_4_9_slave_keeps_the_bytes_but_its_queues_stop_at_such_a_record(pair: Pair) -> None:
    """Class CommitLog of 4.9 logs an invalid magic code, and dispatch stops there.

    4.9.7 does the same.
    """
    first = rawrequest.send(pair.master.address, TOPIC, b"handed back")
    rawrequest.send_back(pair.master.address, GROUP, int(first.fields["msgId"][-16:], 16), 1)
    wait_until(lambda: rawrequest.max_offset(pair.master.address, RETRY_TOPIC, 0) == 1, "it is delivered again")
    assert rawrequest.send(pair.master.address, TOPIC, b"after it").code == rawrequest.SUCCESS
    wait_until(lambda: rawrequest.max_offset(pair.master.address, TOPIC, 0) == 2, "the master's queue")

    wait_until(lambda: pair.end(pair.slave) == pair.end(pair.master), "the slave has all bytes")
    log = pair.first_file(pair.master)
    assert log == pair.first_file(pair.slave)
    (entry,) = (pair.master.store / "consumequeue" / RETRY_TOPIC / "0").iterdir()
    (at,) = struct.unpack_from(">q", entry.read_bytes())
    assert log[at + 4 : at + 8] == MAGIC_V2
    wait_until(
        lambda: int(rawrequest.runtime_info(pair.slave.address)["dispatchBehindBytes"]) == pair.end(pair.slave) - at,
        "the slave has dispatched all before it",
    )
    assert rawrequest.max_offset(pair.slave.address, TOPIC, 0) == 1
