"""Leadership transfer: both sides alone, and in a group."""

from pathlib import Path

import pytest

from rmqlab.dledger.acks import Acks
from rmqlab.dledger.bodies import LeadershipTransferRequest, LeadershipTransferResponse
from rmqlab.dledger.codes import DLedgerCode
from rmqlab.dledger.elector import Elector, RoleChange
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.group import GroupSettings
from rmqlab.dledger.member import Ballot, Member, Role
from rmqlab.dledger.transfer import Transfer

PEERS = {"n0": "host:1", "n1": "host:2", "n2": "host:3"}


def new_transfer(root: Path, *preferred: str) -> Transfer[str]:
    """Return n0 in term 3, with one entry."""
    settings = GroupSettings(group="g", self_id="n0", peers=PEERS, preferred_leader_ids=preferred)
    store = EntryStore.open(root, 1024, 512)
    store.append(1, b"first")
    member = Member(settings, lambda _ballot: None, Ballot(3), store.end_index, store.end_term)
    return Transfer(Elector(member, lambda _end: 0), Acks(member, store))


def leading(root: Path, *preferred: str) -> Transfer[str]:
    transfer = new_transfer(root, *preferred)
    transfer.elector.member.become_leader()
    transfer.acks.enter_term()
    transfer.acks.report(3, "n1", 0, 0)
    return transfer


def following(root: Path) -> Transfer[str]:
    transfer = new_transfer(root)
    transfer.elector.member.become_follower("n1")
    return transfer


def command(transferee: str = "n1", transfer: str = "n0", term: int = 3, index: int = 0) -> LeadershipTransferRequest:
    """A request to n0."""
    return LeadershipTransferRequest(
        group="g",
        remote_id="n0",
        term=term,
        transfer_id=transfer,
        transferee_id=transferee,
        take_leadership_ledger_index=index,
    )


def codes(transfer: Transfer[str]) -> list[int]:
    return [response.code for _, response in transfer.take_responses()]


# ---- leader ----


def test_a_leader_sends_the_transferee_its_end(tmp_path: Path) -> None:
    """dledger#21"""
    transfer = leading(tmp_path)
    transfer.handle(command(), "operator", 0)
    (call,) = transfer.take_calls()
    assert (call.peer, call.request.transfer_id, call.request.take_leadership_ledger_index) == ("n1", "n0", 0)
    transfer.handle(command(), "second", 0)
    assert codes(transfer) == [DLedgerCode.LEADER_TRANSFERRING]
    transfer.receive(call, None)
    assert (codes(transfer), transfer.elector.member.transferee) == ([DLedgerCode.NETWORK_ERROR], None)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (command(transferee="n9", term=2), DLedgerCode.UNKNOWN_MEMBER),
        (command(term=2), DLedgerCode.INCONSISTENT_TERM),
        (command(transferee="n2"), DLedgerCode.FALL_BEHIND_TOO_MUCH),
        (command(transfer="n1", transferee="n2"), DLedgerCode.UNEXPECTED_ARGUMENT),
        (command(transferee="n0"), DLedgerCode.LEADER_TRANSFERRING),
    ],
)
def test_transfers_that_a_leader_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: LeadershipTransferRequest, code: DLedgerCode
) -> None:
    """dledger#21"""
    monkeypatch.setattr("rmqlab.dledger.transfer.MAX_BEHIND", 1)
    transfer = leading(tmp_path)
    transfer.handle(request_, "operator", 0)
    assert (codes(transfer), transfer.take_calls()) == ([code], [])


def test_a_member_that_does_not_lead_transfers_nothing(tmp_path: Path) -> None:
    """dledger#21"""
    transfer = following(tmp_path)
    transfer.handle(command(), "operator", 0)
    ((_, response),) = transfer.take_responses()
    assert (response.dledger_code, response.leader_id) == (DLedgerCode.NOT_LEADER, "n1")


def test_a_transfer_that_succeeded_ends_with_the_next_role(tmp_path: Path) -> None:
    """dledger#21"""
    transfer = leading(tmp_path)
    transfer.handle(command(), "operator", 0)
    (call,) = transfer.take_calls()
    transfer.elector.member.ballot = Ballot(4)
    transfer.receive(call, LeadershipTransferResponse(term=4))
    assert (codes(transfer), transfer.elector.member.transferee) == ([200], "n1")
    transfer.elector.member.become_follower("n1")
    assert transfer.elector.member.transferee is None


@pytest.mark.parametrize(("live", "expected"), [({"n1": True, "n2": True}, ["n1"]), ({"n1": False}, [])])
def test_a_leader_prefers_the_live_member_that_is_least_behind(
    tmp_path: Path, live: dict[str, bool], expected: list[str]
) -> None:
    """dledger#23"""
    transfer = leading(tmp_path, "n2", "n1", "n9")
    transfer.elector.member.is_live.update(live)
    transfer.work(999)
    assert transfer.take_calls() == []
    transfer.work(1000)
    assert [call.peer for call in transfer.take_calls()] == expected


def test_a_preferred_leader_stays(tmp_path: Path) -> None:
    """dledger#23"""
    transfer = leading(tmp_path, "n0", "n1")
    transfer.elector.member.is_live["n1"] = True
    transfer.work(1000)
    assert transfer.take_calls() == []


# ---- transferee ----


def test_a_transferee_enters_the_next_term_once_it_has_all_entries(tmp_path: Path) -> None:
    """dledger#22"""
    transfer = following(tmp_path)
    transfer.handle(command(transferee="n0", transfer="n1", index=5), "leader", 0)
    member = transfer.elector.member
    transfer.work(500)
    assert (member.role, transfer.wake_at) == (Role.FOLLOWER, 10)
    member.end_index = 5
    transfer.work(510)
    assert transfer.elector.take_role_changes() == [RoleChange(4, Role.CANDIDATE)]
    assert member.term_to_take == 4
    transfer.elector.tick(520)
    assert (member.term, codes(transfer)) == (4, [])


def test_an_order_that_a_later_one_replaces_is_reported_to_its_owner(tmp_path: Path) -> None:
    """It gets no response, as in DLedger, so it must not count as outstanding."""
    transfer = following(tmp_path)
    for number in range(2):
        transfer.handle(command(transferee="n0", transfer="n1", index=5), f"waits {number}", 0)
    assert transfer.take_dropped() == ["waits 0"]
    for number in range(2):
        transfer.elector.member.become_follower("n1")
        transfer.handle(command(transferee="n0", transfer="n1"), f"takes {number}", 0)
    assert transfer.take_dropped() == ["waits 1", "takes 0"]


def test_a_transferee_that_stays_behind_refuses(tmp_path: Path) -> None:
    """dledger#22"""
    transfer = following(tmp_path)
    transfer.handle(command(transferee="n0", transfer="n1", index=5), "leader", 0)
    transfer.work(1000)
    assert codes(transfer) == []
    transfer.work(1001)
    assert codes(transfer) == [DLedgerCode.TAKE_LEADERSHIP_FAILED]


@pytest.mark.parametrize(
    ("transfer_id", "term", "code"),
    [("n2", 3, DLedgerCode.INCONSISTENT_LEADER), ("n1", 2, DLedgerCode.INCONSISTENT_TERM)],
)
def test_orders_that_a_transferee_refuses(tmp_path: Path, transfer_id: str, term: int, code: DLedgerCode) -> None:
    """dledger#22"""
    transfer = following(tmp_path)
    transfer.handle(command(transferee="n0", transfer=transfer_id, term=term), "leader", 0)
    assert codes(transfer) == [code]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (RoleChange(4, Role.CANDIDATE), None),
        (RoleChange(4, Role.LEADER), DLedgerCode.SUCCESS),
        (RoleChange(4, Role.FOLLOWER), DLedgerCode.TAKE_LEADERSHIP_FAILED),
        (RoleChange(3, Role.FOLLOWER), DLedgerCode.TAKE_LEADERSHIP_FAILED),
        (RoleChange(3, Role.CANDIDATE), DLedgerCode.INTERNAL_ERROR),
        (RoleChange(5, Role.CANDIDATE), DLedgerCode.EXPIRED_TERM),
    ],
)
def test_the_next_role_decides_a_transfer(tmp_path: Path, change: RoleChange, code: DLedgerCode | None) -> None:
    """dledger#22"""
    transfer = following(tmp_path)
    transfer.handle(command(transferee="n0", transfer="n1"), "leader", 0)
    for seen in transfer.elector.take_role_changes():
        transfer.observe(seen)
    assert codes(transfer) == []
    transfer.observe(change)
    assert codes(transfer) == ([] if code is None else [code])
    assert transfer.elector.member.term_to_take == (4 if code is None else -1)
