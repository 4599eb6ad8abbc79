"""The elector against decisions of a real DLedger, in time, and as a property."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqlab.dledger.bodies import HeartBeatRequest, HeartBeatResponse, VoteRequest, VoteResponse
from rmqlab.dledger.codes import DLedgerCode, VoteResult
from rmqlab.dledger.elector import Elector, Outgoing, RoleChange
from rmqlab.dledger.group import GroupSettings
from rmqlab.dledger.member import Ballot, Member, Role
from rmqlab.dledger.rounds import HeartbeatRound, VoteRound
from tests.dledger.electorate import Electorate

Recorded = Callable[[str], list[dict[str, Any]]]

PEERS = {"n0": "host:1", "n1": "host:2", "n2": "host:3"}


def no_save(_ballot: Ballot) -> None:
    """Keep a ballot in memory only."""


def new_elector(term: int, *, end: tuple[int, int] = (-1, -1), preferred: bool = False) -> Elector:
    """Return the elector of n0 in a term; `end` is (term, index).

    Random numbers are 0.
    """
    group = GroupSettings(
        group="broker-a", self_id="n0", peers=PEERS, preferred_leader_ids=("n0",) if preferred else ()
    )
    return Elector(Member(group, no_save, Ballot(term), end[1], end[0]), lambda _end: 0)


def follow(elector: Elector, leader: str) -> None:
    if leader == "n0":
        elector.member.become_leader()
    elif leader:
        elector.member.become_follower(leader)


def votes_of(requests: list[Outgoing]) -> VoteRound:
    """The round of the requests just sent."""
    assert {outgoing.peer for outgoing in requests} == {"n1", "n2"}
    votes = requests[0].round
    assert isinstance(votes, VoteRound)
    return votes


def heartbeats_of(requests: list[Outgoing]) -> HeartbeatRound:
    assert {outgoing.peer for outgoing in requests} == {"n1", "n2"}
    heartbeats = requests[0].round
    assert isinstance(heartbeats, HeartbeatRound)
    return heartbeats


def elected(term: int = 3, now: int = 1000) -> Elector:
    """Return a leader that n1 voted for, before its first heartbeat."""
    elector = new_elector(term)
    elector.tick(now)
    elector.receive_vote(votes_of(elector.take_requests()), VoteResponse(vote_result=VoteResult.ACCEPT), now)
    assert elector.take_role_changes() == [RoleChange(term, Role.LEADER)]
    return elector


# ---- a real DLedger ----


def test_votes_are_decided_as_by_a_real_member(recorded: Recorded) -> None:
    """dledger#17, #18"""
    rows = recorded("votes.jsonl.gz")
    assert {row["result"] for row in rows} == {*VoteResult} - {VoteResult.UNKNOWN}
    for row in rows:
        elector = new_elector(2, end=tuple(row["local_end"]), preferred=row["taking"])
        follow(elector, row["leader"])
        elector.member.ballot = Ballot(2, row["voted"] or None)
        elector.member.term_to_take = 2 if row["taking"] else -1
        end_term, end_index = row["end"]
        request = VoteRequest(
            leader_id=row["candidate"], term=row["term"], ledger_end_term=end_term, ledger_end_index=end_index
        )
        response = elector.handle_vote(request)
        member = elector.member
        seen = (response.vote_result, response.term, member.role, member.ballot.voted_for or "")
        assert seen == (row["result"], row["result_term"], row["role_after"], row["voted_after"]), row


def test_heartbeats_are_answered_as_by_a_real_member(recorded: Recorded) -> None:
    """dledger#19"""
    for row in recorded("heartbeats.jsonl"):
        elector = new_elector(2)
        follow(elector, row["leader"])
        response = elector.handle_heart_beat(HeartBeatRequest(leader_id=row["sender"], term=row["term"]), 0)
        member = elector.member
        seen = (response.code, response.term, member.role, member.leader_id or "")
        assert seen == (row["code"], row["result_term"], row["role_after"], row["leader_after"]), row


# ---- candidate ----


def test_a_candidate_asks_all_others_and_votes_for_itself() -> None:
    """dledger#7: its own vote is saved before the requests are sent."""
    saved: list[Ballot] = []
    elector = new_elector(3, end=(2, 7))
    elector.member.save = saved.append
    elector.tick(0)
    requests = [outgoing.request for outgoing in elector.take_requests()]
    assert requests == [
        VoteRequest(
            group="broker-a",
            leader_id="n0",
            local_id="n0",
            remote_id=peer,
            term=3,
            ledger_end_term=2,
            ledger_end_index=7,
        )
        for peer in ("n1", "n2")
    ]
    assert saved == [Ballot(3, "n0")]


@pytest.mark.parametrize(
    ("results", "role", "term", "wait"),
    [
        ([VoteResult.ACCEPT], Role.LEADER, 3, None),
        ([VoteResult.REJECT_TERM_NOT_READY], Role.CANDIDATE, 3, 0),
        ([VoteResult.REJECT_ALREADY_HAS_LEADER], Role.CANDIDATE, 3, 300 + 6000),
        ([VoteResult.UNKNOWN, VoteResult.UNKNOWN], Role.CANDIDATE, 3, 300),
        ([VoteResult.REJECT_SMALL_LEDGER_END_INDEX, VoteResult.REJECT_EXPIRED_LEDGER_TERM], Role.CANDIDATE, 3, 1300),
        ([VoteResult.REJECT_ALREADY_VOTED, VoteResult.REJECT_ALREADY_VOTED], Role.CANDIDATE, 4, 300),
        ([VoteResult.REJECT_EXPIRED_VOTE_TERM, VoteResult.UNKNOWN], Role.CANDIDATE, 8, 300),
        ([VoteResult.REJECT_EXPIRED_LEDGER_TERM, VoteResult.REJECT_ALREADY_VOTED], Role.CANDIDATE, 4, 300),
    ],
)
def test_the_results_of_a_round(results: list[VoteResult], role: Role, term: int, wait: int | None) -> None:
    """dledger#26, #27: `term` is that of the next round, which begins after `wait`."""
    elector = new_elector(3)
    elector.tick(0)
    votes = votes_of(elector.take_requests())
    for result in results:
        elector.receive_vote(votes, VoteResponse(vote_result=result, term=8) if result != "UNKNOWN" else None, 50)
    assert elector.member.role is role
    if wait is not None:
        assert elector.wake_at == 50 + wait
        elector.tick(50 + wait - 1)
        assert elector.take_requests() == []
        elector.tick(50 + wait)
        assert {outgoing.request.term for outgoing in elector.take_requests()} == {term}


def test_a_round_ends_by_itself() -> None:
    """dledger#29: after 2000 ms and a random time below 1000; late votes do not count."""
    elector = new_elector(3)
    elector.random_below = lambda end: end - 1
    elector.tick(0)
    votes = votes_of(elector.take_requests())
    elector.tick(2998)
    assert elector.wake_at == 2999
    elector.tick(2999)
    assert elector.wake_at == 2999 + 999
    elector.receive_vote(votes, VoteResponse(vote_result=VoteResult.ACCEPT), 3000)
    assert elector.member.role is Role.CANDIDATE


@pytest.mark.parametrize(("preferred", "first", "last"), [(False, 300, 999), (True, 30, 99)])
def test_vote_intervals(*, preferred: bool, first: int, last: int) -> None:
    """dledger#25: they are shorter for a preferred leader in the term it takes."""
    elector = new_elector(3, preferred=preferred)
    elector.member.term_to_take = 3
    seen = set()
    for choose in (lambda _end: 0, lambda end: end - 1):
        elector.random_below = choose
        seen.add(elector._vote_time(0))
    assert seen == {first, last}


def test_a_greater_term_is_entered_without_votes() -> None:
    """dledger#16, #28"""
    elector = new_elector(3)
    assert elector.handle_vote(VoteRequest(leader_id="n1", term=9)).vote_result is VoteResult.REJECT_TERM_NOT_READY
    assert (elector.member.term, elector.take_role_changes()) == (3, [RoleChange(9, Role.CANDIDATE)])
    elector.tick(10)
    assert (elector.member.term, elector.take_requests(), elector.wake_at) == (9, [], 310)
    assert elector.handle_vote(VoteRequest(leader_id="n1", term=9)).vote_result is VoteResult.ACCEPT


# ---- leader and follower ----


def test_a_leader_sends_heartbeats_at_once_and_every_two_seconds() -> None:
    """dledger#30"""
    elector = elected(now=1000)
    elector.tick(1010)
    heartbeats = heartbeats_of(elector.take_requests())
    elector.receive_heartbeat(heartbeats, "n1", HeartBeatResponse(), 1020)
    elector.tick(3010)
    assert elector.take_requests() == []
    elector.tick(3011)
    heartbeats_of(elector.take_requests())
    assert elector.member.is_live == {"n1": True}


@pytest.mark.parametrize(
    ("responses", "role"),
    [
        ([HeartBeatResponse()], Role.LEADER),
        ([HeartBeatResponse(code=DLedgerCode.TERM_NOT_READY)], Role.LEADER),
        ([HeartBeatResponse(code=DLedgerCode.EXPIRED_TERM, term=9), None], Role.CANDIDATE),
        ([HeartBeatResponse(code=DLedgerCode.EXPIRED_TERM, term=9), HeartBeatResponse()], Role.LEADER),
        ([HeartBeatResponse(code=DLedgerCode.INCONSISTENT_LEADER), None], Role.CANDIDATE),
        ([None, None], Role.LEADER),
    ],
)
def test_the_results_of_heartbeats(responses: list[HeartBeatResponse | None], role: Role) -> None:
    """dledger#31: an expired term does not matter while a quorum follows."""
    elector = elected(now=1000)
    elector.tick(1010)
    elector.receive_heartbeat(heartbeats_of(elector.take_requests()), "n1", HeartBeatResponse(), 1010)
    elector.tick(3011)
    heartbeats = heartbeats_of(elector.take_requests())
    for peer, response in zip(("n1", "n2"), responses, strict=False):
        elector.receive_heartbeat(heartbeats, peer, response, 3020)
    assert elector.member.role is role


def test_a_leader_without_quorum_resigns() -> None:
    """dledger#31: more than 6000 ms after its last success, at once without any."""
    elector = elected(now=1000)
    elector.tick(1010)
    elector.receive_heartbeat(heartbeats_of(elector.take_requests()), "n1", HeartBeatResponse(), 1010)
    for now in (3011, 5011 + 1, 7013):
        elector.tick(now)
        heartbeats = heartbeats_of(elector.take_requests())
        for peer in ("n1", "n2"):
            elector.receive_heartbeat(heartbeats, peer, None, now)
        assert elector.member.is_leader is (now <= 7010)
    new = elected()
    new.tick(1010)
    new.tick(3010)
    assert not new.member.is_leader


def test_a_follower_waits_for_more_than_six_seconds() -> None:
    """dledger#24"""
    elector = new_elector(3)
    elector.handle_heart_beat(HeartBeatRequest(leader_id="n1", term=3), 500)
    elector.tick(6500)
    assert elector.member.role is Role.FOLLOWER
    elector.handle_heart_beat(HeartBeatRequest(leader_id="n1", term=3), 6500)
    elector.tick(12500)
    assert elector.member.role is Role.FOLLOWER
    elector.tick(12501)
    assert elector.take_role_changes() == [RoleChange(3, Role.FOLLOWER), RoleChange(3, Role.CANDIDATE)]


# ---- groups ----


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_group_elects_one_leader_and_keeps_it(size: int) -> None:
    group = Electorate(size, random.Random(size))
    group.run(15_000)
    (leader,) = group.current_leaders()
    assert len(group.followers_of(leader)) == size - 1
    terms = dict(group.leaders)
    group.run(60_000)
    assert (group.current_leaders(), group.leaders) == ([leader], terms)


def test_a_killed_leader_is_replaced_and_follows_when_it_returns() -> None:
    group = Electorate(3, random.Random(1))
    group.run(15_000)
    (leader,) = group.current_leaders()
    group.nodes[leader].is_up = False
    group.run(20_000)
    (other,) = group.current_leaders()
    assert other != leader
    group.nodes[leader].restart()
    group.run(20_000)
    assert group.current_leaders() == [other]
    assert len(group.followers_of(other)) == 2


def test_isolated_members_raise_no_terms() -> None:
    """dledger#27"""
    group = Electorate(3, random.Random(3))
    group.run(15_000)
    (leader,) = group.current_leaders()
    other = next(peer for peer in group.nodes if peer != leader)
    group.isolated.add(other)
    group.run(120_000)
    assert group.nodes[other].member.term == group.nodes[leader].member.term
    group.isolated.clear()
    group.run(20_000)
    assert group.current_leaders() == [leader]
    assert other in group.followers_of(leader)


def test_a_candidate_with_a_short_log_and_a_great_term_stays_outside() -> None:
    """dledger#18: openmessaging/dledger issue 325."""
    group = Electorate(3, random.Random(4))
    group.run(15_000)
    (leader,) = group.current_leaders()
    other = next(peer for peer in group.nodes if peer != leader)
    for peer, node in group.nodes.items():
        node.member.end_term, node.member.end_index = node.member.term, 3 if peer == other else 9
    group.nodes[other].elector.enter_term(50)
    group.run(120_000)
    assert group.current_leaders() == [leader]
    assert group.nodes[other].member.role is Role.CANDIDATE
    assert group.nodes[other].member.term == 50


@given(seed=st.integers(0, 2**32), size=st.sampled_from([3, 4, 5]), loss=st.sampled_from([0.0, 0.1, 0.4]))
@settings(max_examples=40)
def test_at_most_one_member_leads_in_a_term(seed: int, size: int, loss: float) -> None:
    """dledger#20: with messages lost, late, repeated, out of order, and restarts."""
    chance = random.Random(seed)
    group = Electorate(size, chance, loss=loss, repeats=0.2, max_delay=chance.choice([20, 1500, 4000]))
    for _ in range(12):
        group.run(chance.randint(100, 4000))
        node = chance.choice(list(group.nodes.values()))
        match chance.randrange(5):
            case 0:
                node.restart()
            case 1:
                node.is_up = False
            case 2:
                group.isolated = set(chance.sample(sorted(group.nodes), chance.randint(0, size // 2)))
            case 3 if node.member.is_leader:
                node.member.end_term, node.member.end_index = node.member.term, node.member.end_index + 1
            case _:
                for each in group.nodes.values():
                    if not each.is_up:
                        each.restart()
    assert [members for members in group.leaders.values() if len(members) > 1] == []


@pytest.mark.parametrize("term", [2**62, 2**63 - 1])
def test_a_group_elects_again_after_a_hostile_term(term: int) -> None:
    """One frame must not stop a group.

    DLedger's terms become negative after 2**63 - 1.
    """
    group = Electorate(3, random.Random(5))
    group.run(15_000)
    for _ in range(3):
        (leader,) = group.current_leaders()
        victim = group.followers_of(leader)[0]
        forged_term = max(term, group.nodes[leader].member.term + 1)
        forged = HeartBeatRequest(group="g", leader_id=leader, local_id=leader, remote_id=victim, term=forged_term)
        group.nodes[victim].elector.handle_heart_beat(forged, group.now)
        group.run(60_000)
        (leader,) = group.current_leaders()
        assert len(group.followers_of(leader)) == 2
    assert len(group.leaders) > 3
