"""Peers, terms and votes of one member."""

import random
from pathlib import Path

import pytest

from rmqlab.dledger.codes import DLedgerError
from rmqlab.dledger.group import GroupSettings, PeersError, parse_peers
from rmqlab.dledger.member import FAR_TERM, LEAP, Ballot, Member, Role, load_ballot, save_ballot
from rmqlab.store.files.disk import Disk, StoreCorrupt
from tests.dledger.volatiledisk import VolatileDisk

PEERS = {"n0": "127.0.0.1:40911", "n1": "my-host:40912"}


def test_peers_are_split_at_the_first_dash() -> None:
    """dledger#15"""
    assert parse_peers("n0-127.0.0.1:40911;n1-my-host:40912") == PEERS


@pytest.mark.parametrize(
    ("text", "error"),
    [("n0", "peer 'n0', expected ID-HOST:PORT"), ("n0-a:1;n0-b:2", "peer n0 is listed twice"), ("-a:1", "peer '-a:1'")],
)
def test_lists_of_peers_that_describe_no_group(text: str, error: str) -> None:
    """dledger#15"""
    with pytest.raises(PeersError, match=error):
        parse_peers(text)


def test_a_member_is_one_of_its_peers() -> None:
    """dledger#15"""
    with pytest.raises(PeersError, match="n9 is not among the peers n0, n1"):
        GroupSettings(group="g", self_id="n9", peers=PEERS)


@pytest.mark.parametrize(("size", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_quorum_is_a_majority_of_all_members(size: int, quorum: int) -> None:
    peers = {f"n{number}": "host:1" for number in range(size)}
    assert GroupSettings(group="g", self_id="n0", peers=peers).quorum == quorum


def test_the_recorded_ballot_is_read_and_written_again(golden_store: Path) -> None:
    """dledger#6"""
    recorded = (golden_store / "currterm").read_bytes()
    ballot = load_ballot(Disk(), golden_store)
    assert ballot == Ballot(4, "n0")
    save_ballot(Disk(), golden_store, Ballot(5))
    assert load_ballot(Disk(), golden_store) == Ballot(5)
    save_ballot(Disk(), golden_store, ballot)
    assert (golden_store / "currterm").read_bytes() == recorded
    assert (golden_store / "currterm.bak").read_text() == "voteLeader=\ncurrTerm=5\n"


def test_a_ballot_is_on_disk_before_it_counts(tmp_path: Path) -> None:
    """After a power loss, the member could vote twice in a term."""
    disk = VolatileDisk(random.Random(1))
    save_ballot(disk, tmp_path, Ballot(4, "n0"))
    save_ballot(disk, tmp_path, Ballot(5, "n1"))
    disk.lose_power(tmp_path)
    assert load_ballot(disk, tmp_path) == Ballot(5, "n1")


def test_a_new_member_has_no_ballot_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    assert load_ballot(Disk(), tmp_path) == Ballot()
    (tmp_path / "currterm").write_text("currTerm=x\n")
    with pytest.raises(StoreCorrupt, match="currTerm=x, expected a number"):
        load_ballot(Disk(), tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", bytes(64), b"voteLeader=n0\n", b"currTerm=\n", b"currTerm=-1\n", b"currTerm=%d\n" % 2**63, b"\xff=\xff\n"],
)
def test_a_term_file_without_a_term_is_no_new_member(tmp_path: Path, content: bytes) -> None:
    """It could vote twice in a term: DLedger starts with term 0 then."""
    (tmp_path / "currterm").write_bytes(content)
    with pytest.raises(StoreCorrupt, match=r"expected a term; currterm\.bak has the one before"):
        load_ballot(Disk(), tmp_path)


def test_a_far_term_is_entered_in_steps() -> None:
    """No term makes the next ones exceed a long."""
    member = Member(GroupSettings(group="g", self_id="n0", peers=PEERS), lambda _ballot: None, Ballot(7))
    for expected in (FAR_TERM, FAR_TERM + LEAP, FAR_TERM + 2 * LEAP):
        member.become_candidate(2**63 - 1)
        assert member.next_term() == expected


@pytest.mark.parametrize(("known", "expected"), [(-1, 8), (8, 8), (12, 12), (3, 8)])
def test_the_next_term_is_the_known_one_or_one_more(known: int, expected: int) -> None:
    """dledger#16"""
    saved: list[Ballot] = []
    member = Member(GroupSettings(group="g", self_id="n0", peers=PEERS), saved.append, Ballot(7, "n1"))
    member.become_candidate(known)
    assert member.next_term() == expected
    assert saved == [Ballot(expected)]


def test_only_a_candidate_enters_the_next_term() -> None:
    """dledger#16"""
    member = Member(GroupSettings(group="g", self_id="n0", peers=PEERS), lambda _ballot: None)
    member.become_leader()
    with pytest.raises(DLedgerError, match="ILLEGAL_MEMBER_STATE LEADER"):
        member.next_term()
    assert member.role is Role.LEADER


def test_an_endless_term_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "currterm").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(OSError, match="more than 65536 bytes"):
        load_ballot(Disk(), tmp_path)
