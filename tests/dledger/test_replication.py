"""Pushers, followers and acknowledgements, one at a time."""

from pathlib import Path

import pytest

from rmqlab.dledger.bodies import EntryBody, PushEntryRequest, PushEntryResponse
from rmqlab.dledger.codes import DLedgerCode, DLedgerError, PushType
from rmqlab.dledger.diskwork import DiskWork
from rmqlab.dledger.entry import Entry
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.follower import LAST_INDEX, LAST_POSITION, Follower
from rmqlab.dledger.member import Ballot
from rmqlab.store.files.disk import Disk
from rmqlab.store.files.diskcalls import run_calls
from tests.dledger.leaders import appending, new_leader, new_member, of_n1
from tests.dledger.replicas import DATA_FILE, INDEX_FILE


def new_follower(root: Path, entries: int = 0, disk: Disk | None = None) -> Follower[str]:
    """Return n0 as follower of n1 in term 3, with some entries of term 1."""
    store = EntryStore.open(root, DATA_FILE, INDEX_FILE, disk)
    for number in range(entries):
        store.append(1, b"%d" % number)
    member = new_member()
    member.become_follower("n1")
    return Follower(member, store, DiskWork("the cut", lambda: store.cut.is_pending, store.completion_of_cut))


def push(push_type: PushType, *entries: Entry, commit: int = -1, term: int = 3, leader: str = "n1") -> PushEntryRequest:
    bodies = [EntryBody.of(entry) for entry in entries]
    return PushEntryRequest(
        group="g",
        leader_id=leader,
        remote_id="n0",
        term=term,
        type=push_type,
        commit_index=commit,
        entry=bodies[0] if len(bodies) == 1 else None,
        batch_entry=bodies if len(bodies) > 1 else [],
    )


def chain(first: int, pos: int, *bodies: bytes, term: int = 3) -> list[Entry]:
    """Return entries that follow each other in one file."""
    entries: list[Entry] = []
    for number, body in enumerate(bodies):
        entries.append(Entry(index=first + number, term=term, pos=entries[-1].end if entries else pos, body=body))
    return entries


def finish_disk_work(follower: Follower[str]) -> None:
    """Make the calls that wait for the disk."""
    for calls in follower.truncations.take_started():
        run_calls(calls)
    follower.work(0)


def codes(follower: Follower[str]) -> dict[str, int]:
    return {caller: response.code for caller, response in follower.take_responses()}


# ---- follower ----


def test_appends_are_applied_in_order_of_their_index(tmp_path: Path) -> None:
    """dledger#42"""
    follower = new_follower(tmp_path)
    first, second, third = chain(0, 0, b"a", b"b", b"c")
    follower.handle(push(PushType.APPEND, third), "third", 0)
    follower.handle(push(PushType.APPEND, second), "second", 0)
    assert codes(follower) == {}
    follower.handle(push(PushType.APPEND, first, commit=1), "first", 0)
    assert [caller for caller, _ in follower.take_responses()] == ["first", "second", "third"]
    assert (follower.store.end_index, follower.store.committed_index, follower.member.end_index) == (2, 0, 2)


def test_a_batch_is_applied_whole(tmp_path: Path) -> None:
    """dledger#11, #42"""
    follower = new_follower(tmp_path)
    follower.handle(push(PushType.APPEND, *chain(0, 0, b"a", b"b")), "batch", 0)
    ((_, response),) = follower.take_responses()
    assert (response.code, response.index, response.count, response.begin_index, response.end_index) == (
        200,
        0,
        2,
        0,
        1,
    )


def test_requests_that_a_follower_refuses(tmp_path: Path) -> None:
    """dledger#42"""
    follower = new_follower(tmp_path, 1)
    early, later = chain(5, 900, b"x", b"y")
    follower.handle(push(PushType.APPEND, early), "early", 0)
    follower.handle(push(PushType.APPEND, early), "again", 0)
    (following,) = chain(1, 49, b"z")
    follower.handle(push(PushType.APPEND, following, term=2), "old term", 0)
    follower.handle(push(PushType.APPEND, following, leader="n2"), "other leader", 0)
    assert codes(follower) == {"again": 413, "old term": 406, "other leader": 406}
    follower.member.become_candidate(3)
    follower.handle(push(PushType.COMMIT), "candidate", 0)
    follower.handle(push(PushType.APPEND, later), "waits", 0)
    assert codes(follower) == {"candidate": 405}


def test_a_push_without_entry_or_for_another_member_is_refused(tmp_path: Path) -> None:
    """dledger#13, #42"""
    replication = new_leader(tmp_path)
    for request, code in (
        (push(PushType.COMPARE), DLedgerCode.UNEXPECTED_ARGUMENT),
        (PushEntryRequest(remote_id="n1", group="g"), DLedgerCode.UNKNOWN_MEMBER),
        (PushEntryRequest(remote_id="n0", group="other"), DLedgerCode.UNKNOWN_GROUP),
    ):
        response = replication.handle_push(request, "peer", 0)
        assert response is not None
        assert (response.dledger_code, response.group, response.leader_id) == (code, request.group, "n0")


def test_a_comparison_drops_appends_and_finds_equal_entries(tmp_path: Path) -> None:
    """dledger#42, #44"""
    follower = new_follower(tmp_path, 3)
    follower.handle(push(PushType.APPEND, *chain(9, 900, b"x")), "dropped", 0)
    own = follower.store.get(1)
    follower.handle(push(PushType.COMPARE, own, term=99), "equal", 0)
    other = Entry(index=1, term=1, pos=own.pos, body=b"?")
    follower.handle(push(PushType.COMPARE, other), "differs", 0)
    follower.handle(push(PushType.COMPARE, Entry(index=7, term=1, pos=0, body=b"")), "beyond", 0)
    assert codes(follower) == {"equal": 200, "differs": 406, "beyond": 406}
    follower.work(5000)
    assert codes(follower) == {}


def test_dropped_appends_are_reported_to_their_owner(tmp_path: Path) -> None:
    """They get no response, so they must not count as outstanding for ever."""
    follower = new_follower(tmp_path, 3)
    for index in (9, 12):
        follower.handle(push(PushType.APPEND, *chain(index, 900, b"x")), f"append {index}", 0)
    follower.handle(push(PushType.COMPARE, follower.store.get(1)), "compare", 0)
    assert (follower.take_dropped(), follower.take_dropped()) == (["append 9", "append 12"], [])


def test_of_too_many_appends_the_farthest_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that sends only early ones keeps little memory, and hinders no others."""
    monkeypatch.setattr("rmqlab.dledger.follower.MOST_WAITING", 2)
    follower = new_follower(tmp_path, 3)
    place = follower.store.data.max_offset
    for index in (1, 90, 80, 5):
        follower.handle(push(PushType.APPEND, *chain(index, 900, b"x")), f"append {index}", 0)
    assert codes(follower) == {"append 1": 421, "append 90": 421}
    follower.handle(push(PushType.APPEND, *chain(3, place, b"x")), "append 3", 0)
    assert codes(follower) == {"append 80": 421, "append 3": 200}


def test_a_truncation_leaves_room_behind_it(tmp_path: Path) -> None:
    """A log that begins anew at the last possible place could not go on."""
    follower = new_follower(tmp_path, 3)
    for index, pos in ((LAST_INDEX // 2, 0), (5, LAST_POSITION // 2)):
        far = Entry(index=index, term=3, pos=pos, body=b"x")
        with pytest.raises(DLedgerError, match="UNEXPECTED_ARGUMENT"):
            follower.handle(push(PushType.TRUNCATE, far), "far", 0)
    near = Entry(index=LAST_INDEX // 2 - 1, term=3, pos=0, body=b"x")
    follower.handle(push(PushType.TRUNCATE, near), "near", 0)
    finish_disk_work(follower)
    (following,) = chain(LAST_INDEX // 2, near.end, b"y")
    follower.handle(push(PushType.APPEND, following), "following", 0)
    assert codes(follower) == {"near": 200, "following": 200}


def test_entries_of_far_terms_are_replicated(tmp_path: Path) -> None:
    """A group that a hostile term has reached stores entries still."""
    follower = new_follower(tmp_path)
    follower.member.ballot = Ballot(2**62 + 5)
    follower.handle(push(PushType.APPEND, *chain(0, 0, b"x", term=2**62 + 5), term=2**62 + 5), "append", 0)
    assert codes(follower) == {"append": 200}


def test_appends_that_do_not_fit_are_checked_each_second(tmp_path: Path) -> None:
    """dledger#43"""
    follower = new_follower(tmp_path, 3)
    follower.work(1000)
    other = Entry(index=1, term=3, pos=49, body=b"other")
    follower.handle(push(PushType.APPEND, follower.store.get(2)), "stale", 1100)
    follower.handle(push(PushType.APPEND, other), "differs", 1100)
    for number, index in enumerate((8, 6)):
        follower.handle(push(PushType.APPEND, *chain(index, 900, b"x")), f"early {index}", 1100 + number)
    assert (codes(follower), follower.wake_at) == ({}, 2000)
    follower.work(2000)
    assert codes(follower) == {"stale": 200, "differs": 406}
    follower.work(3000)
    assert codes(follower) == {"early 6": 406}
    follower.work(4000)
    assert codes(follower) == {}
    for caller in ("repeated", "repeated again"):
        follower.handle(push(PushType.APPEND, *chain(6, 900, b"x")), caller, 4000)
    assert codes(follower) == {"repeated again": 413}
    follower.work(5000)
    assert codes(follower) == {"repeated": 406}


# ---- leader ----


def test_an_append_is_acknowledged_by_a_quorum(tmp_path: Path) -> None:
    """dledger#39, #40: in the order of the log, with its position."""
    leader = new_leader(tmp_path)
    leader.append([b"a"], "one", 0)
    leader.append([b"b", b"c"], "two", 0)
    assert leader.take_outcomes() == []
    leader.acks.report(3, "n2", 2, 10)
    outcomes = [(caller, outcome.code, outcome.index, outcome.pos) for caller, outcome in leader.take_outcomes()]
    assert outcomes == [("one", 200, 0, 0), ("two", 200, 2, 98)]
    assert leader.store.committed_index == 2


def test_reports_of_other_terms_do_not_count(tmp_path: Path) -> None:
    """dledger#39"""
    leader = new_leader(tmp_path)
    leader.append([b"a"], "one", 0)
    leader.acks.report(2, "n1", 0, 10)
    assert (leader.take_outcomes(), leader.store.committed_index) == ([], -1)


def test_an_append_waits_for_two_and_a_half_seconds(tmp_path: Path) -> None:
    """dledger#40: it may still be committed later, and is reported once."""
    leader = new_leader(tmp_path)
    leader.append([b"a"], "one", 0)
    leader.work(2499)
    assert (leader.take_outcomes(), leader.acks.wake_at) == ([], 2500)
    leader.work(2500)
    assert [outcome.code for _, outcome in leader.take_outcomes()] == [502]
    leader.acks.report(3, "n1", 0, 2600)
    assert (leader.take_outcomes(), leader.store.committed_index) == ([], 0)


def test_appends_end_when_the_member_leads_in_a_new_term(tmp_path: Path) -> None:
    """dledger#40"""
    leader = new_leader(tmp_path)
    leader.append([b"a"], "one", 0)
    leader.member.become_candidate(3)
    leader.work(9000)
    assert leader.take_outcomes() == []
    leader.member.next_term()
    leader.member.become_leader()
    leader.work(9001)
    assert [outcome.code for _, outcome in leader.take_outcomes()] == [501]


@pytest.mark.parametrize(
    "case", ["NOT_LEADER", "LEADER_TRANSFERRING", "LEADER_PENDING_FULL", "REQUEST_WITH_EMPTY_BODYS"]
)
def test_appends_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """dledger#40"""
    leader = new_leader(tmp_path)
    match case:
        case "NOT_LEADER":
            leader.member.become_follower("n1")
        case "LEADER_TRANSFERRING":
            leader.member.transferee = "n1"
        case "LEADER_PENDING_FULL":
            monkeypatch.setattr("rmqlab.dledger.acks.MAX_PENDING", 0)
            leader.append([b"a"], "one", 0)
    end = leader.store.end_index
    with pytest.raises(Exception, match=case):
        leader.append([] if case == "REQUEST_WITH_EMPTY_BODYS" else [b"b"], "two", 0)
    assert leader.store.end_index == end


def test_a_pusher_compares_first_and_then_appends_without_waiting(tmp_path: Path) -> None:
    """dledger#33, #34"""
    leader = new_leader(tmp_path, entries=1)
    leader.work(0)
    compares = leader.take_pushes()
    assert [(each.peer, each.request.type, each.request.first_index) for each in compares] == [
        ("n1", PushType.COMPARE, 0),
        ("n2", PushType.COMPARE, 0),
    ]
    follower = new_follower(tmp_path / "n1", entries=1)
    follower.handle(compares[0].request, "n0", 0)
    leader.receive(compares[0], follower.take_responses()[0][1], 0)
    for body in (b"a", b"b", b"c"):
        leader.append([body], "append", 1)
    assert [each.request.first_index for each in leader.take_pushes()] == [-1, 1, 2, 3]


def test_a_lost_append_is_repeated_after_a_second(tmp_path: Path) -> None:
    """dledger#35"""
    leader = appending(tmp_path)
    leader.append([b"b"], "two", 100)
    leader.append([b"c"], "three", 100)
    assert of_n1(leader) == [(PushType.APPEND, 1), (PushType.APPEND, 2)]
    leader.work(1100)
    assert of_n1(leader) == []
    leader.work(1101)
    assert of_n1(leader) == [(PushType.COMMIT, -1), (PushType.APPEND, 1)]


def test_at_most_a_thousand_appends_are_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dledger#34"""
    monkeypatch.setattr("rmqlab.dledger.pending.MOST_PENDING", 3)
    leader = appending(tmp_path)
    for number in range(5):
        leader.append([b"x"], f"append {number}", 1)
    assert [index for push_type, index in of_n1(leader) if push_type is PushType.APPEND] == [1, 2, 3]


def test_appends_under_way_have_so_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated one counts once; one more is sent for each that the peer has stored."""
    monkeypatch.setattr("rmqlab.dledger.pending.MOST_PENDING_BYTES", 200)
    leader = appending(tmp_path)
    for number in range(5):
        leader.append([bytes(52)], f"append {number}", 1)
    first, second = (each for each in leader.pushers["n1"].take_pushes() if each.request.type is PushType.APPEND)
    assert [first.request.first_index, second.request.first_index] == [1, 2]
    for now in (1500, 3000):
        leader.work(now)
        assert [index for push_type, index in of_n1(leader) if push_type is PushType.APPEND] == [1]
    leader.receive(first, PushEntryResponse(term=3, index=1, count=1), 3001)
    assert of_n1(leader) == [(PushType.APPEND, 3), (PushType.APPEND, 2)]  # 2 is late by now
    leader.acks.report(3, "n1", 4, 3002)  # the responses to 2 and 3 were lost
    leader.work(3003)
    assert of_n1(leader) == [(PushType.APPEND, 4), (PushType.APPEND, 5)]


def test_an_append_that_timed_out_holds_no_caller(tmp_path: Path) -> None:
    """The caller is a request of megabytes, and 10,000 may wait."""
    leader = appending(tmp_path)
    leader.append([b"b"], "two", 0)
    leader.work(2500)
    assert [caller for caller, _ in leader.take_outcomes()] == ["two"]
    assert [waiting.caller for waiting in leader.acks._waiting.values()] == [None]


def test_a_commit_is_sent_when_nothing_is_appended(tmp_path: Path) -> None:
    """dledger#37"""
    leader = appending(tmp_path)
    leader.append([b"b"], "two", 100)
    of_n1(leader)
    leader.work(1100)
    assert of_n1(leader) == []
    leader.work(1101)
    assert of_n1(leader)[0] == (PushType.COMMIT, -1)


def test_an_inconsistent_peer_is_compared_again(tmp_path: Path) -> None:
    """dledger#36: at once after 406 to an APPEND, after 500 ms if a COMPARE fails."""
    leader = appending(tmp_path)
    leader.append([b"b"], "two", 100)
    sent = next(each for each in leader.take_pushes() if each.request.type is PushType.APPEND)
    leader.receive(sent, None, 110)
    assert of_n1(leader) == []
    leader.receive(sent, PushEntryResponse(code=DLedgerCode.INCONSISTENT_STATE, term=3), 120)
    (compare,) = leader.pushers["n1"].take_pushes()
    assert compare.request.type is PushType.COMPARE
    leader.receive(compare, PushEntryResponse(code=DLedgerCode.NOT_FOLLOWER), 130)
    leader.work(629)
    assert of_n1(leader) == []
    leader.work(630)
    assert of_n1(leader) == [(PushType.COMPARE, 1)]


def test_a_peer_that_refuses_an_entry_again_rests(tmp_path: Path) -> None:
    """A peer with a full disk kept both members busy: 500 ms, as after errors."""
    leader = appending(tmp_path)
    leader.append([b"b"], "two", 100)
    refusal = PushEntryResponse(code=DLedgerCode.INCONSISTENT_STATE, term=3, end_index=0)
    answers = [
        (PushType.APPEND, 1, refusal),
        (PushType.COMPARE, 1, refusal),
        (PushType.COMPARE, 0, PushEntryResponse(term=3, end_index=0)),
        (PushType.APPEND, 1, refusal),
    ]
    for now, (push_type, index, response) in enumerate(answers, 127):
        (sent,) = (each for each in leader.pushers["n1"].take_pushes() if each.request.type is push_type)
        assert sent.request.first_index == index
        leader.receive(sent, response, now)
    leader.work(629)
    assert of_n1(leader) == []
    leader.work(630)
    assert of_n1(leader) == [(PushType.COMPARE, 1)]


def test_a_comparison_that_ends_without_leadership_is_begun_again(tmp_path: Path) -> None:
    """dledger#36: a leader that resigned may be elected again in its term."""
    leader = new_leader(tmp_path, entries=1)
    leader.work(0)
    compare = leader.pushers["n1"].take_pushes()[0]
    leader.member.become_candidate(3)
    leader.receive(compare, None, 3000)
    leader.member.become_leader()
    leader.work(3001)
    assert of_n1(leader) == [(PushType.COMPARE, 0)]
