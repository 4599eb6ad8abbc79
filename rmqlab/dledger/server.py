"""One DLedger member: accepts requests; returns requests and responses to send.

Class DLedgerServer, without network and clock. The owner decodes frames, has timers, and stores nothing.
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, Self, TypeVar

import attrs

from rmqlab.dledger.ballotfile import BallotFile
from rmqlab.dledger.bodies import (
    AppendEntryRequest,
    AppendEntryResponse,
    GetEntriesRequest,
    HeartBeatRequest,
    HeartBeatResponse,
    LeadershipTransferRequest,
    LeadershipTransferResponse,
    Message,
    MetadataRequest,
    MetadataResponse,
    PushEntryRequest,
    PushEntryResponse,
    VoteRequest,
    VoteResponse,
    refusal,
)
from rmqlab.dledger.codes import DLedgerCode, DLedgerError, DLedgerRequestCode
from rmqlab.dledger.diskwork import DiskWork
from rmqlab.dledger.elector import Elector, Outgoing, RoleChange
from rmqlab.dledger.entry import BODY_OFFSET, MAX_ENTRY, Entry
from rmqlab.dledger.entrystore import EntryStore, Prepare
from rmqlab.dledger.member import Member
from rmqlab.dledger.peerlists import PeerLists
from rmqlab.dledger.pusher import Push
from rmqlab.dledger.queries import handle_get, handle_metadata
from rmqlab.dledger.replication import Replication
from rmqlab.dledger.rounds import VoteRound
from rmqlab.dledger.transfer import Transfer, TransferCall
from rmqlab.remoting.body import BodyError

CALL_TIMEOUT_MS: Final = 3000
"""After this the owner reports a call without response."""
_CODES: Final[dict[type[Message], DLedgerRequestCode]] = {
    VoteRequest: DLedgerRequestCode.VOTE,
    HeartBeatRequest: DLedgerRequestCode.HEART_BEAT,
    PushEntryRequest: DLedgerRequestCode.PUSH,
    LeadershipTransferRequest: DLedgerRequestCode.LEADERSHIP_TRANSFER,
    MetadataRequest: DLedgerRequestCode.METADATA,
}

M = TypeVar("M", bound=Message)
T = TypeVar("T")
Caller = TypeVar("Caller")
"""The owner's reference for the response: a connection and a request's number."""
Appender = TypeVar("Appender")
"""The owner's reference to the caller of an append."""


@attrs.frozen
class ClientAppend(Generic[Caller]):
    """An append of a client of DLedger, which `caller` has sent."""

    caller: Caller


@attrs.frozen(eq=False)
class Call:
    """A request to send. The owner passes it to `Server.receive` once."""

    peer: str
    request: Message
    on_response: Callable[[bytes | None, int], None]
    """Called by the server, with the body or None, and the time."""

    @property
    def code(self) -> DLedgerRequestCode:
        """The request code of its frame."""
        return _CODES[type(self.request)]

    @property
    def size(self) -> int:
        """Bytes of its entries."""
        return sum(entry.size for entry in self.request.entries) if isinstance(self.request, PushEntryRequest) else 0


@attrs.define
class Server(Generic[Appender, Caller]):
    """Elector, replication and transfer of one member.

    Call `work` at `wake_at`. After each call, send `take_calls` and `take_responses`, finish the appends of
    `take_outcomes`, follow `take_role_changes`, and let a thread make the calls of `disk_work`.
    """

    member: Member
    store: EntryStore
    elector: Elector
    replication: Replication[Appender | ClientAppend[Caller], Caller]
    transfer: Transfer[Caller]
    peer_lists: PeerLists
    ballots: BallotFile
    ballot_work: DiskWork
    _calls: list[Call] = attrs.field(factory=list)
    _responses: list[tuple[Caller, Message]] = attrs.field(factory=list)
    _dropped: list[Caller] = attrs.field(factory=list)
    _role_changes: list[RoleChange] = attrs.field(factory=list)
    _outcomes: list[tuple[Appender, AppendEntryResponse]] = attrs.field(factory=list)
    prepare: Prepare | None = None
    """Changes each appended body: the AppendHook of a broker."""
    accepts: Callable[[bytes], bool] = lambda _body: True
    """Whether a client may append a body."""

    @classmethod
    def of(cls, member: Member, store: EntryStore, random_below: Callable[[int], int]) -> Self:
        """Return the server of a member with an open log.

        The member's `save` makes a ballot durable: it becomes one of the slow calls.
        """
        replication: Replication[Appender | ClientAppend[Caller], Caller] = Replication.of(member, store)
        elector = Elector(member, random_below)
        transfer: Transfer[Caller] = Transfer(elector, replication.acks)
        ballots = BallotFile(member.save)
        member.save = ballots.save
        ballot_work = DiskWork("its term and vote", lambda: not ballots.is_durable, ballots.saving)
        peer_lists = PeerLists(member.settings)
        return cls(member, store, elector, replication, transfer, peer_lists, ballots, ballot_work)

    # ---- outputs ----

    def take_calls(self) -> list[Call]:
        """Return the requests to send, once."""
        return self._take(self._calls)

    def take_responses(self) -> list[tuple[Caller, Message]]:
        """Return the responses to send, once."""
        return self._take(self._responses)

    def take_dropped(self) -> list[Caller]:
        """Return the requests that get no response, once."""
        dropped, self._dropped = self._dropped, []
        return dropped + self.replication.take_dropped() + self.transfer.take_dropped()

    def take_outcomes(self) -> list[tuple[Appender, AppendEntryResponse]]:
        """Return the appends that are decided, once."""
        return self._take(self._outcomes)

    @property
    def disk_work(self) -> tuple[DiskWork, ...]:
        """Slow calls to make; call `resume` after the last one of each."""
        return (self.replication.truncations, self.ballot_work)

    def take_role_changes(self) -> list[RoleChange]:
        """Return the changes since the last call, oldest first."""
        return self._take(self._role_changes)

    def _take(self, outputs: list[T]) -> list[T]:
        """Empty a list of outputs, and return what it had.

        Nothing before the ballot is durable: after a kill, the member could vote again in its term.
        """
        if not self.ballots.is_durable:
            return []
        taken = outputs.copy()
        outputs.clear()
        return taken

    @property
    def wake_at(self) -> int:
        """Time of the next `work`; it may be in the past."""
        parts = (self.elector, self.replication, self.transfer, self.peer_lists, self.ballot_work)
        times = (part.wake_at for part in parts)
        return min(time for time in times if time is not None)

    # ---- inputs ----

    def work(self, now: int) -> None:
        """Do all due work."""
        for peer in self.peer_lists.take_due(now):
            self._ask_for_list(peer)
        self.elector.tick(now)
        self._settle(now)

    def append(self, bodies: Sequence[bytes], appender: Appender, now: int) -> list[Entry]:
        """Append as leader. Raises as `Acks.append`."""
        try:
            return self.replication.append(bodies, appender, now, self.prepare)
        finally:  # after an error, too: entries before the failed one are pushed, and its cut is synced
            self._settle(now)

    def note_synced(self, now: int) -> None:
        """Act on a sync of the log; `EntryStore.synced_end` has its end."""
        self.replication.note_synced(now)
        self._settle(now)

    def resume(self, now: int) -> None:
        """Act on the end of slow calls.

        If a ballot could not be written, the outputs that wait for it are dropped.
        """
        if not self.ballots.is_durable and self.ballot_work.error:
            self._drop_outputs(now)
        self._settle(now)

    def _drop_outputs(self, now: int) -> None:
        """End all calls as if they had failed, and leave all requests without response."""
        calls, self._calls = self._calls, []
        self._dropped += [caller for caller, _ in self._responses]
        self._responses.clear()
        for call in calls:
            call.on_response(None, now)

    def handle(self, code: int, body: bytes, caller: Caller, now: int) -> None:
        """Accept a request of a peer or a client (dledger#13).

        The response may come later.

        BodyError for a body that does not fit. A code that is not of members is ignored.
        """
        match code:
            case DLedgerRequestCode.VOTE:
                self._handle_vote(VoteRequest.decode(body), caller)
            case DLedgerRequestCode.HEART_BEAT:
                self._handle_beat(HeartBeatRequest.decode(body), caller, now)
            case DLedgerRequestCode.PUSH:
                refused = self.replication.handle_push(PushEntryRequest.decode(body), caller, now)
                if refused is not None:
                    self._responses.append((caller, refused))
            case DLedgerRequestCode.LEADERSHIP_TRANSFER:
                self.transfer.handle(LeadershipTransferRequest.decode(body), caller, now)
            case DLedgerRequestCode.METADATA:
                self._responses.append((caller, handle_metadata(self.member, MetadataRequest.decode(body))))
            case DLedgerRequestCode.GET:
                self._responses.append((caller, handle_get(self.member, self.store, GetEntriesRequest.decode(body))))
            case DLedgerRequestCode.APPEND:
                self._handle_append(AppendEntryRequest.decode(body), caller, now)
        self._settle(now)

    def _ask_for_list(self, peer: str) -> None:
        def receive(body: bytes | None, now: int) -> None:
            self.peer_lists.note(peer, _decoded(MetadataResponse, body), now)

        self._calls.append(Call(peer, self.peer_lists.request(peer), receive))

    def receive(self, call: Call, body: bytes | None, now: int) -> None:
        """Act on a response; None after an error or a timeout.

        Foreign bytes count as an error.
        """
        call.on_response(body, now)
        self._settle(now)

    def _handle_vote(self, request: VoteRequest, caller: Caller) -> None:
        try:
            self.member.check_recipient(request)
        except DLedgerError as exc:
            self._responses.append((caller, refusal(VoteResponse, request, exc.code, self.member.leader_id)))
        else:
            self._responses.append((caller, self.elector.handle_vote(request)))

    def _handle_beat(self, request: HeartBeatRequest, caller: Caller, now: int) -> None:
        try:
            self.member.check_recipient(request)
        except DLedgerError as exc:
            self._responses.append((caller, refusal(HeartBeatResponse, request, exc.code, self.member.leader_id)))
        else:
            self._responses.append((caller, self.elector.handle_heart_beat(request, now)))

    def _handle_append(self, request: AppendEntryRequest, caller: Caller, now: int) -> None:
        """Append a client's body; the response follows the quorum's decision (dledger#62).

        BodyError for one that cannot be an entry, and OSError if it cannot be written, where DLedger fails too.
        """
        if request.body is None or len(request.body) + BODY_OFFSET > MAX_ENTRY:
            raise BodyError(f"APPEND without a body of at most {MAX_ENTRY - BODY_OFFSET} bytes")
        try:
            self.member.check_recipient(request)
            self._check_body(request.body)
            self.replication.append([request.body], ClientAppend(caller), now, self.prepare)
        except DLedgerError as exc:
            self._responses.append((caller, refusal(AppendEntryResponse, request, exc.code, self.member.leader_id)))

    def _check_body(self, body: bytes) -> None:
        if self.member.is_leader and not self.accepts(body):
            raise DLedgerError(DLedgerCode.UNEXPECTED_ARGUMENT, "a body that no dispatcher can read")

    # ---- outputs of parts ----

    def _settle(self, now: int) -> None:
        """Pass changes of role on, let all parts work, and collect their outputs."""
        changes = self.elector.take_role_changes()
        for change in changes:
            self.transfer.observe(change)
        self._role_changes += changes
        self.replication.work(now)
        self.transfer.work(now)
        if transferred := self.elector.take_role_changes():
            for change in transferred:
                self.transfer.observe(change)
            self._role_changes += transferred
        for appender, outcome in self.replication.take_outcomes():
            if isinstance(appender, ClientAppend):
                self._responses.append((appender.caller, outcome))
            else:
                self._outcomes.append((appender, outcome))
        self._responses += self.replication.take_responses()
        self._responses += self.transfer.take_responses()
        self._calls += map(self._election_call, self.elector.take_requests())
        self._calls += map(self._push_call, self.replication.take_pushes())
        self._calls += map(self._transfer_call, self.transfer.take_calls())
        self.ballot_work.work(now)

    def _election_call(self, outgoing: Outgoing) -> Call:
        ballots = outgoing.round

        def receive(body: bytes | None, now: int) -> None:
            if isinstance(ballots, VoteRound):
                self.elector.receive_vote(ballots, _decoded(VoteResponse, body), now)
            else:
                self.elector.receive_heartbeat(ballots, outgoing.peer, _decoded(HeartBeatResponse, body), now)

        return Call(outgoing.peer, outgoing.request, receive)

    def _push_call(self, push: Push) -> Call:
        def receive(body: bytes | None, now: int) -> None:
            self.replication.receive(push, _decoded(PushEntryResponse, body), now)

        return Call(push.peer, push.request, receive)

    def _transfer_call(self, call: TransferCall[Caller]) -> Call:
        def receive(body: bytes | None, _now: int) -> None:
            self.transfer.receive(call, _decoded(LeadershipTransferResponse, body))

        return Call(call.peer, call.request, receive)


def _decoded(kind: type[M], body: bytes | None) -> M | None:
    """Return a response, or None for an error, a timeout, or foreign bytes."""
    if body is None:
        return None
    try:
        return kind.decode(body)
    except BodyError:
        return None
