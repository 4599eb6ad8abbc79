"""JSON bodies of DLedger's requests and responses.

They are written and read as fastjson does (section 2). Members are in alphabetical order on the wire, whatever the
order of declaration; None is left out (dledger#8).
"""

from collections.abc import Sequence
from typing import Annotated, Final, TypeVar

import msgspec

from rmqlab.dledger.codes import DLedgerCode, PushType, VoteResult
from rmqlab.dledger.entry import Entry
from rmqlab.remoting.body import Body
from rmqlab.remoting.header import Int, Long

MOST_IN_BATCH: Final = 10_000
"""Entries of one batch. A broker sends 86 at most: 4096 bytes, of which each entry has 48 in its header alone."""
_write = msgspec.json.Encoder(order="sorted").encode


class EntryBody(Body, frozen=True, kw_only=True):
    """An entry in JSON. `size` is written, and computed from `body` when read."""

    body: bytes
    body_crc: Int = 0
    chain_crc: Int = 0
    channel: Int = 0
    index: Long = 0
    magic: Int = 0
    pos: Long = 0
    size: Int = 0
    term: Long = 0

    @classmethod
    def of(cls, entry: Entry) -> "EntryBody":
        """Return an entry as it is sent."""
        return cls(
            body=entry.body,
            body_crc=entry.body_crc,
            chain_crc=entry.chain_crc,
            channel=entry.channel,
            index=entry.index,
            magic=entry.magic,
            pos=entry.pos,
            size=entry.size,
            term=entry.term,
        )

    def entry(self) -> Entry:
        """Return the entry to store."""
        return Entry(
            index=self.index,
            term=self.term,
            pos=self.pos,
            body=self.body,
            magic=self.magic,
            channel=self.channel,
            chain_crc=self.chain_crc,
            body_crc=self.body_crc,
        )


class Message(Body, frozen=True, kw_only=True):
    """The six members of all requests and responses (RequestOrResponse)."""

    code: Int = DLedgerCode.SUCCESS.value
    group: str | None = None
    leader_id: str | None = None
    local_id: str | None = None
    remote_id: str | None = None
    term: Long = -1

    @property
    def dledger_code(self) -> DLedgerCode:
        return DLedgerCode(self.code)

    def members(self) -> dict[str, object]:
        """Return the written members, by name."""
        names = zip(self.__struct_encode_fields__, self.__struct_fields__, strict=True)
        return {name: value for name, field in names if (value := getattr(self, field)) is not None}

    def encode(self) -> bytes:
        """Return compact JSON with sorted members."""
        return _write(self.members())


M = TypeVar("M", bound=Message)


def refusal(kind: type[M], request: Message, code: DLedgerCode, leader_id: str | None) -> M:
    """Return the response to a request that DLedgerServer rejects.

    It has the request's base members, our leader and the code (dledger#13).
    """
    return kind(
        code=code,
        group=request.group,
        leader_id=leader_id,
        local_id=request.local_id,
        remote_id=request.remote_id,
        term=request.term,
    )


class VoteRequest(Message, frozen=True, kw_only=True):
    """Request of 51001. `leader_id` is the candidate."""

    ledger_end_index: Long = -1
    ledger_end_term: Long = -1


class VoteResponse(Message, frozen=True, kw_only=True):
    """Response of 51001: the base members of the request, but the voter's term."""

    vote_result: VoteResult = VoteResult.UNKNOWN


class HeartBeatRequest(Message, frozen=True, kw_only=True):
    """Request of 51002."""


class HeartBeatResponse(Message, frozen=True, kw_only=True):
    """Response of 51002: `code` and `term` only."""


class PushEntryRequest(Message, frozen=True, kw_only=True):
    """Request of 51004: one entry, a batch, or none with COMMIT.

    The computed members are written for the logs of peers; no peer evaluates them (dledger#10).
    """

    batch_entry: Annotated[list[EntryBody], msgspec.Meta(max_length=MOST_IN_BATCH)] = []
    commit_index: Long = -1
    entry: EntryBody | None = None
    type: PushType = PushType.APPEND

    @property
    def entries(self) -> Sequence[EntryBody]:
        """The entries in order, from a batch or alone."""
        return self.batch_entry or ([self.entry] if self.entry else [])

    @property
    def first_index(self) -> int:
        """Index of the first entry; -1 without entries."""
        return self.entries[0].index if self.entries else -1

    @property
    def last_index(self) -> int:
        """Index of the last entry; -1 without entries."""
        return self.entries[-1].index if self.entries else -1

    def members(self) -> dict[str, object]:
        return super().members() | {
            "batch": bool(self.batch_entry),
            "count": len(self.entries),
            "firstEntryIndex": self.first_index,
            "lastEntryIndex": self.last_index,
            "totalSize": sum(entry.size for entry in self.batch_entry),
        }


class PushEntryResponse(Message, frozen=True, kw_only=True):
    """Response of 51004. `index` is absent after a COMMIT (dledger#11)."""

    begin_index: Long = 0
    count: Int = 0
    end_index: Long = 0
    index: Long | None = None


class LeadershipTransferRequest(Message, frozen=True, kw_only=True):
    """Request of 51005, from an operator to the leader, and from it to the transferee."""

    take_leadership_ledger_index: Long = 0
    transfer_id: str | None = None
    transferee_id: str | None = None


class LeadershipTransferResponse(Message, frozen=True, kw_only=True):
    """Response of 51005."""


class AppendEntryRequest(Message, frozen=True, kw_only=True):
    """Request of 50001."""

    body: bytes | None = None


class AppendEntryResponse(Message, frozen=True, kw_only=True):
    """Response of 50001, and the outcome of each append."""

    index: Long = -1
    pos: Long = -1


class GetEntriesRequest(Message, frozen=True, kw_only=True):
    """Request of 50002."""

    begin_index: Long | None = None
    index_list: list[Long] | None = None
    max_size: Int = 0


class GetEntriesResponse(Message, frozen=True, kw_only=True):
    """Response of 50002: at most one entry."""

    entries: list[EntryBody] = []


class MetadataRequest(Message, frozen=True, kw_only=True):
    """Request of 50000."""


class MetadataResponse(Message, frozen=True, kw_only=True):
    """Response of 50000: the addresses of all members by id."""

    peers: dict[str, str] | None = None
