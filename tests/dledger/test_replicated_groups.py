"""Groups with logs on a network that loses, delays and repeats messages."""

import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmqlab.dledger.bodies import EntryBody, PushEntryRequest
from rmqlab.dledger.codes import PushType
from rmqlab.dledger.member import Role
from rmqlab.store.files.diskcalls import run_calls
from tests.dledger.replicas import Replicas
from tests.dledger.stores import fastest_place, unmapped_at_end


def test_a_group_stores_the_same_bytes(tmp_path: Path) -> None:
    """dledger#39, #41"""
    group = Replicas.of(tmp_path, 3, seed=1)
    group.run(15_000)
    leader = group.leader()
    for number in range(50):
        assert group.append(leader, b"message %d" % number) is None
        group.run(10)
    group.run(3000)
    assert list(group.acknowledged.values()) == [b"message %d" % number for number in range(50)]
    files = [
        {path.name: path.read_bytes() for path in sorted((tmp_path / peer / "data").iterdir())} for peer in group.nodes
    ]
    assert files[0] == files[1] == files[2]
    assert {each.store.committed_index for each in group.replications.values()} == {49}


def test_a_deposed_leader_loses_what_no_quorum_had(tmp_path: Path) -> None:
    """dledger#33, #46: its tail is cut, and those appends get no success."""
    group = Replicas.of(tmp_path, 3, seed=2)
    group.run(15_000)
    old = group.leader()
    group.append(old, b"kept")
    group.run(1000)
    group.isolated.add(old)
    for number in range(3):
        assert group.append(old, b"lost %d" % number) is None
    group.run(30_000)
    (new,) = (peer for peer in group.current_leaders() if peer != old)
    group.append(new, b"new")
    group.heal()
    assert {tuple(group.bodies(peer)) for peer in group.nodes} == {(b"kept", b"new")}
    assert [outcome.code for outcome in group.refused] == [502, 502, 502]


def test_what_a_late_truncate_cuts_is_sent_again(tmp_path: Path) -> None:
    """Section 6.3: without a new entry. DLedger lost it if the leader ended now."""
    group = Replicas.of(tmp_path, 3, seed=7)
    group.run(15_000)
    leader = group.leader()
    for body in (b"first", b"acknowledged"):
        group.append(leader, body)
    group.run(4000)
    member, first = group.nodes[leader].member, EntryBody.of(group.replications[leader].store.get(0))
    for peer in group.followers_of(leader):
        late = PushEntryRequest(
            group=member.settings.group,
            leader_id=leader,
            local_id=leader,
            remote_id=peer,
            term=member.term,
            type=PushType.TRUNCATE,
            entry=first,
        )
        group.replications[peer].handle_push(late, lambda _: None, group.now)
        assert group.bodies(peer) == [b"first"]
    group.run(5000)
    assert {tuple(group.bodies(peer)) for peer in group.nodes} == {(b"first", b"acknowledged")}


def test_a_wiped_member_gets_all_entries(tmp_path: Path) -> None:
    """dledger#33, #46"""
    group = Replicas.of(tmp_path, 3, seed=3)
    group.run(15_000)
    leader = group.leader()
    for number in range(80):
        group.append(leader, bytes([number]) * 60)
        group.run(10)
    run_calls(group.replications[leader].store.deletion_of_first_file())
    other = group.followers_of(leader)[0]
    shutil.rmtree(tmp_path / other)
    group.restart(other)
    group.run(20_000)
    begin = group.replications[leader].store.begin_index
    stores = [group.replications[peer].store for peer in (leader, other)]
    assert begin > 0
    assert {(store.begin_index, store.end_index) for store in stores} == {(begin, 79)}
    assert [stores[1].get(index) for index in range(begin, 80)] == [stores[0].get(index) for index in range(begin, 80)]


@given(
    seed=st.integers(0, 2**32),
    size=st.sampled_from([3, 5]),
    loss=st.sampled_from([0.0, 0.05, 0.3]),
    max_delay=st.sampled_from([20, 400, 2500]),
)
@example(seed=4643674, size=3, loss=0.05, max_delay=2500)  # a leader that was elected again in its term
@example(seed=19752, size=5, loss=0.0, max_delay=20)  # two members that stay outside
@example(seed=1, size=3, loss=0.05, max_delay=400)  # a kill between a truncate and the next append
@settings(max_examples=40)
def test_an_acknowledged_append_is_never_lost(seed: int, size: int, loss: float, max_delay: int) -> None:
    """dledger#20, #41: with messages lost, late, repeated, with kills and partitions."""
    with tempfile.TemporaryDirectory(dir=fastest_place()) as name, unmapped_at_end():
        chance = random.Random(seed)
        group = Replicas.of(Path(name), size, seed, loss=loss, max_delay=max_delay, repeats=0.1, step=50)
        group.run(10_000)
        for number in range(40):
            for leader in group.current_leaders():
                group.append(leader, b"%d at %s" % (number, leader.encode()))
            group.run(chance.choice([50, 200, 1500, 9000]))
            _disturb(group, chance)
        group.heal()
        leader = group.leader()
        group.append(leader, b"last")  # a leader without entries compares nothing
        group.run(5000)
        log = group.bodies(leader)
        assert {index: log[index] for index in group.acknowledged} == group.acknowledged
        assert [members for members in group.leaders.values() if len(members) > 1] == []
        followers = group.followers_of(leader)
        assert len(followers) + 1 >= size // 2 + 1
        assert all(group.bodies(peer) == log for peer in followers)
        for peer in group.nodes.keys() - {leader, *followers}:
            assert _is_stuck(group, peer, leader)


def _is_stuck(group: Replicas, peer: str, leader: str) -> bool:
    """True for a candidate with a greater term and a shorter log (dledger#18)."""
    member, ahead = group.nodes[peer].member, group.nodes[leader].member
    is_behind = (member.end_term, member.end_index) < (ahead.end_term, ahead.end_index)
    return member.role is Role.CANDIDATE and member.term > ahead.term and is_behind


def _disturb(group: Replicas, chance: random.Random) -> None:
    """Kill, restart or isolate members; a majority stays alive."""
    peers = sorted(group.nodes)
    down = [peer for peer in peers if not group.nodes[peer].is_up]
    match chance.randrange(8):
        case 0:
            group.restart(chance.choice(peers))
        case 1 if len(down) < len(peers) // 2:
            group.nodes[chance.choice(peers)].is_up = False
        case 2:
            group.isolated = set(chance.sample(peers, chance.randint(0, len(peers) // 2)))
        case 3:
            for peer in down:
                group.restart(peer)
        case 4:
            group.isolated.clear()
