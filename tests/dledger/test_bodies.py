"""Bodies against those that fastjson wrote for a real DLedger."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.dledger import bodies
from rmqlab.dledger.bodies import (
    MOST_IN_BATCH,
    EntryBody,
    PushEntryRequest,
    PushEntryResponse,
    VoteRequest,
    VoteResponse,
    refusal,
)
from rmqlab.dledger.codes import DLedgerCode, PushType, VoteResult
from rmqlab.dledger.entry import Entry
from rmqlab.remoting.body import BodyError

Recorded = Callable[[str], list[dict[str, Any]]]

NEVER_SENT = {"PullEntriesRequest", "PullEntriesResponse", "BatchAppendEntryRequest"}
"""PULL has no handler, and a batch append exists inside of a process only."""


def test_every_recorded_body_is_read_and_written_again(recorded: Recorded) -> None:
    """dledger#8"""
    rows = [row for row in recorded("bodies.jsonl") if row["class"] not in NEVER_SENT]
    assert len({row["class"] for row in rows}) == 14
    for row in rows:
        if row["name"] == "batch-read-again":
            continue  # the next test
        kind = getattr(bodies, row["class"])
        assert kind.decode(row["json"].encode()).encode().decode() == row["json"]


def test_a_real_member_ignores_the_computed_members_of_a_batch(recorded: Recorded) -> None:
    """dledger#10"""
    sent, read = (row["json"] for row in recorded("bodies.jsonl") if row["name"].startswith("batch"))
    assert ('"totalSize":99' in sent, '"totalSize":0' in read) == (True, True)
    assert PushEntryRequest.decode(sent.encode()) == PushEntryRequest.decode(read.encode())


def test_a_new_body_is_written_as_the_recorded_one(recorded: Recorded) -> None:
    """dledger#8, #10"""
    entry = EntryBody.of(Entry(index=41, term=7, pos=4137, body="h\u00e9llo".encode()))
    push = PushEntryRequest(
        commit_index=40,
        entry=entry,
        group="broker-a",
        leader_id="n0",
        local_id="n0",
        remote_id="n1",
        term=7,
        type=PushType.COMPARE,
    )
    assert push.encode().decode() in [row["json"] for row in recorded("bodies.jsonl")]


def test_unknown_members_are_ignored_and_missing_ones_have_defaults() -> None:
    """dledger#9"""
    vote = VoteRequest.decode(b'{"group":"g","leaderId":null,"since":"5.3"}')
    assert vote == VoteRequest(group="g")
    assert (vote.code, vote.term, vote.ledger_end_index, vote.ledger_end_term) == (200, -1, -1, -1)


def test_computed_members_of_a_push_are_derived_from_its_entries() -> None:
    """dledger#10"""
    first, second = (EntryBody.of(Entry(index=index, term=1, pos=0, body=b"x")) for index in (4, 5))
    raw = PushEntryRequest(batch_entry=[first, second]).encode().replace(b'"count":2', b'"count":9')
    assert b'"count":9' in raw
    read = PushEntryRequest.decode(raw)
    assert (len(read.entries), read.first_index, read.last_index) == (2, 4, 5)
    assert b'"count":2,' in read.encode()
    assert b'"totalSize":98,' in read.encode()


def test_a_push_without_entries_has_no_index() -> None:
    """dledger#10, #11"""
    assert PushEntryRequest(type=PushType.COMMIT).first_index == -1
    assert b'"index"' not in PushEntryResponse(end_index=3).encode()


def test_unknown_codes_and_results_are_unknown() -> None:
    """dledger#14"""
    assert VoteResponse.decode(b'{"code":999,"voteResult":"REJECT_LATER"}') == VoteResponse(code=999)
    assert VoteResponse(code=999).dledger_code is DLedgerCode.UNKNOWN
    assert VoteResponse(code=416).dledger_code is DLedgerCode.TERM_NOT_READY
    assert VoteResult("REJECT_LATER") is VoteResult.UNKNOWN


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"term":"x"}', b'{"entry":{"index":1}}', b'{"type":"ERASE"}'])
def test_a_body_that_does_not_fit_is_an_error(raw: bytes) -> None:
    with pytest.raises(BodyError):
        PushEntryRequest.decode(raw)


def test_a_refusal_has_the_base_members_of_the_request() -> None:
    """dledger#13"""
    request = VoteRequest(group="g", leader_id="n1", local_id="n1", remote_id="n9", term=4)
    response = refusal(VoteResponse, request, DLedgerCode.UNKNOWN_MEMBER, leader_id=None)
    assert response == VoteResponse(code=401, group="g", local_id="n1", remote_id="n9", term=4)


@given(body=st.binary(max_size=300), index=st.integers(0, 2**62), term=st.integers(0, 2**62), pos=st.integers(0, 2**62))
def test_an_entry_survives_json_and_the_file_format(body: bytes, index: int, term: int, pos: int) -> None:
    """dledger#2, #8"""
    entry = Entry(index=index, term=term, pos=pos, body=body)
    assert Entry.decode(entry.encode()) == entry
    push = PushEntryRequest.decode(PushEntryRequest(entry=EntryBody.of(entry)).encode())
    assert [each.entry() for each in push.entries] == [entry]


@pytest.mark.parametrize("kind", [VoteRequest, VoteResponse, PushEntryRequest])
@pytest.mark.parametrize(("term", "is_accepted"), [(2**62 + 1, True), (2**63 - 1, True), (2**63, False)])
def test_every_long_is_a_term(kind: type[bodies.Message], term: int, is_accepted: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    body = b'{"term":%d}' % term
    if is_accepted:
        assert kind.decode(body).term == term
    else:
        with pytest.raises(BodyError, match="term"):
            kind.decode(body)


def test_a_batch_has_a_limit() -> None:
    """Each entry of two bytes would take hundreds of times their memory."""
    body = b'{"batchEntry":[%s]}' % b",".join([b'{"body":""}'] * (MOST_IN_BATCH + 1))
    with pytest.raises(BodyError, match="batchEntry"):
        PushEntryRequest.decode(body)
