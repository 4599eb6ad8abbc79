"""Brokers that share a DLedger log: elections, sends, reads, take-overs."""

import pathlib
import shutil
from functools import partial

import pytest
import trio
import trio.testing

from rmqlab.remoting.codes import ResponseCode
from tests.broker.brokerprocess import HOSTS
from tests.broker.dledger.conftest import PEERS, Trio

ALL = ("n0", "n1", "n2")


@pytest.fixture(autouse=True)
def clock(fast_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    fast_clock.rate = 10.0
    return fast_clock


async def test_a_group_elects_a_master_and_stores_what_a_quorum_has(group: Trio) -> None:
    """dledger#52, #54, #55"""
    await group.start(*ALL)
    leader = await group.leader()
    for number in range(20):
        assert (await group.send(leader, b"message %d" % number)).code == ResponseCode.SUCCESS
    await group.all_dispatched()
    pulls = [await group.pull(peer) for peer in ALL]
    assert pulls[0].body == pulls[1].body == pulls[2].body
    assert {pull.ext_fields["maxOffset"] for pull in pulls} == {"20"}
    follower = next(peer for peer in ALL if peer != leader)
    assert (await group.send(follower, b"no")).code == ResponseCode.SERVICE_NOT_AVAILABLE
    await group.stop()
    logs = [group.world.tmp_path / peer / f"dledger-{peer}" / "data" / f"{0:020d}" for peer in ALL]
    assert logs[0].read_bytes() == logs[1].read_bytes() == logs[2].read_bytes()


@pytest.mark.parametrize("settings", [{}, {"dleger_ack_after_sync": "true"}], ids=["4.9", "hardened"])
async def test_another_member_becomes_leader_and_the_old_leader_follows_it(
    group: Trio, settings: dict[str, str]
) -> None:
    """dledger#41, #53: nothing is lost, and queues continue where they ended."""
    await group.start(*ALL, **settings)
    old = await group.leader()
    for number in range(10):
        assert (await group.send(old, b"%d" % number)).code == ResponseCode.SUCCESS
    await group.stop(old)
    new = await group.leader()
    assert new != old
    for number in range(10, 20):
        assert (await group.send(new, b"%d" % number)).code == ResponseCode.SUCCESS
    await group.start(old, **settings)
    await group.all_dispatched()
    pulls = [await group.pull(peer) for peer in ALL]
    assert pulls[0].body == pulls[1].body == pulls[2].body
    assert pulls[0].ext_fields["maxOffset"] == "20"
    assert group.snapshot(old)["role"] == "SLAVE"


async def test_a_leader_without_a_quorum_acknowledges_nothing(group: Trio) -> None:
    """dledger#40, #54: the send fails after 2.5 s; the leader resigns later."""
    await group.start(*ALL)
    leader = await group.leader()
    assert (await group.send(leader, b"stored")).code == ResponseCode.SUCCESS
    await group.stop(*(peer for peer in ALL if peer != leader))
    refused = await group.send(leader, b"alone")
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "WAIT_QUORUM_ACK_TIMEOUT" in (refused.remark or "")
    assert (await group.pull(leader)).ext_fields["maxOffset"] == "1"
    await group.until(lambda: group.snapshot(leader)["role"] == "SLAVE")


async def test_delayed_messages_are_delivered_once_by_one_leader_after_the_other(group: Trio) -> None:
    """dledger#52: a new leader continues at the offsets that it copied."""
    await group.start(*ALL)
    old = await group.leader()
    assert (await group.send(old, b"first", DELAY="1")).code == ResponseCode.SUCCESS
    files = [group.world.tmp_path / peer / "config" / "delayOffset.json" for peer in ALL if peer != old]
    await group.until(lambda: all(file.exists() and b"1:1" in squeezed(file) for file in files))
    await group.stop(old)
    new = await group.leader()
    assert (await group.send(new, b"second", DELAY="1")).code == ResponseCode.SUCCESS
    await group.until(lambda: group.snapshot(new)["delayed"]["1"] == {"delivered": 2, "end": 2})
    pulled = await group.pull(new)
    assert pulled.ext_fields["maxOffset"] == "2"


def squeezed(file: pathlib.Path) -> bytes:
    return file.read_bytes().translate(None, b' \t\n"')


async def test_a_wiped_member_gets_log_and_queues_again(group: Trio) -> None:
    """dledger#33, #46: from the next append on."""
    await group.start(*ALL)
    leader = await group.leader()
    wiped = next(peer for peer in ALL if peer != leader)
    for number in range(40):
        assert (await group.send(leader, bytes([number]) * 30_000)).code == ResponseCode.SUCCESS
    await group.stop(wiped)
    shutil.rmtree(group.world.tmp_path / wiped)
    await group.start(wiped)
    await group.send(leader, b"one more")  # a leader without anything to push compares nothing
    await group.all_dispatched()
    assert (await group.pull(wiped, 30)).body == (await group.pull(leader, 30)).body


async def test_a_member_whose_next_message_has_expired_begins_where_its_leader_begins(group: Trio) -> None:
    """dledger#60: log, queues and offsets are those of the leader."""
    await group.start(*ALL)
    leader = await group.leader()
    assert (await group.send(leader, b"old")).code == ResponseCode.SUCCESS
    await group.all_dispatched()
    behind, other = (peer for peer in ALL if peer != leader)
    await group.stop(behind)
    for number in range(40):
        assert (await group.send(leader, bytes([number]) * 60_000)).code == ResponseCode.SUCCESS
    await group.stop(leader, other)
    for peer in (leader, other):
        (group.world.tmp_path / peer / f"dledger-{peer}" / "data" / f"{0:020d}").unlink()
    await group.start(leader, other)
    leader = await group.leader()
    await group.start(behind)
    assert (await group.send(leader, b"new")).code == ResponseCode.SUCCESS
    await group.all_dispatched()
    begins = {group.snapshot(peer)["dledger"]["begin_index"] for peer in ALL}
    assert len(begins) == 1
    assert min(begins) > 1
    ends = [(await group.pull(peer, 1)).ext_fields for peer in (leader, behind)]
    assert [(end["minOffset"], end["maxOffset"]) for end in ends] == [(str(min(begins)), "42")] * 2
    assert (await group.pull(behind, 30)).body == (await group.pull(leader, 30)).body != b""


async def test_lists_of_peers_that_differ_are_named(group: Trio, caplog: pytest.LogCaptureFixture) -> None:
    """Issue 16, "Bad input": each member logs it once, and its snapshot has it."""
    other = PEERS.replace(f"n0-{HOSTS[0]}", f"n9-{HOSTS[0]}")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(group.start, "n1")
        nursery.start_soon(partial(group.start, "n2", d_leger_peers=other))
    await group.until(lambda: group.snapshot("n1")["dledger"]["peer_faults"])
    await group.until(lambda: group.snapshot("n2")["dledger"]["peer_faults"])
    fault = group.snapshot("n1")["dledger"]["peer_faults"]["n2"]
    there = ";".join(sorted(other.split(";")))
    assert fault == f"d_leger_peers of n2 differs: '{there}' there, '{PEERS}' here; expected one list on all members"
    assert [record.message for record in caplog.records].count(fault) == 1
