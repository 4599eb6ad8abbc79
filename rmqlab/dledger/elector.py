"""Elects and keeps a leader: a state machine without network and clock.

Sections 4.2 to 5.4, class DLedgerLeaderElector. Call `tick` at `wake_at`, the two handlers for requests of peers, and
the two `receive` methods once for each request that was sent, with None after an error or a timeout of 3000 ms. After
each call, send what `take_requests` returns and act on `take_role_changes`. Times are ms of a clock that never runs
back.
"""

from collections.abc import Callable
from typing import Final

import attrs

from rmqlab.dledger.bodies import HeartBeatRequest, HeartBeatResponse, Message, VoteRequest, VoteResponse
from rmqlab.dledger.codes import DLedgerCode, VoteResult
from rmqlab.dledger.member import Member, Role
from rmqlab.dledger.rounds import HeartbeatOutcome, HeartbeatRound, VoteOutcome, VoteRound

NEVER: Final = -(2**62)


@attrs.frozen
class Outgoing:
    """A request to a peer. `round` belongs to its response."""

    peer: str
    request: Message
    round: VoteRound | HeartbeatRound


@attrs.frozen
class RoleChange:
    """A member changed its role, or started the same role again.

    `term` may be later than the member's current term.
    """

    term: int
    role: Role


@attrs.define
class Elector:
    """The elector of one member.

    While a round waits, the member starts nothing else, as DLedger's thread does; requests of peers are served, and may
    change role and term meanwhile.
    """

    member: Member
    random_below: Callable[[int], int]
    """Returns a number from 0 to less than its argument."""
    _round: VoteRound | HeartbeatRound | None = None
    _next_vote_at: int = NEVER
    _must_raise_term: bool = False
    """A greater term was seen: the next turn enters it, without votes (dledger#28)."""
    _is_term_used_up: bool = False
    """The last round was rejected: the next one needs a new term (WAIT_TO_VOTE_NEXT)."""
    _leader_seen_at: int = NEVER
    _heartbeats_sent_at: int = NEVER
    _heartbeats_accepted_at: int = NEVER
    _requests: list[Outgoing] = attrs.field(factory=list)
    _role_changes: list[RoleChange] = attrs.field(factory=list)

    # ---- outputs ----

    def take_requests(self) -> list[Outgoing]:
        """Return the requests to send, once."""
        requests, self._requests = self._requests, []
        return requests

    def take_role_changes(self) -> list[RoleChange]:
        """Return the changes since the last call, oldest first."""
        changes, self._role_changes = self._role_changes, []
        return changes

    @property
    def wake_at(self) -> int:
        """Time of the next tick that does anything; it may be in the past."""
        settings = self.member.settings
        if self._round is not None:
            return self._round.deadline
        if self.member.role is Role.LEADER:
            return self._heartbeats_sent_at + settings.heart_beat_time_interval_ms + 1
        if self.member.role is Role.FOLLOWER:
            return self._leader_seen_at + settings.leader_timeout_ms + 1
        return NEVER if self._must_raise_term else self._next_vote_at

    # ---- time ----

    def tick(self, now: int) -> None:
        """Do all due work."""
        if self._round is not None:
            self._conclude(now)
        elif now >= self.wake_at:
            match self.member.role:
                case Role.LEADER:
                    self._send_heartbeats(now)
                case Role.FOLLOWER:
                    self._become_candidate(self.member.term)
                case Role.CANDIDATE:
                    self._vote_or_raise_term(now)

    def _vote_or_raise_term(self, now: int) -> None:
        if self._is_term_used_up or self._must_raise_term:
            self.member.next_term()
            self._is_term_used_up = False
        if self._must_raise_term:
            self._must_raise_term = False
            self._next_vote_at = self._vote_time(now)
        else:
            self._ask_for_votes(now)

    def _vote_time(self, now: int) -> int:
        """Return a random time of the next round (dledger#25)."""
        settings = self.member.settings
        first, end = settings.min_vote_interval_ms, settings.max_vote_interval_ms
        if self.member.is_taking_leadership:
            first = settings.min_take_leadership_vote_interval_ms
            end = settings.max_take_leadership_vote_interval_ms
        return now + first + self.random_below(end - first)

    # ---- candidate ----

    def _ask_for_votes(self, now: int) -> None:
        member, settings = self.member, self.member.settings
        wait = settings.vote_wait_ms + self.random_below(settings.max_vote_interval_ms)
        votes = VoteRound(term=member.term, members=len(settings.peers), quorum=settings.quorum, deadline=now + wait)
        votes.add(self._vote(self._vote_request(member.self_id), is_own=True))
        self._round = votes
        self._requests += [Outgoing(peer, self._vote_request(peer), votes) for peer in settings.others]
        self._conclude(now)

    def _vote_request(self, peer: str) -> VoteRequest:
        member = self.member
        return VoteRequest(
            group=member.settings.group,
            leader_id=member.self_id,
            local_id=member.self_id,
            remote_id=peer,
            term=member.term,
            ledger_end_index=member.end_index,
            ledger_end_term=member.end_term,
        )

    def receive_vote(self, votes: VoteRound, response: VoteResponse | None, now: int) -> None:
        """Count the response to a request of a round; a late one does not count."""
        if votes is self._round:
            votes.add(response)
            self._conclude(now)

    def _conclude(self, now: int) -> None:
        """End the round, if it is over."""
        ended = self._round
        if ended is None or not ended.is_over(now):
            return
        self._round = None
        if isinstance(ended, VoteRound):
            self._conclude_votes(ended, now)
        else:
            self._conclude_heartbeats(ended, now)

    def _conclude_votes(self, votes: VoteRound, now: int) -> None:
        """Follow the table of section 5.2 (dledger#26).

        A member that voted for another does not lead: after a restart, its vote would not show that it had led.
        """
        settings, outcome = self.member.settings, votes.outcome()
        self._is_term_used_up = outcome in (VoteOutcome.TERM_EXPIRED, VoteOutcome.REJECTED)
        match outcome:
            case VoteOutcome.PASSED if self.member.may_have_led or not self.member.has_voted_for_itself:
                self._is_term_used_up, self._next_vote_at = True, now
            case VoteOutcome.PASSED:
                self._become_leader(votes.term)
            case VoteOutcome.NOT_READY:
                self._next_vote_at = now
            case VoteOutcome.HAS_LEADER:
                self._next_vote_at = self._vote_time(now) + settings.leader_timeout_ms
            case VoteOutcome.LEDGER_BEHIND:
                self._next_vote_at = self._vote_time(now) + settings.max_vote_interval_ms
            case VoteOutcome.NO_QUORUM | VoteOutcome.REJECTED:
                self._next_vote_at = self._vote_time(now)
            case VoteOutcome.TERM_EXPIRED:
                self._next_vote_at = self._vote_time(now)
                self._become_candidate(votes.max_term)

    # ---- leader ----

    def _send_heartbeats(self, now: int) -> None:
        """Send a heartbeat to each peer (dledger#30)."""
        member, settings = self.member, self.member.settings
        self._heartbeats_sent_at = now
        heartbeats = HeartbeatRound(
            term=member.term,
            members=len(settings.peers),
            quorum=settings.quorum,
            deadline=now + settings.heart_beat_time_interval_ms,
            finished=1,
            accepted=1,
        )
        self._round = heartbeats
        for peer in settings.others:
            request = HeartBeatRequest(
                group=settings.group,
                leader_id=member.self_id,
                local_id=member.self_id,
                remote_id=peer,
                term=member.term,
            )
            self._requests.append(Outgoing(peer, request, heartbeats))
        self._conclude(now)

    def receive_heartbeat(
        self, heartbeats: HeartbeatRound, peer: str, response: HeartBeatResponse | None, now: int
    ) -> None:
        """Count the response to a heartbeat. A late one shows only that the peer lives."""
        self.member.is_live[peer] = response is not None
        if heartbeats is self._round:
            heartbeats.add(response)
            self._conclude(now)

    def _conclude_heartbeats(self, heartbeats: HeartbeatRound, now: int) -> None:
        """Follow section 5.3 (dledger#31)."""
        match heartbeats.outcome():
            case HeartbeatOutcome.SUCCESS:
                self._heartbeats_accepted_at = now
            case HeartbeatOutcome.NOT_READY:
                self._heartbeats_sent_at = NEVER
            case HeartbeatOutcome.TERM_EXPIRED:
                self._become_candidate(heartbeats.max_term)
            case HeartbeatOutcome.OTHER_LEADER:
                self._become_candidate(heartbeats.term)
            case HeartbeatOutcome.NO_QUORUM:
                if now - self._heartbeats_accepted_at > self.member.settings.leader_timeout_ms:
                    self._become_candidate(heartbeats.term)

    # ---- requests of peers ----

    def handle_heart_beat(self, request: HeartBeatRequest, now: int) -> HeartBeatResponse:
        """Return the response to a heartbeat (dledger#19)."""
        member = self.member
        leader = request.leader_id
        if leader is None or leader not in member.settings.peers:
            return HeartBeatResponse(term=member.term, code=DLedgerCode.UNKNOWN_MEMBER)
        if leader == member.self_id:
            return HeartBeatResponse(term=member.term, code=DLedgerCode.UNEXPECTED_MEMBER)
        if request.term < member.term:
            return HeartBeatResponse(term=member.term, code=DLedgerCode.EXPIRED_TERM)
        if request.term > member.term:
            self.enter_term(request.term)
            return HeartBeatResponse(code=DLedgerCode.TERM_NOT_READY)
        if member.leader_id is None:
            self._become_follower(leader)
        elif member.leader_id != leader:
            return HeartBeatResponse(code=DLedgerCode.INCONSISTENT_LEADER)
        self._leader_seen_at = now
        return HeartBeatResponse()

    def handle_vote(self, request: VoteRequest) -> VoteResponse:
        """Return the response to a candidate (dledger#17)."""
        return self._vote(request, is_own=False)

    def _vote(self, request: VoteRequest, *, is_own: bool) -> VoteResponse:
        member = self.member
        candidate = request.leader_id
        term = member.term
        if candidate is None or candidate not in member.settings.peers:
            result = VoteResult.REJECT_UNKNOWN_LEADER
        else:
            result = self._decide(request, candidate, is_own=is_own)
        if result is VoteResult.ACCEPT and candidate is not None:
            member.vote_for(candidate)
        elif result is VoteResult.REJECT_TERM_NOT_READY:
            self.enter_term(request.term)
        elif result is VoteResult.REJECT_TERM_SMALL_THAN_LEDGER:
            term = member.end_term
        return VoteResponse(
            group=request.group,
            leader_id=request.leader_id,
            local_id=request.local_id,
            remote_id=request.remote_id,
            term=term,
            vote_result=result,
        )

    def _decide(self, request: VoteRequest, candidate: str, *, is_own: bool) -> VoteResult:
        """Return the first result that applies, in the order of section 4.2.

        The ends of the logs come before the terms: a candidate whose log is behind raises no term (dledger#18).
        """
        member = self.member
        voted_for = member.ballot.voted_for
        if not is_own and candidate == member.self_id:
            return VoteResult.REJECT_UNEXPECTED_LEADER
        if request.ledger_end_term < member.end_term:
            return VoteResult.REJECT_EXPIRED_LEDGER_TERM
        is_same_end_term = request.ledger_end_term == member.end_term
        if is_same_end_term and request.ledger_end_index < member.end_index:
            return VoteResult.REJECT_SMALL_LEDGER_END_INDEX
        if request.term < member.term:
            return VoteResult.REJECT_EXPIRED_VOTE_TERM
        if request.term > member.term:
            return VoteResult.REJECT_TERM_NOT_READY
        if voted_for not in (None, candidate):
            has_leader = member.leader_id is not None
            return VoteResult.REJECT_ALREADY_HAS_LEADER if has_leader else VoteResult.REJECT_ALREADY_VOTED
        if request.term < member.end_term:
            return VoteResult.REJECT_TERM_SMALL_THAN_LEDGER
        is_not_ahead = is_same_end_term and member.end_index >= request.ledger_end_index
        if not is_own and member.is_taking_leadership and is_not_ahead:
            return VoteResult.REJECT_TAKING_LEADERSHIP
        return VoteResult.ACCEPT

    # ---- roles ----

    def enter_term(self, term: int) -> None:
        """Become candidate of a greater term, and enter it at the next tick."""
        self._become_candidate(term)
        self._must_raise_term = True

    def _become_leader(self, term: int) -> None:
        if term != self.member.term:
            return
        self.member.become_leader()
        self._heartbeats_sent_at = NEVER
        self._role_changes.append(RoleChange(term, Role.LEADER))

    def _become_follower(self, leader_id: str) -> None:
        self._is_term_used_up = False
        self.member.become_follower(leader_id)
        self._role_changes.append(RoleChange(self.member.term, Role.FOLLOWER))

    def _become_candidate(self, term: int) -> None:
        if term < self.member.term:
            return
        self.member.become_candidate(term)
        self._role_changes.append(RoleChange(term, Role.CANDIDATE))
