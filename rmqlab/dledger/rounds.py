"""Rounds of votes and of heartbeats: the outcome of the responses of all peers.

Sections 5.2, 5.3.
"""

import enum

import attrs

from rmqlab.dledger.bodies import HeartBeatResponse, VoteResponse
from rmqlab.dledger.codes import DLedgerCode, VoteResult

_LARGER_LEDGER = (VoteResult.REJECT_EXPIRED_LEDGER_TERM, VoteResult.REJECT_SMALL_LEDGER_END_INDEX)
_LARGER_TERM = (VoteResult.REJECT_EXPIRED_VOTE_TERM, VoteResult.REJECT_TERM_SMALL_THAN_LEDGER)


class VoteOutcome(enum.Enum):
    """Outcome of a round of votes, in the order of the checks (dledger#26)."""

    TERM_EXPIRED = enum.auto()
    HAS_LEADER = enum.auto()
    NO_QUORUM = enum.auto()
    LEDGER_BEHIND = enum.auto()
    PASSED = enum.auto()
    NOT_READY = enum.auto()
    REJECTED = enum.auto()


@attrs.define(kw_only=True)
class Round:
    """Requests of one kind to all peers, which end together."""

    term: int
    members: int
    quorum: int
    deadline: int
    """ms; the round is over then."""
    finished: int = 0
    """Members that responded or cannot be reached, with this one."""
    accepted: int = 0
    not_ready: int = 0
    """Members that first have to enter this term."""
    max_term: int = -1

    def _has_quorum_soon(self) -> bool:
        return self.accepted + self.not_ready >= self.quorum

    def is_over(self, now: int) -> bool:
        """True if nothing more is waited for."""
        return self._has_quorum_soon() or self.finished >= self.members or now >= self.deadline


@attrs.define(kw_only=True)
class VoteRound(Round):
    """One request for votes to each member (DLedgerLeaderElector.maintainAsCandidate)."""

    valid: int = 0
    larger_ledgers: int = 0
    has_leader: bool = False

    def add(self, response: VoteResponse | None) -> None:
        """Count a response; None after an error or a timeout."""
        self.finished += 1
        result = response.vote_result if response else VoteResult.UNKNOWN
        self.valid += result is not VoteResult.UNKNOWN
        self.accepted += result is VoteResult.ACCEPT
        self.not_ready += result is VoteResult.REJECT_TERM_NOT_READY
        self.larger_ledgers += result in _LARGER_LEDGER
        self.has_leader |= result is VoteResult.REJECT_ALREADY_HAS_LEADER
        if response and result in _LARGER_TERM:
            self.max_term = max(self.max_term, response.term)

    def is_over(self, now: int) -> bool:
        """True at a quorum, a known leader, all responses, or the deadline (dledger#29)."""
        return self.has_leader or super().is_over(now)

    def outcome(self) -> VoteOutcome:
        """Return the first that applies (dledger#26)."""
        if self.max_term > self.term:
            return VoteOutcome.TERM_EXPIRED
        if self.has_leader:
            return VoteOutcome.HAS_LEADER
        if self.valid < self.quorum:
            return VoteOutcome.NO_QUORUM
        if self.valid - self.larger_ledgers < self.quorum:
            return VoteOutcome.LEDGER_BEHIND
        if self.accepted >= self.quorum:
            return VoteOutcome.PASSED
        return VoteOutcome.NOT_READY if self._has_quorum_soon() else VoteOutcome.REJECTED


class HeartbeatOutcome(enum.Enum):
    """Outcome of a round of heartbeats, in the order of the checks (dledger#31)."""

    SUCCESS = enum.auto()
    NOT_READY = enum.auto()
    TERM_EXPIRED = enum.auto()
    OTHER_LEADER = enum.auto()
    NO_QUORUM = enum.auto()


@attrs.define(kw_only=True)
class HeartbeatRound(Round):
    """One heartbeat to each peer (DLedgerLeaderElector.sendHeartbeats)."""

    has_other_leader: bool = False

    def add(self, response: HeartBeatResponse | None) -> None:
        """Count a response; None after an error or a timeout."""
        self.finished += 1
        code = response.dledger_code if response else DLedgerCode.NETWORK_ERROR
        self.accepted += code is DLedgerCode.SUCCESS
        self.not_ready += code is DLedgerCode.TERM_NOT_READY
        self.has_other_leader |= code is DLedgerCode.INCONSISTENT_LEADER
        if response and code is DLedgerCode.EXPIRED_TERM:
            self.max_term = response.term

    def outcome(self) -> HeartbeatOutcome:
        """Return the first that applies (dledger#31)."""
        if self.accepted >= self.quorum:
            return HeartbeatOutcome.SUCCESS
        if self._has_quorum_soon():
            return HeartbeatOutcome.NOT_READY
        if self.max_term > self.term:
            return HeartbeatOutcome.TERM_EXPIRED
        return HeartbeatOutcome.OTHER_LEADER if self.has_other_leader else HeartbeatOutcome.NO_QUORUM
