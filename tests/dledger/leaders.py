"""Leaders of three, without network and clock."""

from pathlib import Path

from rmqlab.dledger.codes import PushType
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.group import GroupSettings
from rmqlab.dledger.member import Ballot, Member
from rmqlab.dledger.replication import Replication
from tests.dledger.replicas import DATA_FILE, INDEX_FILE

PEERS = {"n0": "host:1", "n1": "host:2", "n2": "host:3"}


def new_member(term: int = 3) -> Member:
    return Member(GroupSettings(group="g", self_id="n0", peers=PEERS), lambda _ballot: None, Ballot(term))


def new_leader(root: Path, entries: int = 0, term: int = 3) -> Replication[str, str]:
    """Return n0 as leader with some entries of term 1."""
    store = EntryStore.open(root, DATA_FILE, INDEX_FILE)
    for number in range(entries):
        store.append(1, b"%d" % number)
    member = new_member(term)
    replication: Replication[str, str] = Replication.of(member, store)
    member.become_leader()
    return replication


def appending(root: Path) -> Replication[str, str]:
    """Return a leader that appends to n1, and waits for the comparison of n2."""
    leader = new_leader(root)
    leader.work(0)
    leader.append([b"a"], "one", 0)
    pusher = leader.pushers["n1"]
    pusher._awaited = None
    pusher._start_appending(0, 0)
    leader.take_pushes()
    leader.take_outcomes()
    return leader


def of_n1(leader: Replication[str, str]) -> list[tuple[PushType, int]]:
    return [(each.request.type, each.request.first_index) for each in leader.pushers["n1"].take_pushes()]
