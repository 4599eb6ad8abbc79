"""A leader's appends and their outcomes, without network and clock.

Section 6.2, class DLedgerEntryPusher.QuorumAckChecker.
"""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import attrs

from rmqlab.dledger.bodies import AppendEntryResponse
from rmqlab.dledger.codes import DLedgerCode, DLedgerError
from rmqlab.dledger.entry import Entry
from rmqlab.dledger.entrystore import EntryStore, Prepare
from rmqlab.dledger.member import Member

MAX_WAIT_ACK_MS: Final = 2500
MAX_PENDING: Final = 10_000
"""Appends that may wait; one more is accepted, as by DLedger."""

Caller = TypeVar("Caller")
"""The owner's reference to the caller of an append."""


@attrs.define
class _Waiting(Generic[Caller]):
    """An append that waits for a quorum.

    After its timeout it stays until it is committed, without its caller: a request has megabytes.
    """

    index: int
    pos: int
    deadline: int
    caller: Caller | None
    """None once it is finished."""

    @property
    def is_finished(self) -> bool:
        return self.caller is None


@attrs.define
class Acks(Generic[Caller]):
    """Appends of a leader in its term, and how far each member has stored them."""

    member: Member
    store: EntryStore
    term: int = -1
    _watermarks: dict[str, int] = attrs.field(factory=dict)
    """Index of the last entry that a member has, by id; -1 until it is known in this term."""
    _waiting: dict[int, _Waiting[Caller]] = attrs.field(factory=dict)
    """By index, in rising order."""
    _outcomes: list[tuple[Caller, AppendEntryResponse]] = attrs.field(factory=list)

    def take_outcomes(self) -> list[tuple[Caller, AppendEntryResponse]]:
        """Return the appends that are decided, once."""
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    @property
    def wake_at(self) -> int | None:
        """Time of the next timeout; None without waiting appends, or without leadership."""
        if not self.member.is_leader:
            return None
        return next((each.deadline for each in self._waiting.values() if not each.is_finished), None)

    def watermark(self, peer: str) -> int:
        """Return the index of the last entry that a peer is known to have in this term."""
        return self._watermarks.get(peer, -1)

    def append(self, bodies: Sequence[bytes], caller: Caller, now: int, prepare: Prepare | None = None) -> list[Entry]:
        """Append one entry per body (dledger#40).

        The outcome is that of the last one. DLedgerError if nothing was appended: NOT_LEADER, LEADER_TRANSFERRING,
        LEADER_PENDING_FULL, REQUEST_WITH_EMPTY_BODYS. An error of the store is raised, too; entries before the failed
        one stay in the log.
        """
        self.enter_term()
        if not self.member.is_leader:
            raise DLedgerError(DLedgerCode.NOT_LEADER)
        if self.member.transferee is not None:
            raise DLedgerError(DLedgerCode.LEADER_TRANSFERRING)
        if len(self._waiting) > MAX_PENDING:
            raise DLedgerError(DLedgerCode.LEADER_PENDING_FULL)
        if not bodies:
            raise DLedgerError(DLedgerCode.REQUEST_WITH_EMPTY_BODYS)
        try:
            entries = [self.store.append(self.term, body, prepare) for body in bodies]
        finally:
            self.member.end_index, self.member.end_term = self.store.end_index, self.store.end_term
        self._waiting[entries[-1].index] = _Waiting(entries[-1].index, entries[-1].pos, now + MAX_WAIT_ACK_MS, caller)
        self.report(self.term, self.member.self_id, self._own_index, now)
        return entries

    @property
    def _own_index(self) -> int:
        """The last entry that this member acknowledges itself."""
        return self.store.synced_index if self.member.settings.ack_after_sync else self.store.end_index

    def note_synced(self, now: int) -> None:
        """Acknowledge this member's own entries on disk, with `ack_after_sync`."""
        if self.member.is_leader:
            self.report(self.member.term, self.member.self_id, self._own_index, now)

    def enter_term(self) -> None:
        """Begin a new term as leader: appends of earlier ones end with 501 (dledger#40).

        A member that is no leader any more changes nothing: DLedger does not even time its appends out.
        """
        if not self.member.is_leader or self.term == self.member.term:
            return
        for waiting in self._waiting.values():
            self._finish(waiting, DLedgerCode.TERM_CHANGED)
        self.term = self.member.term
        self._waiting.clear()
        self._watermarks = {self.member.self_id: self._own_index}

    def report(self, term: int, peer: str, index: int, now: int) -> None:
        """Note that a peer has all entries up to an index, and `check`."""
        if term == self.term and index > self.watermark(peer):
            self._watermarks[peer] = index
        self.check(now)

    def check(self, now: int) -> None:
        """Commit entries that a quorum has, and time appends out (dledger#39, #40).

        DLedger stops at the first index without append, so a batch behind it never times out. This checks all.
        """
        self.enter_term()
        if not self.member.is_leader:
            return
        peers = self.member.settings.peers
        quorum_index = sorted(map(self.watermark, peers), reverse=True)[len(peers) // 2]
        self.store.commit(quorum_index)
        for index in [index for index in self._waiting if index <= quorum_index]:
            self._finish(self._waiting.pop(index), DLedgerCode.SUCCESS)
        for waiting in self._waiting.values():
            if now < waiting.deadline:
                break
            self._finish(waiting, DLedgerCode.WAIT_QUORUM_ACK_TIMEOUT)

    def _finish(self, waiting: _Waiting[Caller], code: DLedgerCode) -> None:
        caller, waiting.caller = waiting.caller, None
        if caller is None:
            return
        is_known = code is not DLedgerCode.TERM_CHANGED
        response = AppendEntryResponse(
            code=code,
            group=self.member.settings.group,
            index=waiting.index,
            leader_id=self.member.leader_id,
            pos=waiting.pos if code is DLedgerCode.SUCCESS else -1,
            term=self.term if is_known else -1,
        )
        self._outcomes.append((caller, response))
