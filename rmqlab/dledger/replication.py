"""All of a member's replication: own appends, and those of a leader it follows."""

from collections.abc import Sequence
from typing import Generic, Self, TypeVar

import attrs

from rmqlab.dledger.acks import Acks
from rmqlab.dledger.bodies import AppendEntryResponse, PushEntryRequest, PushEntryResponse, refusal
from rmqlab.dledger.codes import DLedgerError
from rmqlab.dledger.diskwork import DiskWork
from rmqlab.dledger.entry import Entry
from rmqlab.dledger.entrystore import EntryStore, Prepare
from rmqlab.dledger.follower import Follower
from rmqlab.dledger.member import Member
from rmqlab.dledger.pusher import Push, Pusher

Appender = TypeVar("Appender")
"""Identifies an append to the owner."""
Peer = TypeVar("Peer")
"""Identifies a push to the owner, who responds to it."""


@attrs.define
class Replication(Generic[Appender, Peer]):
    """The parts for each role; those of other roles rest.

    Call `work` after each change of role and at `wake_at`. After each call, send what `take_pushes` and
    `take_responses` return, finish the appends of `take_outcomes`, and make the calls of `truncations`.
    """

    member: Member
    store: EntryStore
    acks: Acks[Appender]
    follower: Follower[Peer]
    pushers: dict[str, Pusher]
    truncations: DiskWork
    """A cut that could not be completed is completed later, in any role. Until then the store refuses appends."""

    @classmethod
    def of(cls, member: Member, store: EntryStore) -> Self:
        """Return the replication of a member with an open log.

        The end of the log becomes the member's.
        """
        member.end_index, member.end_term = store.end_index, store.end_term
        acks: Acks[Appender] = Acks(member, store)
        pushers = {peer: Pusher(member, store, acks, peer) for peer in member.settings.others}
        truncations = DiskWork("the cut of its log", lambda: store.cut.is_pending, store.completion_of_cut)
        return cls(member, store, acks, Follower(member, store, truncations), pushers, truncations)

    @property
    def wake_at(self) -> int | None:
        """Time of the next `work` without input; None if only an input can cause one."""
        times = [self.follower.wake_at, self.acks.wake_at, self.truncations.wake_at]
        times += [pusher.wake_at for pusher in self.pushers.values()]
        return min((time for time in times if time is not None), default=None)

    def work(self, now: int) -> None:
        """Send due pushes and apply due requests."""
        self.acks.check(now)
        self.truncations.work(now)
        self.follower.work(now)
        for pusher in self.pushers.values():
            pusher.work(now)

    # ---- as leader ----

    def append(
        self, bodies: Sequence[bytes], appender: Appender, now: int, prepare: Prepare | None = None
    ) -> list[Entry]:
        """Append and push at once. Raises as `Acks.append`."""
        entries = self.acks.append(bodies, appender, now, prepare)
        self.work(now)
        return entries

    def note_synced(self, now: int) -> None:
        """Acknowledge entries that are on disk now, in either role, with `ack_after_sync`."""
        self.follower.release()
        self.acks.note_synced(now)

    def receive(self, push: Push, response: PushEntryResponse | None, now: int) -> None:
        """Act on the response to a push; None after an error or a timeout."""
        self.pushers[push.peer].receive(push, response, now)

    def take_pushes(self) -> list[Push]:
        """Return the requests to send, once."""
        return [push for pusher in self.pushers.values() for push in pusher.take_pushes()]

    def take_outcomes(self) -> list[tuple[Appender, AppendEntryResponse]]:
        """Return the appends that are decided, once."""
        return self.acks.take_outcomes()

    # ---- as follower ----

    def handle_push(self, request: PushEntryRequest, peer: Peer, now: int) -> PushEntryResponse | None:
        """Accept a push, and return the response if it is refused.

        Otherwise `take_responses` has the response, now or later.
        """
        try:
            self.member.check_recipient(request)
            self.follower.handle(request, peer, now)
        except DLedgerError as exc:
            return refusal(PushEntryResponse, request, exc.code, self.member.leader_id)
        return None

    def take_dropped(self) -> list[Peer]:
        """Return the pushes that get no response, once."""
        return self.follower.take_dropped()

    def take_responses(self) -> list[tuple[Peer, PushEntryResponse]]:
        """Return the responses to send, once."""
        return self.follower.take_responses()
