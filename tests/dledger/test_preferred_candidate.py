"""A preferred leader that stays candidate: a limit of DLedger that ours shares."""

import random
from pathlib import Path

from rmqlab.dledger.codes import DLedgerCode, DLedgerRequestCode
from rmqlab.dledger.member import Role
from rmqlab.dledger.server import Call
from tests.dledger.faultygroup import FaultyGroup
from tests.dledger.faultynode import Node

MINUTE = 60_000


class CountingGroup(FaultyGroup):
    """Counts orders to take the leadership."""

    orders: int = 0

    def _call(self, node: Node, call: Call) -> None:
        self.orders += call.code is DLedgerRequestCode.LEADERSHIP_TRANSFER
        super()._call(node, call)


def test_a_preferred_candidate_with_a_worse_log_is_asked_each_second(tmp_path: Path) -> None:
    """Section 4.5: it took the next term, and was cut off before it was elected.

    The leader's log is better then, so nobody votes for it, and it follows no leader of an earlier term.
    """
    group = CountingGroup(tmp_path, 3, random.Random(1), preferred=("n1",), call_times=(1,))
    preferred = group.nodes["n1"]
    group.stop(preferred, loses_power=False)
    group.run(20_000)
    (leader,) = group.leaders
    group.start(preferred)
    term = leader.running.member.term
    while preferred.running.member.term <= term:
        group.run(1)
    for other in group.nodes.keys() - {"n1"}:
        group.hold("n1", other)
        group.reset("n1", other)
    while group.append(leader, [b"without it"]) is DLedgerCode.LEADER_TRANSFERRING:
        group.run(100)
    group.run(1000)
    group.release_all()
    group.orders = 0
    group.run(MINUTE)
    assert group.leaders == [leader]
    member = preferred.running.member
    assert (member.role, member.term > term, member.end_index) == (Role.CANDIDATE, True, -1)
    assert 50 <= group.orders <= MINUTE // 1000
    (other,) = [node.name for node in group.up if node not in (leader, preferred)]
    while leader.running.member.transferee is not None:
        group.run(1)
    group.transfer(leader, other)
    group.run(MINUTE)
    assert group.leaders == [preferred]  # it followed the other one, which then handed over
    for node in group.up:
        node.kill()
