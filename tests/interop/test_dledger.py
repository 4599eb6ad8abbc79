"""DLedger groups of our brokers and real ones (4.9.7), in any mixture."""

from pathlib import Path

import pytest

from tests.interop import rawrequest
from tests.interop.java import Java
from tests.interop.ledgergroup import LedgerGroup, ledger_group

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

MIXTURES = [("ours", "ours", "real"), pytest.param(("real", "real", "ours"), marks=pytest.mark.long)]
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
