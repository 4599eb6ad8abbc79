"""Ballots that a thread writes, while their member says nothing."""

from pathlib import Path

import attrs

from rmqlab.dledger.bodies import HeartBeatRequest, VoteRequest
from rmqlab.dledger.codes import DLedgerRequestCode
from rmqlab.dledger.diskwork import RETRY_MS
from rmqlab.dledger.elector import RoleChange
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.group import GroupSettings
from rmqlab.dledger.member import Ballot, Member, Role
from rmqlab.dledger.server import Server
from rmqlab.store.files.diskcalls import run_calls
from tests.dledger.leaders import PEERS

VOTE = VoteRequest(group="g", leader_id="n1", local_id="n1", remote_id="n0", term=3)


@attrs.define
class BallotDisk:
    """Keeps ballots, or fails."""

    is_failing: bool = False
    ballots: list[Ballot] = attrs.field(factory=list)

    def write(self, ballot: Ballot) -> None:
        if self.is_failing:
            raise OSError(5, "Input/output error")
        self.ballots.append(ballot)


def new_server(root: Path, disk: BallotDisk, peers: dict[str, str] = PEERS) -> Server[str, str]:
    """Return n0 in term 3."""
    member = Member(GroupSettings(group="g", self_id="n0", peers=peers), disk.write, Ballot(3))
    return Server.of(member, EntryStore.open(root, 4096, 1024), lambda _end: 0)


def save(server: Server[str, str], now: int = 0) -> None:
    """Make the slow calls."""
    for work in server.disk_work:
        for calls in work.take_started():
            run_calls(calls)
            server.resume(now)


def test_a_vote_is_on_disk_before_its_response(tmp_path: Path) -> None:
    """dledger#7: after a kill, the member could vote for another in this term."""
    disk = BallotDisk()
    server = new_server(tmp_path, disk)
    server.handle(DLedgerRequestCode.VOTE, VOTE.encode(), "candidate", 0)
    assert server.take_responses() == []
    save(server)
    assert disk.ballots == [Ballot(3, "n1")]
    ((caller, response),) = server.take_responses()
    assert (caller, response.code) == ("candidate", 200)


def test_a_candidate_asks_when_its_own_vote_is_on_disk(tmp_path: Path) -> None:
    """dledger#7"""
    disk = BallotDisk()
    server = new_server(tmp_path, disk)
    server.work(0)
    assert [call for call in server.take_calls() if isinstance(call.request, VoteRequest)] == []
    save(server)
    assert disk.ballots == [Ballot(3, "n0")]
    assert len([call for call in server.take_calls() if isinstance(call.request, VoteRequest)]) == 2


def test_a_group_of_one_is_led_when_the_ballot_is_on_disk(tmp_path: Path) -> None:
    """dledger#7"""
    server = new_server(tmp_path, BallotDisk(), {"n0": "host:1"})
    server.work(0)
    assert server.take_role_changes() == []
    save(server)
    assert server.take_role_changes()[-1] == RoleChange(3, Role.LEADER)


def test_a_ballot_that_changes_while_it_is_written_is_written_again(tmp_path: Path) -> None:
    disk = BallotDisk()
    server = new_server(tmp_path, disk)
    server.handle(DLedgerRequestCode.VOTE, VOTE.encode(), "candidate", 0)
    ((first, *_),) = [work.take_started() for work in server.disk_work if work.is_busy]
    write = next(first)
    heartbeat = HeartBeatRequest(group="g", leader_id="n2", local_id="n2", remote_id="n0", term=5)
    server.handle(DLedgerRequestCode.HEART_BEAT, heartbeat.encode(), "leader", 0)
    server.work(0)
    write()
    next(first)()
    assert disk.ballots == [Ballot(3, "n1"), Ballot(5)]


def test_a_member_that_cannot_save_its_vote_does_not_respond(tmp_path: Path) -> None:
    """dledger#7: it tries again after a pause, and drops what waited for the vote."""
    disk = BallotDisk(is_failing=True)
    server = new_server(tmp_path, disk)
    server.handle(DLedgerRequestCode.VOTE, VOTE.encode(), "candidate", 0)
    save(server)
    assert (server.take_responses(), server.take_dropped()) == ([], ["candidate"])
    assert server.ballot_work.wake_at == RETRY_MS
    disk.is_failing = False
    server.work(RETRY_MS)
    server.handle(DLedgerRequestCode.VOTE, VOTE.encode(), "again", RETRY_MS)
    save(server, RETRY_MS)
    assert [caller for caller, _ in server.take_responses()] == ["again"]
    assert disk.ballots == [Ballot(3, "n1")]
