"""Read a range of a queue from any member of the broker's group.

Each missing message is reported as lost. A member that is down, hangs, or lags is skipped for the next one; if no
member has the messages, all are asked again until the deadline. Messages are lost if they certainly do not exist
(expired, or above the end of a truncated queue). While no member of a group responds, its messages are not lost: they
may become available again.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import trio

from rmqlab.client.errors import BrokerError
from rmqlab.client.instance import FAILURES, Client
from rmqlab.pipeline.errors import UserError
from rmqlab.pipeline.topics.queues import Filter, Members, Pulled, Reading, merged, pull, pull_all, topic_of
from rmqlab.pipeline.topics.refusals import is_denied, lacks_filter
from rmqlab.pipeline.topics.topicoffsets import QueueName, QueueRange
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.names import MASTER_ID
from rmqlab.runtime.net.remoting_errors import ConnectError

READ_FROM: Final = ("master", "slave", "suggested")
_READ_AHEAD: Final = 32
"""Maximum number of concurrent pulls, after one that found messages: a round trip costs as much CPU as many of them."""
_READ_AHEAD_BYTES: Final = 2 * 2**20
"""Bytes of these pulls, if all return as much as that one; one pull may return more.

They share the timeout of a request: a member that is too slow for it is asked for less."""
_RETRY_SECONDS: Final = 0.2
_SHUN_SECONDS: Final = 30.0
_SURE_SECONDS: Final = 10.0
"""Seconds all members of a group must report a message missing before it is lost: replication takes time."""
_COPIED: Final = frozenset((int(ResponseCode.TOPIC_NOT_EXIST), int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)))
"""Errors about metadata that a slave receives up to ten seconds after its master: not final from a slave alone."""
_REFUSED_FOR_GOOD: Final = _COPIED | {int(ResponseCode.SUBSCRIPTION_PARSE_FAILED)}


class ReadError(UserError):
    """A queue cannot be read: all members refuse, or none responds.

    No loss of messages was detected.
    """


@attrs.frozen
class Loss:
    """Messages of the range that are lost: from `start`, up to but excluding `end`."""

    queue: QueueName
    start: int
    end: int
    reason: str

    def __str__(self) -> str:
        return f"{self.queue}: offsets {self.start} to {self.end - 1} are lost: {self.reason}"


@attrs.frozen
class Chunk:
    """A part of a queue from `start` to before `end`: matching messages, and the loss.

    `bodies` are bodies of pull responses, in order. The loss, if any, follows them and ends at `end`.
    """

    start: int
    end: int
    bodies: Sequence[bytes] = ()
    loss: Loss | None = None

    @property
    def available_end(self) -> int:
        """The end of the part that was read: before the loss, if any."""
        return self.end if self.loss is None else self.loss.start


@attrs.define
class _Round:
    """Responses of a group's members to one pull from an offset.

    Each member is asked once. `found` is None if no member has them.
    """

    asked: int
    found: Pulled | None = None
    begins: list[int] = attrs.field(factory=list)
    """The first available offsets of members that deleted the messages."""
    lacking: int = 0
    """Members that have not received the messages yet, or lost them."""
    refusals: list[str] = attrs.field(factory=list)
    replies: list[str] = attrs.field(factory=list)
    may_learn: bool = True
    """True if only slaves were asked, and they refused only for metadata that they may still receive."""

    @property
    def is_refused(self) -> bool:
        """True if all members refuse permanently."""
        return self.asked > 0 and len(self.refusals) == self.asked and not self.may_learn

    @property
    def is_deleted(self) -> bool:
        """True if all members have deleted the messages."""
        return self.asked > 0 and len(self.begins) == self.asked

    @property
    def is_complete(self) -> bool:
        """True if all members reported which messages they have."""
        return self.asked > 0 and len(self.begins) + self.lacking == self.asked

    @property
    def is_answered(self) -> bool:
        """True if any member reported which messages it has."""
        return bool(self.begins or self.lacking)

    def loss(self, part: QueueRange, start: int) -> Loss:
        """Return the loss, provided that no other member can have the messages."""
        if self.is_deleted:
            return Loss(part.queue, start, min(*self.begins, part.end), "the brokers have deleted them")
        end = min([*self.begins, part.end])
        return Loss(part.queue, start, end, f"no broker that responds has them ({'; '.join(self.replies)})")


@attrs.define(eq=False)
class QueueCursor:
    """Reads one range. `members` are the addresses at the time of planning."""

    part: QueueRange
    members: Members
    reading: Reading
    position: int = attrs.field(init=False)
    _asked: int = attrs.field(default=MASTER_ID, init=False)
    """Id of the member that returned the last messages."""
    _preferred: int | None = attrs.field(default=None, init=False)
    _shunned: dict[int, float] = attrs.field(factory=dict, init=False)
    """Time until which a failed member is asked only after the others."""
    _ahead_bytes: int = attrs.field(default=_READ_AHEAD_BYTES, init=False)
    """Bytes of concurrent pulls: half of what arrived in time when some did not, then one pull more each time."""

    def __attrs_post_init__(self) -> None:
        self.position = self.part.start

    @property
    def is_done(self) -> bool:
        return self.position >= self.part.end

    async def next(self, client: Client, enough_bytes: int) -> Chunk:
        """Return the result of the next pulls, and the loss after it. Raises ReadError.

        In a filtered response, deleted messages look like messages that the filter excludes. So the part is read again
        if its first message is not there any more: brokers delete the oldest first.
        """
        start, deadline = self.position, trio.current_time() + self.reading.seconds
        while True:
            chunk, served = await self._chunk(client, enough_bytes)
            if self.reading.message_filter.is_any or await self._are_there(client, served):
                return chunk
            if trio.current_time() >= deadline:
                reason = "the brokers have deleted some of them, which the filter may include"
                return attrs.evolve(chunk, loss=chunk.loss or Loss(self.part.queue, start, chunk.end, reason))
            self.position = start
            await trio.sleep(_RETRY_SECONDS)
            await self._refresh(client)

    async def _chunk(self, client: Client, enough_bytes: int) -> tuple[Chunk, dict[int, int]]:
        """Return the result of the next pulls, and where each member's reads began."""
        start, size = self.position, 0
        bodies: list[bytes] = []
        served: dict[int, int] = {}
        while not self.is_done and size < enough_bytes:
            step = await self._step(client)
            if isinstance(step, Loss):
                self.position = step.end
                return Chunk(start, step.end, bodies, step), served
            served.setdefault(self._asked, self.position)
            for pulled in [step, *await self._ahead(client, step)]:
                self.position = pulled.next_offset
                if pulled.is_found:
                    bodies.append(pulled.body)
                    size += len(pulled.body)
        return Chunk(start, min(self.position, self.part.end), bodies), served

    async def _are_there(self, client: Client, places: Mapping[int, int]) -> bool:
        """Return True if each of these members has the message at its position."""
        unfiltered = attrs.evolve(self.reading, message_filter=Filter())
        for broker_id, position in places.items():
            address = self.members.get(self.part.queue.broker, {}).get(broker_id)
            with contextlib.suppress(*FAILURES):
                if address is not None:
                    queue = self.part.queue
                    pulled = await pull(client, address, queue, position, count=1, reading=unfiltered)
                    if pulled.is_found and pulled.next_offset == position + 1:
                        continue
            self._shun(broker_id)
            return False
        return True

    async def _step(self, client: Client) -> Pulled | Loss:
        """Return one pull that advances the position, or the loss that does."""
        began_at = complete_since = trio.current_time()
        while True:
            asked = await self._ask_all(client)
            if asked.found is not None:
                return asked.found
            if asked.is_refused:
                raise ReadError(f"{self.part.queue} cannot be read: {'; '.join(asked.refusals)}")
            now = trio.current_time()
            complete_since = complete_since if asked.is_complete else now
            is_late = now >= began_at + self.reading.seconds
            is_sure = asked.is_deleted or (asked.is_complete and now >= complete_since + _SURE_SECONDS)
            if is_sure or (is_late and asked.is_answered):
                return asked.loss(self.part, self.position)
            if is_late:
                raise ReadError(
                    f"{self.part.queue} cannot be read from offset {self.position} on: no broker served it within "
                    f"{self.reading.seconds:g} s ({'; '.join(asked.replies) or 'the route names no broker'}). Start its"
                    " broker and read again: no loss of messages was detected."
                )
            await trio.sleep(_RETRY_SECONDS)
            await self._refresh(client)

    async def _ask_all(self, client: Client) -> _Round:
        """Ask members one after the other, until one has the messages."""
        addresses = self.members.get(self.part.queue.broker, {})
        asked = _Round(len(addresses))
        for broker_id in self._order(addresses):
            try:
                pulled = await self._pull(client, addresses[broker_id], self.position, self.reading.pull_batch_size)
            except BrokerError as exc:
                if _is_final(exc):
                    asked.refusals.append(str(exc))
                    asked.may_learn &= broker_id != MASTER_ID and exc.code in _COPIED
                asked.replies.append(f"broker id {broker_id}: {exc}")
                continue
            except FAILURES as exc:
                self._shun(broker_id)
                asked.replies.append(f"broker id {broker_id}: {exc}")
                continue
            if self._is_progress(pulled):
                self._prefer(broker_id, pulled)
                asked.found = pulled
                return asked
            if pulled.next_offset > self.position:
                asked.begins.append(pulled.next_offset)
                asked.replies.append(f"broker id {broker_id} has none before offset {pulled.next_offset}")
            else:
                asked.lacking += 1
                asked.replies.append(f"broker id {broker_id} has none from offset {self.position} on")
        return asked

    def _is_progress(self, pulled: Pulled) -> bool:
        """Return True for messages, or if the filter excludes all of a scanned part."""
        if pulled.next_offset <= self.position or pulled.code == ResponseCode.PULL_OFFSET_MOVED:
            return False
        return pulled.is_found or not self.reading.message_filter.is_any

    async def _ahead(self, client: Client, first: Pulled) -> list[Pulled]:
        """Return the responses of concurrent pulls after one that found messages.

        Each pull requests as many messages as that one returned. Only responses without gaps between them. With a
        filter the start of the next pull cannot be predicted.
        """
        address = self.members.get(self.part.queue.broker, {}).get(self._asked)
        if address is None or not first.is_found or not self.reading.message_filter.is_any:
            return []
        stride = first.next_offset - self.position
        pulls = min(_READ_AHEAD, max(1, self._ahead_bytes // max(1, len(first.body))))
        starts = range(first.next_offset, self.part.end, stride)[:pulls]
        queue, end = self.part.queue, self.part.end
        found: list[Pulled | None] = [None] * len(starts)
        with contextlib.suppress(ConnectError):
            found = await pull_all(client, address, queue, starts, count=stride, end=end, reading=self.reading)
        row = _unbroken(found, starts)
        if None not in found:
            self._ahead_bytes = min(self._ahead_bytes + len(first.body), _READ_AHEAD_BYTES)
        elif row:
            self._ahead_bytes = sum(len(pulled.body) for pulled in row) // 2
        else:
            self._shun(self._asked)  # the next pull from this member reports the error
        return row

    async def _pull(self, client: Client, address: str, offset: int, count: int) -> Pulled:
        return await pull(
            client,
            address,
            self.part.queue,
            offset,
            count=min(count, self.part.end - offset),
            reading=self.reading,
        )

    def _order(self, addresses: Mapping[int, str]) -> list[int]:
        """Return the members in the order to ask: preferred, then by option readFrom.

        Members that failed recently are last.
        """
        slaves = [broker_id for broker_id in sorted(addresses) if broker_id != MASTER_ID]
        masters = [MASTER_ID] if MASTER_ID in addresses else []
        order = slaves + masters if self.reading.read_from == "slave" else masters + slaves
        if self._preferred in order and self.reading.read_from != "master":
            order.remove(self._preferred)
            order.insert(0, self._preferred)
        now = trio.current_time()
        return sorted(order, key=lambda broker_id: self._shunned.get(broker_id, 0.0) > now)

    def _prefer(self, broker_id: int, pulled: Pulled) -> None:
        self._asked = broker_id
        self._preferred = pulled.suggested_broker_id if self.reading.read_from == "suggested" else broker_id

    def _shun(self, broker_id: int) -> None:
        self._shunned[broker_id] = trio.current_time() + _SHUN_SECONDS

    async def _refresh(self, client: Client) -> None:
        try:
            fresh = (await topic_of(client, self.part.queue.topic)).members
        except FAILURES:
            return  # keep the known addresses
        self.members = merged(self.members, fresh)


def _is_final(refusal: BrokerError) -> bool:
    remark = refusal.remark or ""
    return refusal.code in _REFUSED_FOR_GOOD or is_denied(refusal.code, remark) or lacks_filter(remark)


def _unbroken(found: Sequence[Pulled | None], starts: Sequence[int]) -> list[Pulled]:
    """Return the first responses with messages that continue each other.

    There are no gaps between them.
    """
    row: list[Pulled] = []
    for start, pulled in zip(starts, found, strict=True):
        is_next = not row or row[-1].next_offset == start
        if not is_next or pulled is None or not pulled.is_found or pulled.next_offset <= start:
            break
        row.append(pulled)
    return row
