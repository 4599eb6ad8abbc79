"""Responses to requests of clients that only read: METADATA and GET.

Section 2.1, class DLedgerServer.
"""

from rmqlab.dledger.bodies import (
    EntryBody,
    GetEntriesRequest,
    GetEntriesResponse,
    MetadataRequest,
    MetadataResponse,
    refusal,
)
from rmqlab.dledger.codes import DLedgerCode, DLedgerError
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.member import Member
from rmqlab.remoting.body import BodyError


def handle_metadata(member: Member, request: MetadataRequest) -> MetadataResponse:
    """Return this member's view of the group, in any role (handleMetadata)."""
    try:
        member.check_recipient(request)
    except DLedgerError as exc:
        return refusal(MetadataResponse, request, exc.code, member.leader_id)
    settings = member.settings
    return MetadataResponse(group=settings.group, leader_id=member.leader_id, peers=settings.peers)


def handle_get(member: Member, store: EntryStore, request: GetEntriesRequest) -> GetEntriesResponse:
    """Return the leader's entry at `begin_index`, committed or not (handleGet).

    DLedger ignores `maxSize` and `indexList`. BodyError without `begin_index`, where DLedger fails too.
    """
    if request.begin_index is None:
        raise BodyError("GET without beginIndex")
    try:
        member.check_recipient(request)
        _check_leads(member)
        entry = store.get(request.begin_index)
    except DLedgerError as exc:
        return refusal(GetEntriesResponse, request, exc.code, member.leader_id)
    return GetEntriesResponse(group=member.settings.group, entries=[EntryBody.of(entry)])


def _check_leads(member: Member) -> None:
    if not member.is_leader:
        raise DLedgerError(DLedgerCode.NOT_LEADER)
