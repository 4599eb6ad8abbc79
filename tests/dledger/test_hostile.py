"""Odd frames at the port of a group: each ends as a response or as a BodyError."""

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from rmqlab.dledger.codes import DLedgerRequestCode
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.group import GroupSettings
from rmqlab.dledger.member import Member
from rmqlab.dledger.server import Server
from rmqlab.remoting.body import BodyError

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
