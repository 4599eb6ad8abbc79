"""Moves leadership to a chosen member, without network and clock (section 4.5).

Classes DLedgerServer (checks, preferred leaders), DLedgerLeaderElector (handleLeadershipTransfer, TakeLeadershipTask).
"""

from typing import Any, Final, Generic, TypeVar

import attrs

from rmqlab.dledger.acks import Acks
from rmqlab.dledger.bodies import LeadershipTransferRequest, LeadershipTransferResponse, refusal
from rmqlab.dledger.codes import DLedgerCode, DLedgerError
from rmqlab.dledger.elector import Elector, RoleChange
from rmqlab.dledger.member import Role

MAX_BEHIND: Final = 1000
"""A member that lacks this many entries cannot become the leader by a transfer."""
CATCH_UP_MS: Final = 1000
"""Maximum time, in ms, that the transferee waits for missing entries."""
CATCH_UP_STEP_MS: Final = 10
PREFER_INTERVAL_MS: Final = 1000

Caller = TypeVar("Caller")
"""The owner's reference for the response."""


@attrs.frozen(eq=False)
class TransferCall(Generic[Caller]):
    """A request to the transferee; a caller, if any, waits for its response."""

    peer: str
    request: LeadershipTransferRequest
    caller: Caller | None


@attrs.frozen
class _Taking(Generic[Caller]):
    """A request to take leadership that waits for entries or for a role."""

    request: LeadershipTransferRequest
    caller: Caller
    since: int


@attrs.define
class Transfer(Generic[Caller]):
    """Both sides of a transfer.

    Call `observe` with each change of role, and `work` at `wake_at`. After each call, send what `take_calls` and
    `take_responses` return.
    """

    elector: Elector
    acks: Acks[Any]
    _catching_up: _Taking[Caller] | None = None
    _taking: _Taking[Caller] | None = None
    _preferred_at: int = 0
    """Time of the last check for a preferred leader."""
    _calls: list[TransferCall[Caller]] = attrs.field(factory=list)
    _responses: list[tuple[Caller, LeadershipTransferResponse]] = attrs.field(factory=list)
    _dropped: list[Caller] = attrs.field(factory=list)

    def take_calls(self) -> list[TransferCall[Caller]]:
        """Return the requests to send, once."""
        calls, self._calls = self._calls, []
        return calls

    def take_responses(self) -> list[tuple[Caller, LeadershipTransferResponse]]:
        """Return the responses to send, once."""
        responses, self._responses = self._responses, []
        return responses

    def take_dropped(self) -> list[Caller]:
        """Return the callers that get no response, once: a later request replaced theirs."""
        dropped, self._dropped = self._dropped, []
        return dropped

    @property
    def wake_at(self) -> int | None:
        """Time of the next `work`; None if only an input can cause one."""
        if self._catching_up is not None:
            return self._catching_up.since + CATCH_UP_STEP_MS
        return self._preferred_at + PREFER_INTERVAL_MS if self.elector.member.is_leader else None

    def handle(self, request: LeadershipTransferRequest, caller: Caller, now: int) -> None:
        """Accept a request of an operator or of the leader (dledger#21, #22).

        The response may come later.
        """
        member = self.elector.member
        try:
            member.check_recipient(request)
            if request.transfer_id == member.self_id:
                self._begin(self._checked_transferee(request), request.term, caller)
            elif request.transferee_id == member.self_id:
                self._check_leader(request)
                self._drop(self._catching_up)
                self._catching_up = _Taking(request, caller, now)
                self.work(now)
            else:
                self._respond(caller, DLedgerCode.UNEXPECTED_ARGUMENT, member.term)
        except DLedgerError as exc:
            self._refuse(caller, request, exc.code)

    def _check_leader(self, request: LeadershipTransferRequest) -> None:
        if request.transfer_id != self.elector.member.leader_id:
            raise DLedgerError(DLedgerCode.INCONSISTENT_LEADER, f"{request.transfer_id} is not leader")

    def _drop(self, taking: _Taking[Caller] | None) -> None:
        if taking is not None:
            self._dropped.append(taking.caller)

    def _respond(self, caller: Caller, code: DLedgerCode, term: int) -> None:
        self._responses.append((caller, LeadershipTransferResponse(code=code, term=term)))

    def _refuse(self, caller: Caller, request: LeadershipTransferRequest, code: DLedgerCode) -> None:
        leader_id = self.elector.member.leader_id
        self._responses.append((caller, refusal(LeadershipTransferResponse, request, code, leader_id)))

    # ---- as leader ----

    def _checked_transferee(self, request: LeadershipTransferRequest) -> str:
        """Check in DLedger's order, and return the transferee (dledger#21). DLedgerError."""
        member = self.elector.member
        transferee = request.transferee_id
        if transferee is None or transferee not in member.settings.peers:
            raise DLedgerError(DLedgerCode.UNKNOWN_MEMBER, f"transferee={transferee}")
        if request.term != member.term:
            raise DLedgerError(DLedgerCode.INCONSISTENT_TERM, f"{request.term} != {member.term}")
        if not member.is_leader:
            raise DLedgerError(DLedgerCode.NOT_LEADER)
        if self._behind(transferee) >= MAX_BEHIND:
            raise DLedgerError(DLedgerCode.FALL_BEHIND_TOO_MUCH, f"{self._behind(transferee)} entries")
        return transferee

    def _behind(self, peer: str) -> int:
        return self.elector.member.end_index - self.acks.watermark(peer)

    def _begin(self, transferee: str, term: int, caller: Caller | None) -> None:
        """Send an order to the transferee; appends fail until its response (dledger#21).

        DLedger sends it to itself, too, and then rejects it because the transfer has begun.
        """
        member = self.elector.member
        if member.transferee is not None or transferee == member.self_id:
            if caller is not None:
                self._respond(caller, DLedgerCode.LEADER_TRANSFERRING, member.term)
            return
        member.transferee = transferee
        order = LeadershipTransferRequest(
            group=member.settings.group,
            leader_id=member.leader_id,
            local_id=member.self_id,
            remote_id=transferee,
            term=term,
            take_leadership_ledger_index=member.end_index,
            transfer_id=member.self_id,
            transferee_id=transferee,
        )
        self._calls.append(TransferCall(transferee, order, caller))

    def receive(self, call: TransferCall[Caller], response: LeadershipTransferResponse | None) -> None:
        """Act on the transferee's response; None after an error or a timeout of 3000 ms."""
        member = self.elector.member
        is_taken = response is not None and response.dledger_code is DLedgerCode.SUCCESS
        if not is_taken or member.term == call.request.term:
            member.transferee = None
        if call.caller is None:
            return
        if response is None:
            self._refuse(call.caller, call.request, DLedgerCode.NETWORK_ERROR)
        else:
            self._responses.append((call.caller, response))

    def _prefer(self) -> None:
        """Begin a transfer to the preferred live member that is least behind (dledger#23)."""
        member = self.elector.member
        preferred = member.settings.preferred_leader_ids
        if not member.is_leader or member.transferee is not None or member.self_id in preferred:
            return
        live = [peer for peer in preferred if peer in member.settings.peers and member.is_live.get(peer)]
        if live and self._behind(best := min(live, key=self._behind)) < MAX_BEHIND:
            self._begin(best, member.term, None)

    # ---- as transferee ----

    def work(self, now: int) -> None:
        """Check the preferred leader and the waiting transfer when they are due."""
        if now - self._preferred_at >= PREFER_INTERVAL_MS:
            self._preferred_at = now
            self._prefer()
        waiting = self._catching_up
        if waiting is None:
            return
        if waiting.request.take_leadership_ledger_index <= self.elector.member.end_index:
            self._catching_up = None
            self._take(waiting)
        elif now - waiting.since > CATCH_UP_MS:
            self._catching_up = None
            self._refuse(waiting.caller, waiting.request, DLedgerCode.TAKE_LEADERSHIP_FAILED)

    def _take(self, taking: _Taking[Caller]) -> None:
        """Become candidate in the next term (dledger#22)."""
        member = self.elector.member
        if taking.request.term != member.term:
            self._respond(taking.caller, DLedgerCode.INCONSISTENT_TERM, member.term)
            return
        self._drop(self._taking)
        self._taking = taking
        member.term_to_take = taking.request.term + 1
        self.elector.enter_term(member.term_to_take)

    def observe(self, change: RoleChange) -> None:
        """End the wait for the role in the term to take (dledger#22)."""
        member = self.elector.member
        if self._taking is None or member.term_to_take == -1:
            return
        code = _outcome(change, member.term_to_take)
        if code is not None:
            self._respond(self._taking.caller, code, change.term)
            self._taking, member.term_to_take = None, -1


def _outcome(change: RoleChange, term: int) -> DLedgerCode | None:
    """Return the outcome for a member that accepts a term; None while it waits."""
    if change.term > term:
        return DLedgerCode.EXPIRED_TERM
    if change.role is Role.FOLLOWER:
        return DLedgerCode.TAKE_LEADERSHIP_FAILED
    if change.term < term:
        return DLedgerCode.INTERNAL_ERROR
    return DLedgerCode.SUCCESS if change.role is Role.LEADER else None
