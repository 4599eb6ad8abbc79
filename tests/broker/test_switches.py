"""Each switch as a pair: the behaviour of 4.9, and that with the switch on.

Real stores, loopback sockets.

The other pairs are in the tests of their modules: `ha/test_slave.py` has those of a slave's pace,
`ha/test_examination.py` what a slave asks its master before it follows, `test_metadata.py` and `test_handback.py` the
consumer offsets.
"""

import functools
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import attrs
import pytest
import trio

from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.master import HaMaster
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.slave import HaSlave
from rmqlab.broker.ha.testing import Recorder
from rmqlab.broker.testing import TalkingBroker, send_fields
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.message import NewMessage
from rmqlab.runtime.reactor import Reactor, open_reactor
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import PutStatus

HOST = ("127.0.0.1", 10911)

Opener = Callable[..., TalkingBroker]


@attrs.define
class Slave:
    """A slave under the test's control."""

    stream: trio.SocketStream

    async def report(self, offset: int) -> None:
        await self.stream.send_all(struct.pack(">q", offset))

    async def is_at_end(self) -> bool:
        """Read to the end of the stream."""
        try:
            while await self.stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass
        return True


@attrs.define
class Master:
    """A sync master that replicates over real sockets, and is talked to without."""

    talk: TalkingBroker
    ha: HaMaster
    recorder: Recorder
    address: tuple[str, int]
    slaves: list[trio.SocketStream] = attrs.field(factory=list)

    @property
    def end(self) -> int:
        return self.talk.broker.store.max_commit_log_offset

    async def slave(self, first_report: int | None = None) -> Slave:
        """Connect one; with a first report, wait until it was taken."""
        known = self.recorder.kinds.count("ha_connected")
        slave = Slave(await trio.open_tcp_stream(*self.address))
        self.slaves.append(slave.stream)
        await self.recorder.wait_until(lambda: self.recorder.kinds.count("ha_connected") > known)
        if first_report is not None:
            await self.report(slave, first_report)
        return slave

    async def report(self, slave: Slave, offset: int) -> None:
        """Let a slave report, and wait until the master knows."""
        host, port = slave.stream.socket.getsockname()
        await slave.report(offset)
        await self.recorder.wait_until(lambda: self._ack_of(f"{host}:{port}") == offset)

    def _ack_of(self, peer: str) -> int:
        acks = {one["address"]: one["slave_ack_offset"] for one in self.ha.snapshot()["connections"]}
        return int(acks.get(peer, -1))

    def send(self) -> list[Command]:
        """Send a message; its replies so far."""
        replies = self.talk.exchange(RequestCode.SEND_MESSAGE_V2, send_fields("T"))
        self.ha.push()
        return replies

    def late(self) -> list[Command]:
        """Let the slave's time be over, and give all replies there are."""
        self.talk.clock.advance(3)
        self.talk.broker.slave_waits.expire(self.talk.clock.now(), self.ha)
        return self.talk.peer.replies


@pytest.fixture
async def reactor() -> AsyncIterator[Reactor]:
    async with open_reactor() as made:
        yield made


StartMaster = Callable[..., Master]


@pytest.fixture
async def start(reactor: Reactor, open_broker: Opener) -> AsyncIterator[StartMaster]:
    started: list[Master] = []

    def start(name: str = "master", **switches: Any) -> Master:
        talk = open_broker(name, broker_role="SYNC_MASTER", **switches)
        broker, recorder = talk.broker, Recorder()

        def acked(offset: int) -> None:
            broker.slave_waits.advance(offset)
            recorder.changed()

        ha = HaMaster(
            reactor,
            broker.store,
            broker.settings.ha,
            on_ack=acked,
            on_lost=functools.partial(broker.slave_waits.fail, PutStatus.SLAVE_NOT_AVAILABLE),
            emit=recorder.emit,
        )
        broker.ha_master = ha
        started.append(Master(talk, ha, recorder, ha.listen("127.0.0.1", 0)))
        return started[-1]

    yield start
    for master in started:
        master.ha.close()
        for stream in master.slaves:
            await trio.aclose_forcefully(stream)


# ---- in_sync_replicas ----------------------------------------------------------------------------------------


async def test_in_4_9_one_slave_of_two_is_enough(start: StartMaster) -> None:
    master = start()
    near, _silent = await master.slave(0), await master.slave(0)
    assert master.send() == []
    await master.report(near, master.end)
    assert [reply.code for reply in master.talk.peer.replies] == [ResponseCode.SUCCESS]


async def test_with_in_sync_replicas_as_many_slaves_must_have_it(start: StartMaster) -> None:
    """3: the master and two slaves."""
    master = start(in_sync_replicas=3)
    near, far = await master.slave(0), await master.slave(0)
    assert master.send() == []
    await master.report(near, master.end)
    assert master.talk.peer.replies == []
    await master.report(far, master.end)
    assert [reply.code for reply in master.talk.peer.replies] == [ResponseCode.SUCCESS]


async def test_with_in_sync_replicas_fewer_slaves_are_not_available(start: StartMaster) -> None:
    """A connection without a report does not count: it may be any program."""
    master = start(in_sync_replicas=3)
    await master.slave(0)
    await master.slave()
    (reply,) = master.send()
    assert (reply.code, reply.remark) == (ResponseCode.SLAVE_NOT_AVAILABLE, None)


async def test_with_in_sync_replicas_of_one_the_master_is_enough(start: StartMaster) -> None:
    """As in 5.x, where that is the default."""
    (reply,) = start(in_sync_replicas=1).send()
    assert reply.code == ResponseCode.SUCCESS


async def test_with_in_sync_replicas_a_slave_far_behind_does_not_count(start: StartMaster) -> None:
    master = start(in_sync_replicas=2, ha_slave_fallbehind_max=300)
    slave = await master.slave(0)
    assert master.send() == []
    assert master.send() == []
    (reply,) = master.send()
    assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE
    await master.report(slave, master.end)
    master.talk.peer.replies.clear()
    assert master.send() == []


# ---- ha_fail_lost_slave_at_once ------------------------------------------------------------------------------


async def test_in_4_9_a_send_whose_slave_is_lost_times_out_without_a_cause(start: StartMaster) -> None:
    master = start()
    slave = await master.slave(0)
    assert master.send() == []
    await slave.stream.aclose()
    await master.recorder.wait_until(lambda: "ha_disconnected" in master.recorder.kinds)
    assert master.talk.peer.replies == []
    (reply,) = master.late()
    assert (reply.code, reply.remark) == (ResponseCode.FLUSH_SLAVE_TIMEOUT, None)


@pytest.mark.parametrize("copies", [0, 2])
async def test_with_ha_fail_lost_slave_at_once_it_is_told_at_once_and_why(start: StartMaster, copies: int) -> None:
    master = start(ha_fail_lost_slave_at_once=True, in_sync_replicas=copies)
    slave = await master.slave(0)
    host, port = slave.stream.socket.getsockname()
    assert master.send() == []
    await slave.stream.aclose()
    await master.recorder.wait_until(lambda: bool(master.talk.peer.replies))
    (reply,) = master.talk.peer.replies
    assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE
    assert (reply.remark or "").startswith(f"slave {host}:{port} is lost: ")
    assert {"msgId", "queueOffset"} <= reply.ext_fields.keys()


async def test_a_send_waits_on_while_slaves_enough_are_left(start: StartMaster) -> None:
    master = start(ha_fail_lost_slave_at_once=True, in_sync_replicas=2)
    near, lost = await master.slave(0), await master.slave(0)
    assert master.send() == []
    await lost.stream.aclose()
    await master.recorder.wait_until(lambda: "ha_disconnected" in master.recorder.kinds)
    assert master.talk.peer.replies == []
    await master.report(near, master.end)
    assert [reply.code for reply in master.talk.peer.replies] == [ResponseCode.SUCCESS]


async def test_with_ha_fail_lost_slave_at_once_a_time_out_names_who_is_late(start: StartMaster) -> None:
    master = start(ha_fail_lost_slave_at_once=True)
    (reply,) = master.send()
    assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE
    assert (reply.remark or "").endswith("no slave is connected")
    slave = await master.slave(0)
    host, port = slave.stream.socket.getsockname()
    assert master.send() == []
    reply = master.late()[-1]
    assert reply.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    assert reply.remark == (
        f"the record ends at {master.end}, 1 to acknowledge it: slave {host}:{port} has acknowledged up to 0"
    )


# ---- ha_refuse_false_reports ---------------------------------------------------------------------------------


async def test_in_4_9_a_forged_first_report_acknowledges_what_nobody_has(start: StartMaster) -> None:
    """Scenario 12: for good, even after the forger's end, and with a silent slave."""
    master = start()
    stranger = await master.slave(10**12)
    await stranger.stream.aclose()
    await master.recorder.wait_until(lambda: "ha_disconnected" in master.recorder.kinds)
    await master.slave()
    (reply,) = master.send()
    assert reply.code == ResponseCode.SUCCESS


async def test_with_ha_refuse_false_reports_it_is_turned_away(start: StartMaster) -> None:
    master = start(ha_refuse_false_reports=True)
    stranger = await master.slave()
    await stranger.report(10**12)
    assert await stranger.is_at_end()
    assert master.recorder.reasons("ha_disconnected") == [f"it reported {10**12}, our log ends at 0"]
    await master.slave()
    assert master.send() == []
    (reply,) = master.late()
    assert reply.code == ResponseCode.FLUSH_SLAVE_TIMEOUT


async def test_with_ha_refuse_false_reports_nobody_acknowledges_what_it_was_not_sent(start: StartMaster) -> None:
    """A slave that requests from 0 cannot have received all messages before that."""
    master = start(ha_refuse_false_reports=True)
    slave = await master.slave(0)
    assert master.ha.is_slave_ok(1)
    master.talk.send("T", WAIT="false")  # not pushed yet
    await slave.report(master.end)
    assert await slave.is_at_end()
    assert master.recorder.reasons("ha_disconnected") == [f"it reported {master.end}, and was sent bytes up to 0 only"]


async def test_in_4_9_a_slave_ahead_is_served_once_the_master_has_passed_it(start: StartMaster) -> None:
    """Scenario 16: its bytes below that offset differ, and no log line says so."""
    master = start()
    for _ in range(3):
        master.talk.send("T", WAIT="false")
    await master.slave(master.end - 10)
    assert master.recorder.kinds == ["ha_connected", "ha_first_report"]


async def test_with_ha_refuse_false_reports_it_is_turned_away_for_ever(start: StartMaster) -> None:
    """The slave cannot have bytes that this master neither had at start nor ever sent.

    This holds for a slave of any make.
    """
    master = start(ha_refuse_false_reports=True)
    for _ in range(3):
        master.talk.send("T", WAIT="false")
    slave = await master.slave()
    await slave.report(master.end - 10)
    assert await slave.is_at_end()
    assert master.recorder.reasons("ha_disconnected") == [
        f"it reported {master.end - 10}, but from 0 on our bytes are new and were never sent: its log differs"
    ]


async def test_a_slave_that_was_sent_the_new_bytes_may_come_back(start: StartMaster) -> None:
    """Before and after its master's restart, for that had them then."""
    master = start(ha_refuse_false_reports=True)
    for _ in range(3):
        master.talk.send("T", WAIT="false")
    end, first = master.end, await master.slave(0)
    await master.report(first, end)
    await first.stream.aclose()
    await master.recorder.wait_until(lambda: "ha_disconnected" in master.recorder.kinds)
    await master.slave(end)
    master.ha.close()
    master.talk.broker.store.close()
    again = start(ha_refuse_false_reports=True)
    assert again.end == end
    await again.slave(end)


# ---- ha_restart_expired_slave, the master's part -------------------------------------------------------------


def fill(store: MessageStore, count: int) -> None:
    for number in range(count):
        store.put(NewMessage("T", 0, bytes([number % 251]) * 1000, HOST, HOST, 1_795_200_000_000))


async def test_in_4_9_a_slave_whose_data_expired_is_fed_heartbeats(start: StartMaster) -> None:
    """Scenario 10, store-ha#57."""
    master = start(mapped_file_size_commit_log=65_536)
    fill(master.talk.broker.store, 200)
    master.talk.broker.store.log.files.drop_first()
    await master.slave(1000)
    assert master.ha.snapshot()["connections"][0]["state"] == "SUSPEND"


async def test_with_ha_restart_expired_slave_it_is_told_to_start_anew(start: StartMaster) -> None:
    """By the protocol's only means: the link is closed, and the log says why."""
    master = start(mapped_file_size_commit_log=65_536, ha_restart_expired_slave=True)
    fill(master.talk.broker.store, 200)
    master.talk.broker.store.log.files.drop_first()
    slave = await master.slave()
    await slave.report(1000)
    assert await slave.is_at_end()
    assert master.recorder.reasons("ha_disconnected") == [
        "it wants bytes from 1000 on, our log begins at 65536: it has to start anew"
    ]


# ---- ha_bootstrap_from_first_byte ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("switch", "files"),
    [pytest.param(False, 1, id="4.9: the last file only"), pytest.param(True, 4, id="with the switch: all of it")],
)
async def test_what_an_empty_slave_gets(
    start: StartMaster, open_broker: Opener, reactor: Reactor, nursery: trio.Nursery, *, switch: bool, files: int
) -> None:
    """Scenario 9, store-ha#36."""
    master = start(mapped_file_size_commit_log=65_536, ha_bootstrap_from_first_byte=switch)
    source = master.talk.broker.store
    fill(source, 200)
    copy = open_broker("slave", broker_role="SLAVE", broker_id=1, mapped_file_size_commit_log=65_536).broker.store
    settings = HaSettings(ha_report_at_once=True, ha_master_address="{}:{}".format(*master.address))

    def received() -> None:
        copy.dispatch()
        master.recorder.changed()

    slave = HaSlave(
        reactor, copy, settings, KnownMaster.from_settings(settings), on_received=received, emit=master.recorder.emit
    )
    nursery.start_soon(slave.run_forever)
    with trio.fail_after(30):
        await master.recorder.wait_until(lambda: copy.max_commit_log_offset == master.end)
    assert len(copy.log.files.files) == files
    assert copy.max_queue_offset("T", 0) == 200
    assert (copy.min_queue_offset("T", 0) == 0) is switch
    nursery.cancel_scope.cancel()
