"""Odd frames at the port of a group: each ends as a response or as a BodyError.

A false leader takes a bounded amount of memory, and leaves a log that can go on.
"""

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from rmqlab.dledger.codes import DLedgerRequestCode, PushType
from rmqlab.dledger.entry import Entry
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.group import GroupSettings
from rmqlab.dledger.member import Member
from rmqlab.dledger.server import Server
from rmqlab.remoting.body import BodyError
from tests.dledger.test_replication import chain, codes, finish_disk_work, new_follower, push

PEERS = {"n0": "a:1", "n1": "a:2", "n2": "a:3"}
BASE = {"group": "g", "remoteId": "n0", "leaderId": "n1", "localId": "n1"}
BODIES: dict[int, dict[str, Any]] = {
    DLedgerRequestCode.VOTE: BASE | {"ledgerEndIndex": -1, "ledgerEndTerm": -1},
    DLedgerRequestCode.HEART_BEAT: BASE,
    DLedgerRequestCode.PUSH: BASE | {"commitIndex": 0, "entry": {"body": "aGVsbG8=", "magic": 1, "size": 53}},
    DLedgerRequestCode.LEADERSHIP_TRANSFER: BASE | {"transferId": "n0", "transfereeId": "n0"},
    DLedgerRequestCode.METADATA: BASE,
    DLedgerRequestCode.GET: BASE | {"beginIndex": 0, "maxSize": 10},
}
TYPES = ("APPEND", "APPEND", "COMMIT", "COMPARE", "TRUNCATE")
DATA_FILE = 4096
ODD: tuple[Any, ...] = (None, True, -1, 0, 1, 2**31, 2**63, -(2**63), 1e308, "x", "n1", [], {}, [{}], {"index": -1})
KEYS = (
    *BASE,
    "term",
    "type",
    "entry",
    "batchEntry",
    "commitIndex",
    "ledgerEndIndex",
    "ledgerEndTerm",
    "transfereeId",
    "beginIndex",
)


def odd_frame(chance: random.Random, code: int, store: EntryStore, term: int) -> bytes:
    body: dict[str, Any] = BODIES[code] | {"term": max(0, term + chance.choice([0, 0, 1]))}
    if code == DLedgerRequestCode.PUSH:
        entry = body["entry"] | {"index": store.end_index + 1, "pos": store.data.max_offset, "term": term}
        if chance.random() < 0.4:
            entry[chance.choice(list(entry))] = chance.choice(ODD)
        body |= {"type": chance.choice(TYPES), "entry": entry, "term": term}
    if chance.random() < 0.5:
        body[chance.choice(KEYS)] = chance.choice(ODD)
    return json.dumps(body).encode() if chance.random() < 0.97 else chance.randbytes(30)


@pytest.mark.parametrize("seed", range(8))
def test_no_frame_leaves_its_boundary(tmp_path: Path, seed: int) -> None:
    """Requests and responses with odd values; the log stays one that a start accepts."""
    chance = random.Random(seed)
    store = EntryStore.open(tmp_path, DATA_FILE, 1024)
    member = Member(GroupSettings(group="g", self_id="n0", peers=PEERS), lambda _ballot: None)
    server: Server[str, str] = Server.of(member, store, chance.randrange)
    now = 0
    for _ in range(1_500):
        now += chance.choice([1, 50, 400])
        code = chance.choice(list(BODIES))
        with contextlib.suppress(BodyError):
            server.handle(code, odd_frame(chance, code, store, member.term), "caller", now)
        server.work(now)
        for call in server.take_calls():
            answer = {key: chance.choice(ODD) for key in ("code", "term", "index", "voteResult", "endIndex", "count")}
            server.receive(call, json.dumps(answer).encode(), now)
        assert all(response.encode() for _, response in server.take_responses())
    assert store.end_index >= -1
    store.close()
    if store.begin_position % DATA_FILE == 0:  # a log that begins inside of a file is lost at a start (section 7.4)
        assert EntryStore.open(tmp_path, DATA_FILE, 1024).end_index == store.end_index


def test_waiting_appends_have_so_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stay when their connection closes, so no limit of connections counts them."""
    monkeypatch.setattr("rmqlab.dledger.follower.MOST_WAITING_BYTES", 3 * 356)
    follower = new_follower(tmp_path, 3)
    place = follower.store.data.max_offset
    for index in (90, 4, 80, 70):
        follower.handle(push(PushType.APPEND, *chain(index, place + 49, bytes(100))), f"append {index}", 0)
    assert codes(follower) == {"append 90": 421}
    follower.handle(push(PushType.APPEND, *chain(3, place, b"x")), "append 3", 0)
    assert codes(follower) == {"append 80": 421, "append 3": 200, "append 4": 200}
    follower.handle(push(PushType.COMPARE, follower.store.get(1)), "compare", 0)
    follower.handle(push(PushType.APPEND, *chain(60, 900, bytes(1000))), "a large batch waits", 0)
    assert codes(follower) == {"compare": 200}


@pytest.mark.parametrize(("index", "is_own", "committed"), [(2, True, 2), (2, False, -1), (4, True, 4), (0, False, -1)])
def test_a_truncation_takes_commits_back(tmp_path: Path, index: int, committed: int, *, is_own: bool) -> None:
    """DLedger keeps them: readers see later entries before a quorum has them."""
    follower = new_follower(tmp_path, 5)
    store = follower.store
    store.commit(4)
    entry = store.get(index) if is_own else Entry(index=index, term=3, pos=store.get(index).pos, body=b"other")
    follower.handle(push(PushType.TRUNCATE, entry), "truncate", 0)
    finish_disk_work(follower)
    assert (store.end_index, store.committed_index) == (index, committed)
    assert store.committed_end == (store.get(committed).end if committed >= 0 else -1)
    follower.handle(push(PushType.COMMIT, commit=9), "commit", 0)
    assert (store.committed_index, store.committed_end) == (index, entry.end)
