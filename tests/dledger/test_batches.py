"""Pushes of several entries, and the quota of a peer that is far behind."""

import errno
from pathlib import Path

import attrs
import pytest

from rmqlab.dledger.bodies import PushEntryRequest, PushEntryResponse
from rmqlab.dledger.codes import DLedgerCode, PushType
from rmqlab.dledger.entry import Entry
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.group import GroupSettings
from rmqlab.dledger.member import Ballot, Member
from rmqlab.dledger.pending import MOST_PENDING
from rmqlab.dledger.pusher import Push
from rmqlab.dledger.quota import Quota
from rmqlab.dledger.replication import Replication
from tests.dledger.replicas import Replicas
from tests.dledger.test_replication import chain, codes, new_follower, push

PEERS = {"n0": "host:1", "n1": "host:2", "n2": "host:3"}
ENTRY = 48 + 52
"""Bytes of each entry here."""


@attrs.define
class Leader:
    """n0, which pushes to n1. n2 does not respond."""

    replication: Replication[str, str]
    now: int = 0

    @classmethod
    def open(cls, root: Path, entries: int, **settings: object) -> "Leader":
        store = EntryStore.open(root, 2**20, 2**20)
        for _ in range(entries):
            store.append(1, bytes(52))
        group = GroupSettings(group="g", self_id="n0", peers=PEERS, **settings)  # type: ignore[arg-type]
        member = Member(group, lambda _ballot: None, Ballot(1))
        leader = cls(Replication.of(member, store))
        member.become_leader()
        return leader

    def append(self, count: int) -> None:
        self.replication.append([bytes(52)] * count, "append", self.now)

    def pushes(self, now: int | None = None) -> list[Push]:
        """Return the requests to n1 at a time, except COMMITs."""
        if now is not None:
            self.now = now
            self.replication.work(now)
        pushes = self.replication.take_pushes()
        return [push for push in pushes if push.peer == "n1" and push.request.type is not PushType.COMMIT]

    def ranges(self, now: int | None = None) -> list[tuple[int, int]]:
        """Return first and last index of each APPEND, which is a batch."""
        appends = [push.request for push in self.pushes(now)]
        assert all(request.batch_entry and request.entry is None for request in appends)
        return [(request.first_index, request.last_index) for request in appends]

    def start_appending(self, index: int = 0) -> None:
        """n1 has equal entries up to an index."""
        (compare,) = self.pushes(0)
        code, end = DLedgerCode.SUCCESS, index
        if compare.request.first_index != index:
            code = DLedgerCode.INCONSISTENT_STATE
        self.respond(compare, PushEntryResponse(code=code, term=1, begin_index=0, end_index=end))
        if code is DLedgerCode.INCONSISTENT_STATE:
            (compare,) = self.pushes()
            self.respond(compare, PushEntryResponse(term=1, begin_index=0, end_index=end))

    def respond(self, push: Push, response: PushEntryResponse) -> None:
        self.replication.receive(push, response, self.now)


def test_entries_are_collected_to_a_size_or_to_the_end_of_the_log(tmp_path: Path) -> None:
    """dledger#38: a batch may exceed its size by one entry."""
    leader = Leader.open(tmp_path, 8, enable_batch_push=True, max_batch_push_size=2 * ENTRY + 1)
    leader.start_appending()
    assert leader.ranges() == [(1, 3), (4, 6), (7, 7)]
    leader.append(1)
    assert leader.ranges() == [(8, 8)]


def test_a_batch_is_acknowledged_and_repeated_as_a_whole(tmp_path: Path) -> None:
    """dledger#38: after 1000 without a response."""
    leader = Leader.open(tmp_path, 1, enable_batch_push=True)
    leader.start_appending()
    leader.append(3)
    leader.append(2)
    first, second = leader.pushes()
    assert (first.request.first_index, first.request.last_index, second.request.first_index) == (1, 3, 4)
    assert leader.ranges(1000) == []
    assert leader.ranges(1001) == [(1, 3)]
    leader.respond(first, PushEntryResponse(term=1, index=1, count=3))
    assert leader.replication.acks.watermark("n1") == 3
    assert leader.ranges() == [(4, 5)]


def test_a_response_without_a_count_acknowledges_one_entry(tmp_path: Path) -> None:
    """dledger#38: of a follower that is older than batches (0.2.5)."""
    leader = Leader.open(tmp_path, 1, enable_batch_push=True)
    leader.start_appending()
    leader.append(3)
    (push,) = leader.pushes()
    leader.respond(push, PushEntryResponse(term=1, index=1))
    assert leader.replication.acks.watermark("n1") == 1


def test_at_most_a_thousand_batches_are_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dledger#34, #38"""
    monkeypatch.setattr("rmqlab.dledger.pending.MOST_PENDING", 2)
    leader = Leader.open(tmp_path, 1, enable_batch_push=True, max_batch_push_size=1)
    leader.start_appending()
    leader.append(4)
    first, _ = pushes = leader.pushes()
    assert [push.request.first_index for push in pushes] == [1, 2]
    leader.respond(first, PushEntryResponse(term=1, index=1, count=1))
    assert leader.ranges() == [(3, 3)]


def test_a_batch_that_was_stored_in_part_is_refused_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The response to the first one may be lost, and the leader then compares nothing."""
    follower = new_follower(tmp_path)
    batch, write = chain(0, 0, b"a", b"b"), EntryStore.append_entry

    def fail_at_second(store: EntryStore, entry: Entry) -> None:
        if entry.index == 1:
            raise OSError(errno.EIO, "broken")
        write(store, entry)

    with monkeypatch.context() as patch:
        patch.setattr(EntryStore, "append_entry", fail_at_second)
        follower.handle(push(PushType.APPEND, *batch), "fails", 0)
    assert (codes(follower), follower.store.end_index) == ({"fails": 406}, 0)
    for number in (1, 2):
        follower.handle(push(PushType.APPEND, *batch), f"repeated {number}", 1000 * number)
        follower.work(1000 * number + 999)
        follower.work(1000 * number + 1000)
        assert codes(follower) == {f"repeated {number}": 406}


def test_a_group_with_batches_stores_the_same_bytes(tmp_path: Path) -> None:
    """dledger#38: with messages lost, repeated and late."""
    group = Replicas.of(tmp_path, 3, seed=5, enable_batch_push=True, loss=0.1, repeats=0.1, max_delay=400)
    group.run(30_000)
    count = 0
    while count < 60:
        for leader in group.current_leaders():
            for _ in range(3):
                count += group.append(leader, b"%d" % count) is None
        group.run(100)
    group.heal()
    bodies = [group.bodies(peer) for peer in group.nodes]
    assert bodies[0] == bodies[1] == bodies[2]
    assert len(bodies[0]) >= 60
    assert max(group.batches) > 1


def test_a_quota_is_one_of_a_second() -> None:
    """dledger#61"""
    quota = Quota(100)
    assert [quota.use(40, 10_300), quota.use(40, 10_400), quota.use(40, 10_500), quota.use(1, 10_600)] == [
        0,
        0,
        500,
        400,
    ]
    assert quota.use(99, 11_000) == 0


def test_a_peer_that_is_far_behind_gets_so_many_bytes_per_second(tmp_path: Path) -> None:
    """dledger#61: both limits count, 1000 entries and 300 MiB."""
    entries = MOST_PENDING + 20
    leader = Leader.open(tmp_path, entries, peer_push_throttle_point=ENTRY * (entries - 5), peer_push_quota=3 * ENTRY)
    leader.start_appending()
    assert [push.request.first_index for push in leader.pushes()] == [1, 2]
    assert (leader.pushes(999), leader.replication.pushers["n1"].wake_at) == ([], 1000)
    # The quota of this second allows 4 and 5; entries behind those are near enough.
    assert [push.request.first_index for push in leader.pushes(1000)][:4] == [3, 4, 5, 6]


def test_a_repeated_batch_is_a_request_that_a_real_member_reads(tmp_path: Path) -> None:
    """dledger#38, #10"""
    leader = Leader.open(tmp_path, 1, enable_batch_push=True)
    leader.start_appending()
    leader.append(2)
    (push,) = leader.pushes()
    read = PushEntryRequest.decode(push.request.encode())
    assert (read.first_index, read.last_index, len(read.batch_entry)) == (1, 2, 2)
    assert push.request.members()["batch"] is True
    assert push.request.members()["totalSize"] == 2 * ENTRY
