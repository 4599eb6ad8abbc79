"""A follower's side of replication: a state machine without network and clock.

Section 6.3, class DLedgerEntryPusher.EntryHandler. Requests arrive in any order; APPENDs wait for their predecessor.
Other requests are applied at once. Only a TRUNCATE waits for the disk: those that arrive meanwhile get code 421, as if
the queue of DLedger's thread were full.
"""

from collections import deque
from typing import Final, Generic, TypeVar

import attrs

from rmqlab.dledger.bodies import EntryBody, PushEntryRequest, PushEntryResponse
from rmqlab.dledger.codes import DLedgerCode, DLedgerError, PushType
from rmqlab.dledger.diskwork import DiskWork
from rmqlab.dledger.entry import MAGIC
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.member import Member, Role
from rmqlab.dledger.pending import MOST_PENDING_BYTES
from rmqlab.store.files.diskcalls import DiskCalls

CHECK_INTERVAL_MS: Final = 1000
"""Period, in ms, of the check of waiting APPENDs; one that has waited this long gets an error response."""

Caller = TypeVar("Caller")
"""The owner's reference for the response: a connection and a request's number."""


LAST_INDEX: Final = 2**58
"""Its index unit would be at 2**63 bytes."""
LAST_POSITION: Final = 2**62
MOST_WAITING: Final = 1000
"""APPENDs that wait, as many as a leader sends without response."""
MOST_WAITING_BYTES: Final = 2 * MOST_PENDING_BYTES
"""Bytes of their entries. They stay when the connection that sent them closes."""
MOST_HELD: Final = 2 * MOST_WAITING
"""Responses that wait for a sync."""
ENTRY_COST: Final = 256
"""Bytes counted for an entry, in addition to its body."""


def _is_possible(body: EntryBody, push_type: PushType) -> bool:
    """True for an entry that a leader can have.

    DLedger also writes invalid ones, and its next recovery ends the log there. A TRUNCATE can restart the log at any
    index, so an index in the upper half of the range is rejected: later entries would exceed it.
    """
    parts = 2 if push_type is PushType.TRUNCATE else 1
    is_place = 0 <= body.index < LAST_INDEX // parts and 0 <= body.pos < LAST_POSITION // parts
    return is_place and body.magic == MAGIC and body.term >= 0


@attrs.define
class _Waiting(Generic[Caller]):
    request: PushEntryRequest
    caller: Caller
    since: int
    is_refused: bool = False

    @property
    def size(self) -> int:
        """Bytes of its entries in memory."""
        return sum(ENTRY_COST + len(entry.body) for entry in self.request.entries)


@attrs.define
class Follower(Generic[Caller]):
    """Applies the pushes of the known leader to the log.

    Call `work` after each change of role, and at `wake_at`.
    """

    member: Member
    store: EntryStore
    truncations: DiskWork
    """While one is busy, no push is applied."""
    _appends: dict[int, _Waiting[Caller]] = attrs.field(factory=dict)
    """By the index of their first entry."""
    _waiting_bytes: int = 0
    _checked_at: int = 0
    _responses: list[tuple[Caller, PushEntryResponse]] = attrs.field(factory=list)
    _held: deque[tuple[int, Caller, PushEntryResponse]] = attrs.field(factory=deque)
    """Responses for after a sync, with the end of the log that they acknowledge, which rises: a cut clears them."""
    _dropped: list[Caller] = attrs.field(factory=list)

    def take_dropped(self) -> list[Caller]:
        """Return the callers that get no response, once."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def take_responses(self) -> list[tuple[Caller, PushEntryResponse]]:
        """Return the responses to send, once."""
        responses, self._responses = self._responses, []
        return responses

    @property
    def wake_at(self) -> int | None:
        """Time of the next check of APPENDs that do not fit; None if there is no need."""
        is_needed = bool(self._appends) and self.member.role is Role.FOLLOWER
        return self._checked_at + CHECK_INTERVAL_MS if is_needed else None

    def handle(self, request: PushEntryRequest, caller: Caller, now: int) -> None:
        """Accept a request, and apply all requests that are ready (dledger#42).

        DLedgerError(UNEXPECTED_ARGUMENT) if it has no entry but needs one, or one that no leader can have.
        """
        if request.type is not PushType.COMMIT and not request.entries:
            raise DLedgerError(DLedgerCode.UNEXPECTED_ARGUMENT, f"{request.type} without entry")
        if not all(_is_possible(entry, request.type) for entry in request.entries):
            raise DLedgerError(DLedgerCode.UNEXPECTED_ARGUMENT, f"{request.type} with an impossible entry")
        waiting = _Waiting(request, caller, now)
        if request.type is PushType.APPEND:
            self._queue(waiting)
        else:
            self._apply_at_once(waiting)
        self.work(now)

    def _queue(self, waiting: _Waiting[Caller]) -> None:
        known = self._appends.get(waiting.request.first_index)
        if known is not None and not known.is_refused:
            self._respond(waiting, DLedgerCode.REPEATED_PUSH)
            return
        if known is not None:  # the leader missed the refusal, and waits for one before it compares
            self._take(known.request.first_index)
        self._appends[waiting.request.first_index] = waiting
        self._waiting_bytes += waiting.size
        while self._is_full:
            farthest = self._take(max(self._appends, key=self._distance))
            self._respond(farthest, DLedgerCode.PUSH_REQUEST_IS_FULL)

    @property
    def _is_full(self) -> bool:
        count = len(self._appends)
        return count > MOST_WAITING or (count > 1 and self._waiting_bytes > MOST_WAITING_BYTES)

    def _take(self, index: int) -> _Waiting[Caller]:
        waiting = self._appends.pop(index)
        self._waiting_bytes -= waiting.size
        return waiting

    def _distance(self, index: int) -> int:
        """Return how far an entry is behind the end of the log.

        Entries that the log already has are the largest distance behind: they get a response and are not applied.
        """
        return index - self.store.end_index if index > self.store.end_index else LAST_INDEX

    def _apply_at_once(self, waiting: _Waiting[Caller]) -> None:
        """Apply a request that precedes APPENDs.

        The leader compares because its APPENDs failed, so COMPARE and TRUNCATE drop them without response.
        """
        if waiting.request.type is not PushType.COMMIT:
            self._dropped += [each.caller for each in self._appends.values()]
            self._dropped += [caller for _, caller, _ in self._held]
            self._held.clear()
            self._appends.clear()
            self._waiting_bytes = 0
        if self.member.role is not Role.FOLLOWER:
            self._respond(waiting, DLedgerCode.NOT_FOLLOWER)
        elif self.truncations.is_busy:
            self._respond(waiting, DLedgerCode.PUSH_REQUEST_IS_FULL)
        elif waiting.request.type is PushType.TRUNCATE:
            self._truncate(waiting)
        else:
            self._apply(waiting)

    def work(self, now: int) -> None:
        """Apply the APPENDs that fit.

        A member that does not follow, or that truncates, keeps them.
        """
        if self.member.role is not Role.FOLLOWER or self.truncations.is_busy:
            return
        while self.store.end_index + 1 in self._appends:
            self._apply(self._take(self.store.end_index + 1))
        if now - self._checked_at >= CHECK_INTERVAL_MS:
            self._checked_at = now
            self._check_appends(now)

    def _apply(self, waiting: _Waiting[Caller]) -> None:
        """Apply a request and respond; any error is 406, or -1 for a COMMIT."""
        request = waiting.request
        try:
            match request.type:
                case PushType.APPEND:
                    self._append(request)
                case PushType.COMPARE:
                    self._compare(request)
            if request.type is not PushType.COMPARE:
                self._commit(request)
        except (DLedgerError, OSError):
            is_commit = request.type is PushType.COMMIT
            self._respond(waiting, DLedgerCode.UNKNOWN if is_commit else DLedgerCode.INCONSISTENT_STATE)
        else:
            self._respond(waiting, DLedgerCode.SUCCESS)
        finally:
            self._note_end()

    def _note_end(self) -> None:
        self.member.end_index, self.member.end_term = self.store.end_index, self.store.end_term

    def _commit(self, request: PushEntryRequest) -> None:
        if request.term >= self.member.term:
            self.store.commit(request.commit_index)

    def _append(self, request: PushEntryRequest) -> None:
        self._check_leader(request)
        for entry in request.entries:
            self.store.append_entry(entry.entry())

    def _compare(self, request: PushEntryRequest) -> None:
        """Compare with the own entry, whatever the term of the request (dledger#44)."""
        entry = request.entries[0].entry()
        if self.store.get(entry.index) != entry:
            raise DLedgerError(DLedgerCode.INCONSISTENT_STATE, f"entry {entry.index} differs")

    def _truncate(self, waiting: _Waiting[Caller]) -> None:
        """Cut the log, and forget commits that the cut contradicts.

        All else waits for the disk.

        DLedger leaves the committed index beyond the end: readers then see entries that no quorum has, or begin within
        one, and a leader waits forever until its end is committed.
        """
        request = waiting.request
        entry = request.entries[0].entry()
        try:
            self._check_leader(request)
            is_own = self.store.cut_at(entry)
        except DLedgerError:
            self._respond(waiting, DLedgerCode.INCONSISTENT_STATE)
            return
        self.store.lower_commit(entry.index if is_own else -1)
        self._note_end()
        self.truncations.start(self._end_of_truncation(waiting, is_own=is_own))

    def _end_of_truncation(self, waiting: _Waiting[Caller], *, is_own: bool) -> DiskCalls[None]:
        """Make the cut durable, store the leader's entry, and respond; any error is 406.

        The member may change its role between two calls. OSError: the cut may have to be completed.
        """
        request = waiting.request
        try:
            yield from self.store.completion_of_cut()
            if not is_own:
                self._check_follows(request)
                self.store.place(request.entries[0].entry())
            self._commit(request)
        except DLedgerError:
            self._respond(waiting, DLedgerCode.INCONSISTENT_STATE)
        except OSError:
            self._respond(waiting, DLedgerCode.INCONSISTENT_STATE)
            raise
        except GeneratorExit:  # an internal error: see `DiskWork.fail`
            self._dropped.append(waiting.caller)
            raise
        else:
            self._respond(waiting, DLedgerCode.SUCCESS)
        finally:
            self._note_end()

    def _check_follows(self, request: PushEntryRequest) -> None:
        if self.member.role is not Role.FOLLOWER:
            raise DLedgerError(DLedgerCode.NOT_FOLLOWER, f"{self.member.role} != FOLLOWER")
        self._check_leader(request)

    def _check_leader(self, request: PushEntryRequest) -> None:
        if request.term != self.member.term:
            raise DLedgerError(DLedgerCode.INCONSISTENT_TERM, f"{request.term} != {self.member.term}")
        if (newest := max(entry.term for entry in request.entries)) > request.term:
            raise DLedgerError(DLedgerCode.INCONSISTENT_TERM, f"an entry of term {newest} from term {request.term}")
        if request.leader_id != self.member.leader_id:
            raise DLedgerError(DLedgerCode.INCONSISTENT_LEADER, f"{request.leader_id} != {self.member.leader_id}")

    def _check_appends(self, now: int) -> None:
        """Respond to APPENDs that the log has, and to the first early one (dledger#43)."""
        end = self.store.end_index
        for index in [index for index, each in self._appends.items() if each.request.last_index <= end]:
            waiting = self._take(index)
            is_equal = all(self._has(number, waiting.request) for number in range(len(waiting.request.entries)))
            self._respond(waiting, DLedgerCode.SUCCESS if is_equal else DLedgerCode.INCONSISTENT_STATE)
        early = [index for index, each in self._appends.items() if now - each.since >= CHECK_INTERVAL_MS]
        if early and not (first := self._appends[min(early)]).is_refused:
            first.is_refused = True
            self._respond(first, DLedgerCode.INCONSISTENT_STATE)

    def _has(self, number: int, request: PushEntryRequest) -> bool:
        entry = request.entries[number].entry()
        try:
            return self.store.get(entry.index) == entry
        except DLedgerError:
            return False

    def _respond(self, waiting: _Waiting[Caller], code: DLedgerCode) -> None:
        """Add a response with the range of the own log (dledger#11)."""
        request = waiting.request
        is_commit = request.type is PushType.COMMIT
        is_held = self.member.settings.ack_after_sync and code is DLedgerCode.SUCCESS and not is_commit
        if is_held and len(self._held) >= MOST_HELD:
            code, is_held = DLedgerCode.PUSH_REQUEST_IS_FULL, False
        response = PushEntryResponse(
            group=request.group,
            term=request.term,
            code=code,
            index=None if is_commit else request.first_index,
            count=0 if is_commit else len(request.entries),
            begin_index=self.store.begin_index,
            end_index=self.store.end_index,
        )
        if is_held:
            self._held.append((self.store.data.max_offset, waiting.caller, response))
            self.release()
        else:
            self._responses.append((waiting.caller, response))

    def release(self) -> None:
        """Send the responses that acknowledge only entries on disk."""
        held, synced = self._held, self.store.synced_end
        while held and held[0][0] <= synced:
            _, caller, response = held.popleft()
            self._responses.append((caller, response))
