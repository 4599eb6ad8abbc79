"""Members that acknowledge entries once they are on disk."""

import random
from collections import deque
from pathlib import Path

import attrs
import pytest

from rmqlab.dledger.codes import DLedgerCode, PushType
from rmqlab.dledger.follower import Follower
from rmqlab.dledger.replication import Replication
from tests.dledger.faultschedule import play
from tests.dledger.faultygroup import FaultyGroup
from tests.dledger.leaders import new_leader
from tests.dledger.test_replication import chain, codes, finish_disk_work, new_follower, push


def syncing_follower(root: Path, entries: int = 0) -> Follower[str]:
    follower = new_follower(root, entries)
    follower.member.settings = attrs.evolve(follower.member.settings, ack_after_sync=True)
    return follower


def test_a_follower_responds_to_an_append_after_a_sync(tmp_path: Path) -> None:
    follower = syncing_follower(tmp_path)
    first, second = chain(0, 0, b"a", b"b")
    follower.handle(push(PushType.APPEND, first), "first", 0)
    follower.store.flush()
    follower.handle(push(PushType.APPEND, second), "second", 0)
    follower.handle(push(PushType.COMMIT), "commit", 0)
    assert codes(follower) == {"first": 200, "commit": 200}
    follower.store.flush()
    follower.release()
    assert codes(follower) == {"second": 200}


def test_an_equal_entry_is_acknowledged_after_a_sync(tmp_path: Path) -> None:
    """The leader counts it from the comparison on. A difference is reported at once."""
    follower = syncing_follower(tmp_path, 2)
    (other,) = chain(1, 0, b"other")
    follower.handle(push(PushType.COMPARE, other), "differs", 0)
    follower.handle(push(PushType.COMPARE, follower.store.get(1)), "equal", 0)
    assert codes(follower) == {"differs": 406}
    follower.store.flush()
    follower.release()
    assert codes(follower) == {"equal": 200}


def test_a_truncation_forgets_responses_for_what_it_cuts(tmp_path: Path) -> None:
    follower = syncing_follower(tmp_path)
    first, second = chain(0, 0, b"a", b"b")
    follower.handle(push(PushType.APPEND, first), "first", 0)
    follower.handle(push(PushType.APPEND, second), "second", 0)
    follower.handle(push(PushType.TRUNCATE, first), "truncate", 0)
    finish_disk_work(follower)
    assert follower.take_dropped() == ["first", "second"]
    follower.store.flush()
    follower.release()
    assert codes(follower) == {"truncate": 200}


def test_so_many_responses_wait_for_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk may be stuck, and the peer hostile."""
    monkeypatch.setattr("rmqlab.dledger.follower.MOST_HELD", 2)
    follower = syncing_follower(tmp_path)
    for number, entry in enumerate(chain(0, 0, b"a", b"b", b"c")):
        follower.handle(push(PushType.APPEND, entry), f"append {number}", 0)
    assert codes(follower) == {"append 2": 421}
    follower.store.flush()
    follower.release()
    assert codes(follower) == {"append 0": 200, "append 1": 200}


def outcomes(leader: Replication[str, str]) -> list[tuple[str, DLedgerCode]]:
    return [(caller, outcome.dledger_code) for caller, outcome in leader.take_outcomes()]


def test_a_leader_counts_itself_after_a_sync(tmp_path: Path) -> None:
    leader = new_leader(tmp_path)
    leader.member.settings = attrs.evolve(leader.member.settings, ack_after_sync=True)
    leader.append([b"a"], "first", 0)
    leader.append([b"b"], "second", 0)
    leader.acks.report(3, "n1", 1, 0)
    assert outcomes(leader) == []
    leader.store.synced_end = leader.store.get(0).end
    leader.note_synced(1)
    assert outcomes(leader) == [("first", DLedgerCode.SUCCESS)]
    leader.store.flush()
    leader.note_synced(2)
    assert outcomes(leader) == [("second", DLedgerCode.SUCCESS)]


@pytest.mark.parametrize("seed", [2, 5, 8])
def test_no_acknowledged_entry_is_lost_with_the_power_of_all(seed: int) -> None:
    """With faults of all kinds. In DLedger, a majority's loss of power may cost some."""
    assert play(seed).group.invariants.acknowledged > 0


@pytest.mark.parametrize("acks_after_sync", [False, True])
def test_the_loss_of_power_of_all_members(tmp_path: Path, *, acks_after_sync: bool) -> None:
    """Right after an entry was acknowledged."""
    group = FaultyGroup(tmp_path, 3, random.Random(1), loses_power=True, acks_after_sync=acks_after_sync)
    group.run(15_000)
    (leader,) = group.leaders
    group.append(leader, [b"acknowledged"])
    while not group.invariants.acknowledged:
        group.run(1)
    for node in group.nodes.values():
        node.disk.keeps_unsynced = False
        group.stop(node, loses_power=True)
    for node in group.nodes.values():
        group.start(node)
    group.run(15_000)
    (leader,) = group.leaders
    assert leader.running.store.end_index == (0 if acks_after_sync else -1)


class CountedEnd(int):
    """The end of a log that counts how often it was compared."""

    count = 0

    def __le__(self, other: int) -> bool:
        CountedEnd.count += 1
        return int(self) <= int(other)


def test_each_held_response_is_looked_at_once(tmp_path: Path) -> None:
    """Up to 2000 wait, and each APPEND looks whether some may go."""
    follower = syncing_follower(tmp_path)
    entries = chain(0, 0, *(b"%d" % number for number in range(20)))
    for entry in entries:
        follower.handle(push(PushType.APPEND, entry), f"append {entry.index}", 0)
    follower._held = deque((CountedEnd(end), *held) for end, *held in follower._held)  # type: ignore[misc]
    for number in range(20):
        follower.store.synced_end = entries[number].end
        follower.release()
    assert len(codes(follower)) == 20
    assert CountedEnd.count < 3 * 20
