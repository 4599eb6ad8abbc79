"""A leader's side of replication to one peer, without network and clock.

Section 6.1, class DLedgerEntryPusher.EntryDispatcher.
"""

from typing import Any, Final

import attrs

from rmqlab.dledger.acks import Acks
from rmqlab.dledger.bodies import EntryBody, PushEntryRequest, PushEntryResponse
from rmqlab.dledger.codes import DLedgerCode, DLedgerError, PushType
from rmqlab.dledger.entry import Entry
from rmqlab.dledger.entrystore import EntryStore
from rmqlab.dledger.member import Member
from rmqlab.dledger.pending import MOST_PENDING, Pending, Sent
from rmqlab.dledger.quota import Quota

PUSH_TIMEOUT_MS: Final = 1000
"""The first APPEND without response is repeated after more than this."""
COMMIT_INTERVAL_MS: Final = 1000
PAUSE_MS: Final = 500
"""After an error."""
NEVER: Final = -(2**62)


@attrs.frozen(eq=False)
class Push:
    """A request to the peer.

    The owner returns it with the response, or with None after 3000 ms.
    """

    peer: str
    request: PushEntryRequest


@attrs.define
class Pusher:
    """Brings the log of one peer in line with the leader's, then appends to it.

    Call `work` when the role changes, after an append, and at `wake_at`; send what `take_pushes` returns.
    """

    member: Member
    store: EntryStore
    acks: Acks[Any]
    peer: str
    type: PushType = PushType.COMPARE
    """COMPARE until the last common entry is found, TRUNCATE while the peer cuts, then APPEND."""
    _term: int = -1
    _compare_index: int = -1
    """The entry to compare next; -1: the last one."""
    _write_index: int = -1
    """The entry to append next."""
    _had_at_refusal: int | None = None
    """The last entry that the peer was known to have when it last refused an APPEND in this term."""
    _pending: Pending = attrs.field(factory=Pending)
    _quota: Quota = attrs.Factory(lambda self: Quota(self.member.settings.peer_push_quota), takes_self=True)
    _rests_until: int | None = None
    """True while the quota is used up. The quota already includes the next entry."""
    _awaited: Push | None = None
    """The COMPARE or TRUNCATE whose response is awaited."""
    _pushed_at: int = NEVER
    _had: int = -1
    """The last entry that the peer was known to have when the last COMMIT was sent."""
    _paused_until: int = NEVER
    _pushes: list[Push] = attrs.field(factory=list)

    def take_pushes(self) -> list[Push]:
        """Return the requests to send, once."""
        pushes, self._pushes = self._pushes, []
        return pushes

    @property
    def wake_at(self) -> int | None:
        """Time of the next turn without input; it may be in the past.

        None if only an input can cause one.
        """
        if not self.member.is_leader or self._awaited is not None:
            return None
        if self.type is not PushType.APPEND:
            return None if self.store.end_index == -1 else self._paused_until
        if self._rests_until is not None:
            return self._rests_until
        repeat = self._pending.sent.get(self.acks.watermark(self.peer) + 1)
        times = [self._pushed_at + COMMIT_INTERVAL_MS + 1]
        if repeat is not None:
            times.append(repeat.at + PUSH_TIMEOUT_MS + 1)
        return max(self._paused_until, min(times))

    def work(self, now: int) -> None:
        """Send due requests. Do nothing while this member is not the leader."""
        if not self._enter_term() or now < self._paused_until:
            return
        try:
            if self.type is PushType.APPEND:
                self._append(now)
            elif self._awaited is None:
                self._compare(now)
        except DLedgerError as exc:
            if exc.code is DLedgerCode.INDEX_LESS_THAN_LOCAL_BEGIN and self.type is PushType.APPEND:
                self._start_comparing()  # the peer's next entry has expired: it is to begin where this log begins
            else:
                self._fail(now)
        except OSError:
            self._fail(now)

    def _enter_term(self) -> bool:
        """True if this member is leader. A new term begins with a comparison (dledger#36)."""
        if not self.member.is_leader:
            return False
        if self._term != self.member.term:
            self._term = self.member.term
            self.acks.enter_term()
            self._had_at_refusal = None
            self._start_comparing()
        return True

    def _start_comparing(self) -> None:
        self.type, self._awaited = PushType.COMPARE, None
        self._compare_index = -1
        self._rests_until = None
        self._pending.clear()

    def _fail(self, now: int) -> None:
        """Restart the comparison, after a pause (dledger#36)."""
        self._start_comparing()
        self._paused_until = now + PAUSE_MS

    def _send(self, push_type: PushType, now: int, *entries: Entry, is_batch: bool = False) -> Push:
        bodies, member = [EntryBody.of(entry) for entry in entries], self.member
        request = PushEntryRequest(
            group=member.settings.group,
            leader_id=member.self_id,
            local_id=member.self_id,
            remote_id=self.peer,
            term=self._term,
            type=push_type,
            entry=bodies[0] if bodies and not is_batch else None,
            batch_entry=bodies if is_batch else [],
            commit_index=self.store.committed_index,
        )
        push = Push(self.peer, request)
        self._pushes.append(push)
        if push_type is not PushType.COMPARE:
            self._pushed_at = now
        return push

    # ---- comparing and truncating ----

    def _compare(self, now: int) -> None:
        """Send the entry to compare (dledger#33). An empty log has nothing to compare."""
        if self.store.end_index == -1:
            return
        if not self.store.begin_index <= self._compare_index <= self.store.end_index:
            self._compare_index = self.store.end_index
        self._awaited = self._send(PushType.COMPARE, now, self.store.get(self._compare_index))

    def _compared(self, response: PushEntryResponse, now: int) -> None:
        """Follow the table of section 6.1."""
        begin = self.store.begin_index
        if response.dledger_code is DLedgerCode.SUCCESS:
            if response.end_index == self._compare_index:
                self._start_appending(self._compare_index, now)
            else:
                self._truncate(self._compare_index, now)
            return
        is_apart = response.end_index < begin or response.begin_index > self.store.end_index
        if is_apart or self._compare_index < response.begin_index:
            self._truncate(begin, now)
        elif self._compare_index > response.end_index:
            self._compare_index = response.end_index
        else:
            self._compare_index -= 1
        if self.type is PushType.COMPARE and self._compare_index < begin:
            self._truncate(begin, now)

    def _truncate(self, index: int, now: int) -> None:
        self.type = PushType.TRUNCATE
        self._awaited = self._send(PushType.TRUNCATE, now, self.store.get(index))

    def _start_appending(self, index: int, now: int) -> None:
        """The peer's log equals ours up to an index."""
        self.type = PushType.APPEND
        self._compare_index = -1
        self._write_index = index + 1
        self.acks.report(self._term, self.peer, index, now)

    # ---- appending ----

    def _append(self, now: int) -> None:
        """Send entries that the peer lacks, up to the limit without response (dledger#34)."""
        watermark, push = self.acks.watermark(self.peer), self._push_batch if self._has_batches else self._push_one
        while self._write_index <= self.store.end_index:
            if self._pending.is_full:
                self._pending.remove_stored(watermark)
            if self._pending.is_full or not push(self._write_index, now):
                break
            self._write_index += self._pending.sent[self._write_index].count
        else:
            if now - self._pushed_at > COMMIT_INTERVAL_MS:
                self._had = watermark
                self._send(PushType.COMMIT, now)
        repeated = self._pending.sent.get(watermark + 1)
        if repeated is not None and now - repeated.at > PUSH_TIMEOUT_MS and self._rests_until is None:
            push(watermark + 1, now, repeated.count)

    @property
    def _has_batches(self) -> bool:
        return self.member.settings.enable_batch_push

    def _push_one(self, index: int, now: int, _count: int = 1) -> bool:
        """Push an entry. False if the quota of a peer far behind is used up (dledger#61)."""
        entry = self.store.get(index)
        if self._rests_until is None:
            wait = self._quota.use(entry.size, now) if self._is_far_ahead_of(entry) else 0
            self._rests_until = now + wait if wait else None
        if self._rests_until is not None and now < self._rests_until:
            return False
        self._rests_until = None
        self._send(PushType.APPEND, now, entry)
        self._pending.add(index, Sent(now, 1, entry.size))
        return True

    def _is_far_ahead_of(self, entry: Entry) -> bool:
        if self.store.end_index - entry.index <= MOST_PENDING:
            return False
        return self.store.data.max_offset - entry.pos >= self.member.settings.peer_push_throttle_point

    def _push_batch(self, first: int, now: int, count: int = 0) -> bool:
        """Push `count` entries, or as many as make a batch (dledger#38)."""
        entries: list[Entry] = []
        size, limit = 0, self.member.settings.max_batch_push_size
        last = first + count - 1 if count else self.store.end_index
        while first + len(entries) <= last and (count or size < limit):
            entries.append(self.store.get(first + len(entries)))
            size += entries[-1].size
        self._send(PushType.APPEND, now, *entries, is_batch=True)
        self._pending.add(first, Sent(now, len(entries), size))
        return True

    # ---- responses ----

    def receive(self, push: Push, response: PushEntryResponse | None, now: int) -> None:
        """Act on the response to a request; None after an error or a timeout."""
        request = push.request
        was_awaited = push is self._awaited
        if was_awaited:
            self._awaited = None
        if not self._enter_term() or request.term != self._term:
            if was_awaited:
                self._start_comparing()  # this member may be elected again in the same term
            return
        if request.type is PushType.APPEND:
            self._appended(response, now)
        elif request.type is PushType.COMMIT:
            self._committed(response)
        elif was_awaited:
            self._decided(request, response, now)
        self.work(now)

    def _appended(self, response: PushEntryResponse | None, now: int) -> None:
        code = response.dledger_code if response else DLedgerCode.NETWORK_ERROR
        if response and response.index is not None and code is DLedgerCode.SUCCESS:
            self._pending.remove(response.index)
            others = max(0, response.count - 1) if self._has_batches else 0
            self.acks.report(response.term, self.peer, response.index + others, now)
        elif code is DLedgerCode.INCONSISTENT_STATE and self.type is PushType.APPEND:
            self._compare_again(now)

    def _compare_again(self, now: int) -> None:
        """Compare at once, or after a pause if the peer has refused the same entry before.

        A peer whose disk is full refuses each entry. DLedger compares and appends without an end, with 1 ms in between.
        """
        before, self._had_at_refusal = self._had_at_refusal, self.acks.watermark(self.peer)
        if before == self._had_at_refusal:
            self._fail(now)
        else:
            self._start_comparing()

    def _committed(self, response: PushEntryResponse | None) -> None:
        """Compare again if the peer has lost entries, as by a late TRUNCATE.

        Source: section 6.3. DLedger finds out at its next APPEND: entries that were acknowledged are lost if it ends
        before. The response to an earlier COMMIT can cause a comparison in vain.
        """
        if response is None or response.dledger_code is not DLedgerCode.SUCCESS or self.type is not PushType.APPEND:
            return
        if response.end_index < self._had:
            self._start_comparing()

    def _decided(self, request: PushEntryRequest, response: PushEntryResponse | None, now: int) -> None:
        """Act on the response to a COMPARE or TRUNCATE; any unexpected one is an error."""
        code = response.dledger_code if response else DLedgerCode.NETWORK_ERROR
        is_compare = request.type is PushType.COMPARE
        expected = (DLedgerCode.SUCCESS, DLedgerCode.INCONSISTENT_STATE) if is_compare else (DLedgerCode.SUCCESS,)
        if response is None or code not in expected:
            self._fail(now)
            return
        try:
            if is_compare:
                self._compared(response, now)
            else:
                self._start_appending(request.first_index, now)
        except (DLedgerError, OSError):
            self._fail(now)
