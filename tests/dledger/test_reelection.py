"""A restarted member and the term that it may have led before.

A power loss may have cost it entries of that term. A second entry of the same index and term would count as equal.
"""

import random
from pathlib import Path

from rmqlab.dledger.bodies import VoteResponse
from rmqlab.dledger.codes import VoteResult
from rmqlab.dledger.elector import RoleChange
from rmqlab.dledger.member import Ballot, Member, Role
from tests.dledger.electorate import Electorate
from tests.dledger.faultygroup import FaultyGroup
from tests.dledger.faultynode import Node
from tests.dledger.test_elector import new_elector, no_save, votes_of


def test_a_restarted_leader_is_elected_again_in_the_next_term() -> None:
    """Its voters accept it in its old term (dledger#32).

    A power loss may have cost it entries of that term.
    """
    group = Electorate(3, random.Random(2))
    group.run(15_000)
    (leader,) = group.current_leaders()
    term = group.nodes[leader].member.term
    group.nodes[leader].restart()
    for node in group.nodes.values():
        node.member.become_candidate(term)
    group.nodes[leader].elector.tick(group.now)
    group._collect(leader)
    group.run(200)
    assert (group.current_leaders(), group.nodes[leader].member.term) == ([leader], term + 1)
    assert group.leaders == {term: {leader}, term + 1: {leader}}


def test_a_candidate_that_voted_for_another_leads_the_next_term() -> None:
    """Votes of others suffice in DLedger. After a restart it could lead again."""
    elector = new_elector(3)
    elector.member.vote_for("n1")
    elector.tick(0)
    votes = votes_of(elector.take_requests())
    for _ in range(2):
        elector.receive_vote(votes, VoteResponse(vote_result=VoteResult.ACCEPT), 0)
    elector.tick(0)
    votes = votes_of(elector.take_requests())
    elector.receive_vote(votes, VoteResponse(vote_result=VoteResult.ACCEPT), 0)
    assert elector.take_role_changes() == [RoleChange(4, Role.LEADER)]


def test_a_candidate_that_restarts_leaves_another_leader_of_its_term_alone() -> None:
    """It asks for votes in its old term first: a new term would depose that leader."""
    group = Electorate(3, random.Random(2))
    group.run(15_000)
    (leader,) = group.current_leaders()
    other = group.nodes[group.followers_of(leader)[0]]
    other.saved = Ballot(other.member.term, other.member.self_id)
    other.restart()
    terms = dict(group.leaders)
    group.run(30_000)
    assert (group.current_leaders(), group.leaders) == ([leader], terms)
    assert len(group.followers_of(leader)) == 2


def test_a_member_leads_a_term_that_it_first_stands_for_after_its_start() -> None:
    group = new_elector(3).member.settings
    assert not Member(group, no_save, Ballot(3, "n1")).may_have_led
    member = Member(group, no_save, Ballot(3, "n0"))
    assert member.may_have_led
    member.next_term()
    member.vote_for("n0")
    assert not member.may_have_led


def isolate(group: FaultyGroup, node: Node) -> None:
    for other in group.nodes:
        if other != node.name:
            group.hold(node.name, other)


def test_what_a_majority_has_synced_survives_a_leader_that_lost_its_tail(tmp_path: Path) -> None:
    """Fails if the leader appends again in its old term.

    The entries that it lost win the next election then.
    """
    group = FaultyGroup(tmp_path, 3, random.Random(1), loses_power=True, call_times=[1])
    group.run(4000)
    (leader,) = group.leaders
    leader.disk.keeps_unsynced = False
    behind, ahead = (node for node in group.nodes.values() if node is not leader)
    assert behind.running.member.ballot.voted_for == leader.name
    isolate(group, behind)
    for number in range(3):
        group.append(leader, [b"unsynced %d" % number])
    group.run(100)
    assert group.invariants.acknowledged == 3
    group.flush(ahead)
    group.release_all()
    isolate(group, ahead)
    group.stop(leader, loses_power=True)
    group.run(100)
    group.start(leader)
    group.run(5000)
    assert group.leaders == [leader]
    assert leader.running.store.end_index < ahead.running.store.end_index
    group.append(leader, [b"synced"])
    group.run(100)
    group.flush(leader)
    group.flush(behind)
    (kept,) = group.invariants.kept.values()
    group.stop(leader, loses_power=True)
    group.release_all()
    group.run(30_000)
    assert [node.running.store.get(kept.index) for node in (behind, ahead)] == [kept, kept]
