"""Requests of DLedger's own clients: METADATA and GET."""

from pathlib import Path

import pytest

from rmqlab.dledger.bodies import GetEntriesRequest, GetEntriesResponse, Message, MetadataRequest, MetadataResponse
from rmqlab.dledger.codes import DLedgerCode, DLedgerRequestCode
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.group import GroupSettings
from rmqlab.dledger.member import Member
from rmqlab.dledger.server import Server
from rmqlab.remoting.body import BodyError

PEERS = {"n0": "host:1", "n1": "host:2", "n2": "host:3"}
Asked = Server[str, str]


@pytest.fixture
def server(tmp_path: Path) -> Asked:
    member = Member(GroupSettings(group="g", self_id="n0", peers=PEERS), lambda _ballot: None)
    return Server.of(member, EntryStore.open(tmp_path, 4096, 1024), lambda _below: 0)


@pytest.fixture
def leader(server: Asked) -> Asked:
    server.member.become_leader()
    server.append([b"first"], "append", 0)
    return server


def response(server: Asked, code: DLedgerRequestCode, request: Message) -> Message:
    server.handle(code, request.encode(), "client", 0)
    ((_, answer),) = server.take_responses()
    return answer


def test_metadata_names_the_group_the_leader_and_all_members(server: Asked) -> None:
    """dledger#57: whatever the role."""
    request = MetadataRequest(group="g", remote_id="n0")
    assert response(server, DLedgerRequestCode.METADATA, request) == MetadataResponse(group="g", peers=PEERS)
    server.member.become_follower("n1")
    answer = response(server, DLedgerRequestCode.METADATA, request)
    assert answer == MetadataResponse(group="g", leader_id="n1", peers=PEERS)


def test_get_returns_one_entry_committed_or_not(leader: Asked) -> None:
    """dledger#57"""
    request = GetEntriesRequest(group="g", remote_id="n0", begin_index=0, max_size=100)
    answer = response(leader, DLedgerRequestCode.GET, request)
    assert isinstance(answer, GetEntriesResponse)
    assert (answer.code, answer.group) == (200, "g")
    assert [(entry.index, entry.body) for entry in answer.entries] == [(0, b"first")]
    assert leader.store.committed_index == -1


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (GetEntriesRequest(group="g", remote_id="n1", begin_index=0), DLedgerCode.UNKNOWN_MEMBER),
        (GetEntriesRequest(group="h", remote_id="n0", begin_index=0), DLedgerCode.UNKNOWN_GROUP),
        (GetEntriesRequest(group="g", remote_id="n0", begin_index=1), DLedgerCode.INDEX_OUT_OF_RANGE),
        (MetadataRequest(group="g", remote_id="n1"), DLedgerCode.UNKNOWN_MEMBER),
        (MetadataRequest(group="h", remote_id="n0"), DLedgerCode.UNKNOWN_GROUP),
    ],
)
def test_refusals_have_the_base_members_of_the_request(leader: Asked, request_: Message, code: DLedgerCode) -> None:
    """dledger#13, #57"""
    asked = DLedgerRequestCode.METADATA if isinstance(request_, MetadataRequest) else DLedgerRequestCode.GET
    refused = response(leader, asked, request_)
    assert (refused.code, refused.leader_id) == (code, "n0")
    assert (refused.group, refused.remote_id) == (request_.group, request_.remote_id)


def test_only_a_leader_serves_entries(leader: Asked) -> None:
    """dledger#57"""
    leader.member.become_follower("n1")
    request = GetEntriesRequest(group="g", remote_id="n0", begin_index=0)
    assert response(leader, DLedgerRequestCode.GET, request).code == DLedgerCode.NOT_LEADER


def test_get_needs_a_begin_index(leader: Asked) -> None:
    with pytest.raises(BodyError, match="without beginIndex"):
        leader.handle(DLedgerRequestCode.GET, GetEntriesRequest(group="g", remote_id="n0").encode(), "client", 0)
