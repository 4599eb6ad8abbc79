"""Whole members that exchange bytes: election, appends, transfer, foreign bytes."""

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rmqlab.dledger.bodies import (
    AppendEntryRequest,
    AppendEntryResponse,
    HeartBeatRequest,
    HeartBeatResponse,
    LeadershipTransferRequest,
    LeadershipTransferResponse,
    Message,
    VoteRequest,
    VoteResponse,
)
from rmqlab.dledger.codes import DLedgerCode, DLedgerRequestCode
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.group import GroupSettings
from rmqlab.dledger.member import Member, Role
from rmqlab.dledger.server import Call, Server
from rmqlab.remoting.body import BodyError
from rmqlab.store.files.diskcalls import run_calls

PEERS = {"n0": "host:1", "n1": "host:2", "n2": "host:3"}
Caller = tuple[str, Call] | str


class Group:
    """Three servers whose calls arrive at once."""

    def __init__(self, root: Path, preferred: tuple[str, ...] = ()) -> None:
        self.now = 0
        self.operator: list[Message] = []
        self.acknowledged: list[str] = []
        self.servers: dict[str, Server[str, Caller]] = {}
        for number, peer in enumerate(PEERS):
            settings = GroupSettings(group="g", self_id=peer, peers=PEERS, preferred_leader_ids=preferred)
            store = EntryStore.open(root / peer, 4096, 1024)
            member = Member(settings, lambda _ballot: None)
            self.servers[peer] = Server.of(member, store, random.Random(number).randrange)

    def run(self, duration: int) -> None:
        end = self.now + duration
        while self.now < end:
            self.now += 10
            for server in self.servers.values():
                if server.wake_at <= self.now:
                    server.work(self.now)
            self.exchange()

    def exchange(self) -> None:
        """Deliver calls and responses until there are none."""
        while any(self._deliver(peer) for peer in self.servers):
            pass

    def _deliver(self, peer: str) -> bool:
        server = self.servers[peer]
        for work in server.disk_work:
            for slow in work.take_started():
                run_calls(slow)
                server.resume(self.now)
        calls, responses = server.take_calls(), server.take_responses()
        self.acknowledged += [appender for appender, outcome in server.take_outcomes() if outcome.code == 200]
        for call in calls:
            self.servers[call.peer].handle(call.code, call.request.encode(), (peer, call), self.now)
        for caller, response in responses:
            if isinstance(caller, str):
                self.operator.append(response)
            else:
                self.servers[caller[0]].receive(caller[1], response.encode(), self.now)
        return bool(calls or responses)

    @property
    def leader(self) -> str:
        (leader,) = (peer for peer, server in self.servers.items() if server.member.is_leader)
        return leader


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


def test_a_group_elects_a_leader_and_acknowledges_appends(group: Group) -> None:
    """dledger#39, #40"""
    group.run(5000)
    server = group.servers[group.leader]
    for number in range(5):
        server.append([b"%d" % number], f"append {number}", group.now)
    group.exchange()
    assert group.acknowledged == [f"append {number}" for number in range(5)]
    group.run(3000)
    assert {each.store.committed_index for each in group.servers.values()} == {4}
    assert [change.role for change in server.take_role_changes()][-1] is Role.LEADER


def test_leadership_moves_to_the_chosen_member(group: Group) -> None:
    """dledger#21, #22: nothing is lost, and the new leader has the next term."""
    group.run(5000)
    old = group.leader
    group.servers[old].append([b"kept"], "append", group.now)
    group.exchange()
    transferee = next(peer for peer in PEERS if peer != old)
    term = group.servers[old].member.term
    request = LeadershipTransferRequest(group="g", remote_id=old, term=term, transfer_id=old, transferee_id=transferee)
    group.servers[old].handle(request_code(request), request.encode(), "operator", group.now)
    group.run(5000)
    assert (group.leader, group.servers[transferee].member.term) == (transferee, term + 1)
    assert group.operator == [LeadershipTransferResponse(term=term + 1)]
    assert group.servers[transferee].store.get(0).body == b"kept"


def test_a_preferred_member_becomes_leader(tmp_path: Path) -> None:
    """dledger#23"""
    group = Group(tmp_path, preferred=("n2",))
    group.run(20_000)
    assert group.leader == "n2"


def test_members_with_nothing_to_do_sleep(group: Group) -> None:
    """A time in the past would make the owner's loop spin."""
    group.run(5000)
    assert min(server.wake_at for server in group.servers.values()) > group.now
    leader = group.servers[group.leader]
    leader.append([b"unheard"], "append", group.now)
    leader.take_calls()
    leader.member.become_candidate(leader.member.term)
    leader.work(group.now + 3000)
    assert leader.replication.wake_at is None


def test_a_response_of_foreign_bytes_is_an_error(group: Group) -> None:
    server = group.servers["n0"]
    server.work(0)
    for call in server.take_calls():
        server.receive(call, b"\x00", 5)
    assert server.wake_at >= 5 + 300


def request_code(request: Message) -> DLedgerRequestCode:
    return Call("", request, lambda _body, _now: None).code


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (VoteRequest(remote_id="n1", group="g", term=4), VoteResponse(remote_id="n1", group="g", term=4, code=401)),
        (HeartBeatRequest(remote_id="n0", group="h"), HeartBeatResponse(remote_id="n0", group="h", code=400)),
        (
            LeadershipTransferRequest(remote_id="n9", group="g"),
            LeadershipTransferResponse(remote_id="n9", group="g", code=401),
        ),
    ],
)
def test_requests_for_others_are_refused(group: Group, request_: Message, expected: Message) -> None:
    """dledger#13"""
    server = group.servers["n0"]
    server.handle(request_code(request_), request_.encode(), "peer", 0)
    assert server.take_responses() == [("peer", expected)]
    assert server.member.term == 0


def test_foreign_bytes_and_codes(group: Group) -> None:
    """dledger#9"""
    server = group.servers["n0"]
    with pytest.raises(BodyError):
        server.handle(DLedgerRequestCode.VOTE, b"\x00", "peer", 0)
    server.handle(DLedgerRequestCode.PULL, b"{}", "peer", 0)
    assert server.take_responses() == []


def appended(group: Group, peer: str, **changes: Any) -> AppendEntryResponse:
    """Send a member an APPEND, and return the response."""
    request = msgspec.structs.replace(AppendEntryRequest(group="g", remote_id=peer, body=b"by a client"), **changes)
    group.servers[peer].handle(DLedgerRequestCode.APPEND, request.encode(), "client", group.now)
    group.run(3000)
    response = group.operator.pop()
    assert isinstance(response, AppendEntryResponse)
    return response


def test_a_client_appends_by_request(group: Group) -> None:
    """dledger#62: the response is that of a quorum."""
    group.run(10_000)
    leader = group.leader
    server = group.servers[leader]
    server.prepare = lambda position, body: b"%d " % position + body[2:]
    response = appended(group, leader)
    assert (response.code, response.index, response.pos, response.leader_id) == (200, 0, 0, leader)
    assert [each.store.get(0).body for each in group.servers.values()] == [b"0  a client"] * 3
    assert group.acknowledged == []


def test_appends_of_clients_that_are_refused(group: Group) -> None:
    """dledger#62"""
    group.run(10_000)
    leader = group.leader
    other = next(peer for peer in PEERS if peer != leader)
    assert appended(group, other).dledger_code is DLedgerCode.NOT_LEADER
    assert appended(group, leader, remote_id=other).dledger_code is DLedgerCode.UNKNOWN_MEMBER
    group.servers[leader].accepts = lambda _body: False
    refused = appended(group, leader)
    assert (refused.dledger_code, refused.leader_id) == (DLedgerCode.UNEXPECTED_ARGUMENT, leader)
    for body in (None, bytes(4 * 2**20 - 47)):
        with pytest.raises(BodyError, match="APPEND without a body"):
            appended(group, leader, body=body)
    assert group.servers[leader].store.end_index == -1
