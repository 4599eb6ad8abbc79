"""Members with different lists of peers: which lists, and where."""

import pytest

from rmqlab.dledger.bodies import MetadataResponse
from rmqlab.dledger.codes import DLedgerCode
from rmqlab.dledger.group import GroupSettings
from rmqlab.dledger.peerlists import REPEAT_MS, RETRY_MS, PeerLists

PEERS = {"n0": "a:1", "n1": "a:2", "n2": "a:3"}


@pytest.fixture
def lists() -> PeerLists:
    return PeerLists(GroupSettings(group="g", self_id="n0", peers=PEERS))


def test_a_peer_is_asked_by_its_id_and_group(lists: PeerLists) -> None:
    request = lists.request("n1")
    assert (request.group, request.remote_id, request.local_id) == ("g", "n1", "n0")


def test_both_lists_are_named_until_they_are_equal(lists: PeerLists) -> None:
    """Issue 16, "Bad input"."""
    lists.note("n1", MetadataResponse(peers={"n1": "a:2", "n0": "a:1", "n3": "b:4"}), 0)
    assert lists.faults == {
        "n1": "d_leger_peers of n1 differs: 'n0-a:1;n1-a:2;n3-b:4' there, 'n0-a:1;n1-a:2;n2-a:3' here;"
        " expected one list on all members"
    }
    lists.note("n1", None, 0)
    assert lists.faults
    lists.note("n1", MetadataResponse(peers=dict(reversed(PEERS.items()))), 0)
    assert not lists.faults


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (DLedgerCode.UNKNOWN_MEMBER, "d_leger_peers names a:2 as n1; another member listens there"),
        (DLedgerCode.UNKNOWN_GROUP, "the member at a:2 is not of group g: d_leger_group differs"),
    ],
)
def test_a_refusal_says_what_is_wrong(lists: PeerLists, code: DLedgerCode, fault: str) -> None:
    lists.note("n1", MetadataResponse(code=code), 0)
    assert lists.faults == {"n1": fault}


def test_a_peer_that_serves_no_list_has_no_fault(lists: PeerLists) -> None:
    lists.note("n1", MetadataResponse(code=DLedgerCode.UNSUPPORTED), 0)
    assert not lists.faults


def test_a_list_of_a_peer_is_escaped_and_cut(lists: PeerLists) -> None:
    lists.note("n1", MetadataResponse(peers={"\x1b[2J": "x" * 10_000}), 0)
    assert "\x1b" not in lists.faults["n1"]
    assert len(lists.faults["n1"]) < 500


def test_peers_are_asked_again_soon_after_an_error_and_later_after_an_answer(lists: PeerLists) -> None:
    """A peer may start late, or anew with another list."""
    assert lists.take_due(5) == ["n1", "n2"]
    assert lists.take_due(6) == []
    lists.note("n1", None, 10)
    lists.note("n2", MetadataResponse(peers=PEERS), 10)
    assert lists.wake_at == 10 + RETRY_MS
    assert lists.take_due(10 + RETRY_MS) == ["n1"]
    assert lists.take_due(5 + REPEAT_MS) == ["n2"]
