"""Members whose disk is full, and members whose files expire."""

from pathlib import Path

import pytest

from rmqlab.dledger.codes import DLedgerCode, DLedgerError
from rmqlab.dledger.entry import Entry
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.store.files.diskcalls import run_calls
from tests.dledger.replicas import DATA_FILE, INDEX_FILE, Replicas
from tests.dledger.stores import truncate


@pytest.fixture
def group(tmp_path: Path) -> Replicas:
    """Three members with one committed entry."""
    group = Replicas.of(tmp_path, 3, seed=7)
    group.run(15_000)
    assert group.append(group.leader(), b"first") is None
    group.run(2000)
    return group


def fill(group: Replicas, *peers: str) -> None:
    for peer, replication in group.replications.items():
        replication.store.is_full = peer in peers


def test_a_full_disk_refuses_appends_of_any_role_but_no_truncate(tmp_path: Path) -> None:
    """dledger#59"""
    store = EntryStore.open(tmp_path, DATA_FILE, INDEX_FILE)
    own = store.append(1, b"own")
    following = Entry(index=1, term=1, pos=own.end, body=b"next")
    store.is_full = True
    for append in (lambda: store.append(1, b"x"), lambda: store.append_entry(following)):
        with pytest.raises(DLedgerError) as caught:
            append()
        assert caught.value.code is DLedgerCode.DISK_FULL
    truncate(store, following)
    assert store.end_index == 1


def test_a_leader_with_a_full_disk_leads_on_and_refuses_appends(group: Replicas) -> None:
    """dledger#59: no other member is elected (issue 287 of DLedger)."""
    leader = group.leader()
    term = group.nodes[leader].member.term
    fill(group, leader)
    for _ in range(6):
        assert group.append(leader, b"refused") is DLedgerCode.DISK_FULL
        group.run(10_000)
    assert (group.leader(), group.nodes[leader].member.term) == (leader, term)
    fill(group)
    assert group.append(leader, b"second") is None
    group.run(2000)
    assert list(group.acknowledged.values()) == [b"first", b"second"]


def test_followers_with_full_disks(group: Replicas) -> None:
    """dledger#59: one of three changes nothing, two leave no quorum; both catch up."""
    leader = group.leader()
    one, other = group.followers_of(leader)
    fill(group, one)
    group.append(leader, b"by two")
    group.run(3000)
    assert group.acknowledged[1] == b"by two"
    assert group.bodies(one) == [b"first"]
    fill(group, one, other)
    group.append(leader, b"by one")
    group.run(3000)
    assert [outcome.dledger_code for outcome in group.refused] == [DLedgerCode.WAIT_QUORUM_ACK_TIMEOUT]
    assert group.leader() == leader
    fill(group)
    group.run(3000)
    assert [group.bodies(peer) for peer in group.nodes] == [[b"first", b"by two", b"by one"]] * 3


def test_a_member_with_a_full_disk_is_elected(group: Replicas) -> None:
    """dledger#59: votes do not look at the disk."""
    old = group.leader()
    fill(group, *group.followers_of(old))
    group.nodes[old].is_up = False
    group.run(20_000)
    assert group.leader() != old
    assert group.append(group.leader(), b"refused") is DLedgerCode.DISK_FULL


@pytest.mark.parametrize("is_elected_anew", [False, True], ids=["the same leader", "another leader"])
def test_a_follower_whose_next_entry_has_expired_begins_where_the_leader_begins(
    group: Replicas, *, is_elected_anew: bool
) -> None:
    """dledger#60: a comparison ends with TRUNCATE at the leader's begin."""
    leader = group.leader()
    behind, other = group.followers_of(leader)
    group.isolated.add(behind)
    for number in range(80):
        group.append(leader, bytes([number]) * 60)
        group.run(10)
    group.run(3000)
    for peer in (leader, other):
        run_calls(group.replications[peer].store.deletion_of_first_file())
    if is_elected_anew:
        group.nodes[leader].is_up = False
        group.isolated.clear()
        group.run(30_000)
        leader = group.leader()
        group.append(leader, b"new term")
    group.isolated.clear()
    group.run(10_000)
    stores = [group.replications[peer].store for peer in (leader, behind)]
    begin, end = stores[0].begin_index, stores[0].end_index
    assert begin > 1
    assert (stores[1].begin_index, stores[1].end_index, stores[1].committed_index) == (begin, end, end)
    assert [stores[1].get(index) for index in range(begin, end + 1)] == [
        stores[0].get(index) for index in range(begin, end + 1)
    ]
    with pytest.raises(DLedgerError) as caught:
        stores[1].get(begin - 1)
    assert caught.value.code is DLedgerCode.INDEX_LESS_THAN_LOCAL_BEGIN
