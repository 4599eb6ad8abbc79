"""DLedger groups of our brokers and real ones (4.9.7), in any mixture."""

import shutil
from pathlib import Path

import pytest

from tests.interop import kinds, rawrequest
from tests.interop.java import Java
from tests.interop.ledgergroup import FILES, LedgerGroup, ledger_group
from tests.interop.server import BROKER_NAME

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

MIXTURES = [("ours", "ours", "real"), ("real", "real", "ours")]
ALL = ("n0", "n1", "n2")
MOST_TURNS = 12
"""Chance elects; two elections in each turn, so each kind leads well before."""


def send_some(group: LedgerGroup, leader: str, *bodies: bytes) -> None:
    assert [group.try_send(leader, body) for body in bodies] == [rawrequest.SUCCESS] * len(bodies)


@pytest.mark.parametrize("member_kinds", MIXTURES, ids="-".join)
def test_each_member_leads_in_turn_and_all_have_the_same_entries(
    member_kinds: tuple[str, ...], java: Java, tmp_path: Path
) -> None:
    """dledger#41: kill -9 of each leader; entries are equal byte for byte."""
    with ledger_group(java, tmp_path, member_kinds) as group:
        group.start(*ALL)
        led: set[str] = set()
        sent: list[bytes] = []
        for turn in range(MOST_TURNS):
            if turn > 1 and led == set(member_kinds):
                break
            leader = group.leader()
            led.add(group.kinds[leader])
            bodies = [b"%d of turn %d" % (number, turn) + bytes(20_000) for number in range(30)]
            send_some(group, leader, *bodies)
            sent += bodies
            group.kill(leader)
            second = group.leader()
            led.add(group.kinds[second])
            send_some(group, second, b"without %s" % leader.encode())
            sent.append(b"without %s" % leader.encode())
            group.start(leader)
            group.wait_same()
        assert led == set(member_kinds)
        for peer in ALL:
            assert [body for body in group.bodies(peer) if b"leader?" not in body] == sent
        group.stop(*ALL)
        assert group.entries("n0") == group.entries("n1") == group.entries("n2")
        assert len(group.entries("n0")) > 2**20


def test_a_wiped_member_of_either_kind_gets_the_whole_log(java: Java, tmp_path: Path) -> None:
    """dledger#33, #46: a follower without files, at whichever leader."""
    with ledger_group(java, tmp_path, ("ours", "real", "ours")) as group:
        group.start(*ALL)
        for wiped in ("n1", "n0"):
            leader = group.leader()
            send_some(group, leader, *(bytes([number]) * 20_000 for number in range(60)))
            group.kill(wiped)
            shutil.rmtree(tmp_path / wiped / "store")
            leader = group.leader()
            send_some(group, leader, b"without it")
            group.start(wiped)
            send_some(group, group.leader(), b"a leader with nothing to push compares nothing")
            group.wait_same()
            assert group.bodies(wiped) == group.bodies(leader)
        group.stop(*ALL)
        assert group.entries("n0") == group.entries("n1") == group.entries("n2")


def test_files_are_read_by_the_other_kind(java: Java, tmp_path: Path) -> None:
    """dledger#1 to #6, #48 to #50: all members stop, and start on each other's stores."""
    with ledger_group(java, tmp_path, ("ours", "real", "ours")) as group:
        group.start(*ALL)
        leader = group.leader()
        send_some(group, leader, *(bytes([number]) * 20_000 for number in range(120)))
        group.wait_same()
        before = group.bodies(leader)
        group.stop(*ALL)
        for peer, kind in [*group.kinds.items()]:
            group.put(peer, "real" if kind == "ours" else "ours")
        group.start(*ALL)
        send_some(group, group.leader(), b"after the exchange")
        group.wait_same()
        for peer in ALL:
            bodies = group.bodies(peer)
            assert bodies[: len(before)] == before
            assert bodies[-1] == b"after the exchange"
        group.stop(*ALL)
        assert group.entries("n0") == group.entries("n1") == group.entries("n2")


def test_leadership_moves_between_both_kinds_and_batches_reach_them(java: Java, tmp_path: Path) -> None:
    """dledger#12, #21, #22, #38: request 51005 to either kind, then a catch-up."""
    with ledger_group(java, tmp_path, ("ours", "real", "ours"), enableBatchPush="true") as group:
        group.start(*ALL)
        led: list[str] = []
        while led.count("real") < 1 or led[-1] != "ours":
            assert len(led) < MOST_TURNS
            leader = group.leader()
            transferee = next(peer for peer in ALL if group.kinds[peer] != group.kinds[leader])
            response = group.transfer(leader, transferee)
            assert (response["header code"], response["code"]) == (200, 200), response
            assert group.leader() == transferee
            led.append(group.kinds[transferee])
            behind = next(peer for peer in ALL if group.kinds[peer] != group.kinds[transferee])
            group.kill(behind)
            send_some(group, group.leader(), *(b"%d under %d" % (number, len(led)) for number in range(60)))
            group.start(behind)
            leader = group.leader()
            group.wait_same()
            assert group.bodies(behind) == group.bodies(leader)
        group.stop(*ALL)
        assert group.entries("n0") == group.entries("n1") == group.entries("n2")


@pytest.mark.parametrize("former", ["ours", "real"])
def test_a_group_continues_a_plain_log(former: str, java: Java, tmp_path: Path) -> None:
    """dledger#56: each member starts on a copy of one plain broker's store."""
    with ledger_group(java, tmp_path, ("ours", "real", "ours")) as group:
        plain = kinds.broker(former, java, tmp_path / "plain", group.namesrv, role="ASYNC_MASTER", settings=FILES)
        with plain:
            old = [b"old %d" % number + bytes(20_000) for number in range(90)]
            for body in old:
                assert rawrequest.send(plain.address, BROKER_NAME, body).code == rawrequest.SUCCESS
            plain.stop()
        for peer in ALL:
            shutil.copytree(plain.store, tmp_path / peer / "store")
        group.start(*ALL)
        for turn in range(2):
            leader = group.leader()
            send_some(group, leader, *(b"new %d.%d" % (turn, number) + bytes(20_000) for number in range(30)))
            group.wait_same()
            for peer in ALL:
                bodies = group.bodies(peer)
                assert (bodies[: len(old)], bodies) == (old, group.bodies(leader))
            group.stop(*ALL)
            if not turn:
                group.start(*ALL)
        assert group.entries("n0") == group.entries("n1") == group.entries("n2")
        assert len(group.entries("n0")) > 2**20


def test_a_paused_leader_of_either_kind_is_replaced_and_follows(java: Java, tmp_path: Path) -> None:
    """dledger#31, #41: what a quorum had stays."""
    with ledger_group(java, tmp_path, ("ours", "real", "ours")) as group:
        group.start(*ALL)
        led: set[str] = set()
        sent: list[bytes] = []
        for turn in range(MOST_TURNS):
            if led == {"ours", "real"}:
                break
            paused = group.leader()
            led.add(group.kinds[paused])
            send_some(group, paused, b"before %d" % turn)
            with group.paused(paused):
                other = group.leader()
                send_some(group, other, b"meanwhile %d" % turn)
            sent += [b"before %d" % turn, b"meanwhile %d" % turn]
            leader = group.leader()
            group.wait_same()
            assert [body for body in group.bodies(leader) if b"leader?" not in body] == sent
            if led != {"ours", "real"} and group.kinds[leader] in led:
                transferee = next(peer for peer in ALL if group.kinds[peer] not in led)
                assert group.transfer(leader, transferee)["code"] == 200
        assert led == {"ours", "real"}
        group.stop(*ALL)
        assert group.entries("n0") == group.entries("n1") == group.entries("n2")


@pytest.mark.parametrize("member_kinds", [("ours", "real", "real"), ("ours", "real", "ours")], ids="-".join)
def test_an_isolated_leader_is_replaced_and_follows(member_kinds: tuple[str, ...], java: Java, tmp_path: Path) -> None:
    """dledger#31, #41: what a quorum had stays; the others elect a leader."""
    with ledger_group(java, tmp_path, member_kinds) as group:
        group.start(*ALL)
        sent: list[bytes] = []
        for turn in range(3):
            make_leader(group, "n0")
            send_some(group, "n0", b"before %d" % turn)
            with group.isolated("n0"):
                send_some(group, group.leader(), b"meanwhile %d" % turn)
            sent += [b"before %d" % turn, b"meanwhile %d" % turn]
            group.leader()
            group.wait_same()
            for peer in ALL:
                assert [body for body in group.bodies(peer) if b"leader?" not in body] == sent
        group.stop(*ALL)
        assert group.entries("n0") == group.entries("n1") == group.entries("n2")


def make_leader(group: LedgerGroup, wanted: str) -> None:
    """Transfer the leadership until this member leads.

    A leader's connection to a member that was isolated may be broken (302). If that member has entered the next term
    meanwhile, it stays candidate until the next election (scenario dledger-follower-stuck). It does not take the
    leadership (418) if it has not caught up within a second, or if another candidate wins the term.
    """
    for _ in range(MOST_TURNS):
        if (leader := group.leader()) == wanted:
            return
        group.wait_same()
        code = group.transfer(leader, wanted)["code"]
        assert code in (200, 302, 418)
        if code == 302:
            group.kill(leader)
            group.leader()
            group.start(leader)
    raise AssertionError(f"{wanted} does not lead")
