"""Each switch as a pair: the behaviour of 4.9, and that with the switch on.

Real stores, loopback sockets.

The other pairs are in the tests of their modules: `ha/test_slave.py` has those of a slave's pace,
`ha/test_examination.py` what a slave asks its master before it follows, `test_metadata.py` and `test_handback.py` the
consumer offsets.
"""

import sys
from collections.abc import Callable

import pytest
import trio

from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.slave import HaSlave
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.message import NewMessage
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.store.messagestore import MessageStore
from tests.broker.syncmaster import StartMaster

HOST = ("127.0.0.1", 10911)

Opener = Callable[..., TalkingBroker]


# ---- in_sync_replicas ----------------------------------------------------------------------------------------


async def test_in_4_9_one_slave_of_two_is_enough(start_master: StartMaster) -> None:
    master = start_master()
    near, _silent = await master.slave(0), await master.slave(0)
    assert master.send() == []
    await master.report(near, master.end)
    assert [reply.code for reply in master.talk.peer.replies] == [ResponseCode.SUCCESS]


async def test_with_in_sync_replicas_as_many_slaves_must_have_it(start_master: StartMaster) -> None:
    """3: the master and two slaves."""
    master = start_master(in_sync_replicas=3)
    near, far = await master.slave(0), await master.slave(0)
    assert master.send() == []
    await master.report(near, master.end)
    assert master.talk.peer.replies == []
    await master.report(far, master.end)
    assert [reply.code for reply in master.talk.peer.replies] == [ResponseCode.SUCCESS]


async def test_with_in_sync_replicas_fewer_slaves_are_not_available(start_master: StartMaster) -> None:
    """A connection without a report does not count: it may be any program."""
    master = start_master(in_sync_replicas=3)
    await master.slave(0)
    await master.slave()
    (reply,) = master.send()
    assert (reply.code, reply.remark) == (ResponseCode.SLAVE_NOT_AVAILABLE, None)


@pytest.mark.skipif(sys.platform != "linux", reason="one loopback address only")
async def test_two_connections_of_a_slave_are_one_copy(start_master: StartMaster) -> None:
    """A slave returns while the master still has its old connection."""
    master = start_master(in_sync_replicas=3)
    old = await master.slave(0, source="127.0.0.2")
    other = await master.slave(0, source="127.0.0.3")
    assert master.send() == []
    await master.report(old, master.end)
    await master.slave(master.end, source="127.0.0.2")
    assert master.talk.peer.replies == []
    await master.report(other, master.end)
    assert master.talk.peer.replies[0].code == ResponseCode.SUCCESS


@pytest.mark.skipif(sys.platform != "linux", reason="one loopback address only")
async def test_of_two_connections_of_a_slave_the_newer_counts(start_master: StartMaster) -> None:
    """The slave has cut its log in between."""
    master = start_master(in_sync_replicas=2)
    assert master.send()[0].code == ResponseCode.SLAVE_NOT_AVAILABLE
    await master.slave(master.end, source="127.0.0.2")
    await master.slave(0, source="127.0.0.2")
    assert master.ha.copied_offset(2) == 0


async def test_with_in_sync_replicas_of_one_the_master_is_enough(start_master: StartMaster) -> None:
    """As in 5.x, where that is the default."""
    (reply,) = start_master(in_sync_replicas=1).send()
    assert reply.code == ResponseCode.SUCCESS


async def test_with_in_sync_replicas_a_slave_far_behind_does_not_count(start_master: StartMaster) -> None:
    master = start_master(in_sync_replicas=2, ha_slave_fallbehind_max=300)
    slave = await master.slave(0)
    assert master.send() == []
    assert master.send() == []
    (reply,) = master.send()
    assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE
    await master.report(slave, master.end)
    master.talk.peer.replies.clear()
    assert master.send() == []


async def test_with_in_sync_replicas_a_report_beyond_the_log_acknowledges_nothing(start_master: StartMaster) -> None:
    """It comes from a slave ahead of its master, or is forged."""
    master = start_master(in_sync_replicas=2)
    ahead = await master.slave(10**6)
    (reply,) = master.send()
    assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE
    slave = await master.slave(master.end)
    await ahead.stream.aclose()
    await master.recorder.wait_until(lambda: "ha_disconnected" in master.recorder.kinds)
    master.talk.peer.replies.clear()
    assert master.send() == []
    await master.report(slave, master.end)
    assert [reply.code for reply in master.talk.peer.replies] == [ResponseCode.SUCCESS]


# ---- ha_fail_lost_slave_at_once ------------------------------------------------------------------------------


async def test_in_4_9_a_send_whose_slave_is_lost_times_out_without_a_cause(start_master: StartMaster) -> None:
    master = start_master()
    slave = await master.slave(0)
    assert master.send() == []
    await slave.stream.aclose()
    await master.recorder.wait_until(lambda: "ha_disconnected" in master.recorder.kinds)
    assert master.talk.peer.replies == []
    (reply,) = master.late()
    assert (reply.code, reply.remark) == (ResponseCode.FLUSH_SLAVE_TIMEOUT, None)


@pytest.mark.parametrize("copies", [0, 2])
async def test_with_ha_fail_lost_slave_at_once_sends_fail_at_once_with_the_cause(
    start_master: StartMaster, copies: int
) -> None:
    master = start_master(ha_fail_lost_slave_at_once=True, in_sync_replicas=copies)
    slave = await master.slave(0)
    host, port = slave.stream.socket.getsockname()
    assert master.send() == []
    await slave.stream.aclose()
    await master.recorder.wait_until(lambda: bool(master.talk.peer.replies))
    (reply,) = master.talk.peer.replies
    assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE
    assert (reply.remark or "").startswith(f"slave {host}:{port} is lost: ")
    assert {"msgId", "queueOffset"} <= reply.ext_fields.keys()


async def test_a_send_waits_on_while_slaves_enough_are_left(start_master: StartMaster) -> None:
    master = start_master(ha_fail_lost_slave_at_once=True, in_sync_replicas=2)
    near, lost = await master.slave(0), await master.slave(0)
    assert master.send() == []
    await lost.stream.aclose()
    await master.recorder.wait_until(lambda: "ha_disconnected" in master.recorder.kinds)
    assert master.talk.peer.replies == []
    await master.report(near, master.end)
    assert [reply.code for reply in master.talk.peer.replies] == [ResponseCode.SUCCESS]


async def test_a_send_that_needs_two_slaves_fails_with_the_first_that_is_lost(start_master: StartMaster) -> None:
    master = start_master(ha_fail_lost_slave_at_once=True, in_sync_replicas=3)
    _near, lost = await master.slave(0), await master.slave(0)
    assert master.send() == []
    await lost.stream.aclose()
    await master.recorder.wait_until(lambda: bool(master.talk.peer.replies))
    assert [reply.code for reply in master.talk.peer.replies] == [ResponseCode.SLAVE_NOT_AVAILABLE]


async def test_with_ha_fail_lost_slave_at_once_a_timeout_names_the_late_slave(start_master: StartMaster) -> None:
    master = start_master(ha_fail_lost_slave_at_once=True)
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


async def test_in_4_9_a_forged_first_report_acknowledges_unreplicated_messages(start_master: StartMaster) -> None:
    """Scenario 12: for good, even after the forger's end, and with a silent slave."""
    master = start_master()
    stranger = await master.slave(10**12)
    await stranger.stream.aclose()
    await master.recorder.wait_until(lambda: "ha_disconnected" in master.recorder.kinds)
    await master.slave()
    (reply,) = master.send()
    assert reply.code == ResponseCode.SUCCESS


async def test_with_ha_refuse_false_reports_it_is_turned_away(start_master: StartMaster) -> None:
    master = start_master(ha_refuse_false_reports=True)
    stranger = await master.slave()
    await stranger.report(10**12)
    assert await stranger.is_at_end()
    assert master.recorder.reasons("ha_disconnected") == [f"it reported {10**12}, our log ends at 0"]
    await master.slave()
    assert master.send() == []
    (reply,) = master.late()
    assert reply.code == ResponseCode.FLUSH_SLAVE_TIMEOUT


async def test_with_ha_refuse_false_reports_unsent_bytes_are_not_acknowledged(start_master: StartMaster) -> None:
    """A slave that requests from 0 cannot have received all messages before that."""
    master = start_master(ha_refuse_false_reports=True)
    slave = await master.slave(0)
    assert master.ha.is_slave_ok(1, 0)
    master.talk.send("T", WAIT="false")  # not pushed yet
    await slave.report(master.end)
    assert await slave.is_at_end()
    assert master.recorder.reasons("ha_disconnected") == [f"it reported {master.end}, and was sent bytes up to 0 only"]


async def test_in_4_9_a_slave_ahead_is_served_once_the_master_has_passed_it(start_master: StartMaster) -> None:
    """Scenario 16: its bytes below that offset differ, and no log line says so."""
    master = start_master()
    for _ in range(3):
        master.talk.send("T", WAIT="false")
    await master.slave(master.end - 10)
    assert master.recorder.kinds == ["ha_connected", "ha_first_report"]


async def test_with_ha_refuse_false_reports_it_is_turned_away_for_ever(start_master: StartMaster) -> None:
    """The slave cannot have bytes that this master neither had at start nor ever sent.

    This holds for a slave of any make.
    """
    master = start_master(ha_refuse_false_reports=True)
    for _ in range(3):
        master.talk.send("T", WAIT="false")
    slave = await master.slave()
    await slave.report(master.end - 10)
    assert await slave.is_at_end()
    assert master.recorder.reasons("ha_disconnected") == [
        f"it reported {master.end - 10}, but from 0 on our bytes are new and were never sent: its log differs"
    ]


async def test_a_slave_that_was_sent_the_new_bytes_may_reconnect(start_master: StartMaster) -> None:
    """Before and after its master's restart, for that had them then."""
    master = start_master(ha_refuse_false_reports=True)
    for _ in range(3):
        master.talk.send("T", WAIT="false")
    end, first = master.end, await master.slave(0)
    await master.report(first, end)
    await first.stream.aclose()
    await master.recorder.wait_until(lambda: "ha_disconnected" in master.recorder.kinds)
    await master.slave(end)
    master.ha.close()
    master.talk.broker.store.close()
    again = start_master(ha_refuse_false_reports=True)
    assert again.end == end
    await again.slave(end)


# ---- ha_restart_expired_slave, the master's part -------------------------------------------------------------


def fill(store: MessageStore, count: int) -> None:
    for number in range(count):
        store.put(NewMessage("T", 0, bytes([number % 251]) * 1000, HOST, HOST, 1_795_200_000_000))


async def test_in_4_9_a_slave_whose_data_expired_is_fed_heartbeats(start_master: StartMaster) -> None:
    """Scenario 10, store-ha#57."""
    master = start_master(mapped_file_size_commit_log=65_536)
    fill(master.talk.broker.store, 200)
    master.talk.broker.store.log.files.drop_first()
    await master.slave(1000)
    assert master.ha.snapshot()["connections"][0]["state"] == "SUSPEND"


async def test_with_ha_restart_expired_slave_the_master_closes_the_link(start_master: StartMaster) -> None:
    """By the protocol's only means: the link is closed, and the log says why."""
    master = start_master(mapped_file_size_commit_log=65_536, ha_restart_expired_slave=True)
    fill(master.talk.broker.store, 200)
    master.talk.broker.store.log.files.drop_first()
    slave = await master.slave()
    await slave.report(1000)
    assert await slave.is_at_end()
    assert master.recorder.reasons("ha_disconnected") == [
        "it requests bytes from 1000 on, our log begins at 65536: it must start again with an empty log"
    ]


# ---- ha_bootstrap_from_first_byte ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("switch", "files"),
    [pytest.param(False, 1, id="4.9: the last file only"), pytest.param(True, 4, id="with the switch: all of it")],
)
async def test_an_empty_slave_gets_the_expected_log(
    start_master: StartMaster, open_broker: Opener, reactor: Reactor, nursery: trio.Nursery, *, switch: bool, files: int
) -> None:
    """Scenario 9, store-ha#36."""
    master = start_master(mapped_file_size_commit_log=65_536, ha_bootstrap_from_first_byte=switch)
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
