"""Read a range of a queue to its end, from whichever member of the broker's group has it. No message is left out unsaid.

A broker that is gone, hangs, or lags is passed over for the next one; where none has what is wanted, all are asked
again until the deadline. What is certainly gone (expired, or above the end of a queue that shrank) is a loss. Brokers
of which nobody answers are none: what they have may come back, and to go on without it would lose it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import trio

from rmqlab.client.errors import BrokerError
from rmqlab.client.instance import FAILURES, Client
from rmqlab.pipeline.errors import UserError
from rmqlab.pipeline.queues import Members, Pulled, Reading, merged, pull, topic_of
from rmqlab.pipeline.refusals import is_denied
from rmqlab.pipeline.topicoffsets import QueueName, QueueRange
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.names import MASTER_ID

READ_FROM: Final = ("master", "slave", "suggested")
_ONE_PULL: Final = 1024
"""Messages asked for at once; a broker gives as many as it is set to, 32 or 8 by default."""
_READ_AHEAD: Final = 8
"""Pulls that are under way at once, after one that found messages."""
_RETRY_SECONDS: Final = 0.2
_SHUN_SECONDS: Final = 30.0
_SURE_SECONDS: Final = 10.0
"""How long all members of a group must say that they lack a message before it counts as lost: copies take time."""
_COPIED: Final = frozenset((int(ResponseCode.TOPIC_NOT_EXIST), int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)))
"""Refusals for what a slave learns of up to ten seconds after its master: alone it cannot know that there is none."""
_REFUSED_FOR_GOOD: Final = _COPIED | {int(ResponseCode.SUBSCRIPTION_PARSE_FAILED)}


class ReadError(UserError):
    """A queue cannot be read: everybody refuses, or nobody answers. Nothing is known to be lost."""


@attrs.frozen
class Loss:
    """Messages that were promised and are gone: from `start` up to before `end`."""

    queue: QueueName
    start: int
    end: int
    reason: str

    def __str__(self) -> str:
        return f"{self.queue}: offsets {self.start} to {self.end - 1} are lost: {self.reason}"


@attrs.frozen
class Chunk:
    """A part of a queue, from `start` up to before `end`: all messages of it that pass the filter, and what is lost.

    `bodies` are answers to pulls, in order. The loss, if there is one, comes after them and ends at `end`.
    """

    start: int
    end: int
    bodies: Sequence[bytes] = ()
    loss: Loss | None = None


@attrs.define
class _Round:
    """What the members of a group said, each asked once for the messages from one offset on. They are asked in vain if
    `found` is None.
    """

    asked: int
    found: Pulled | None = None
    begins: list[int] = attrs.field(factory=list)
    """The first offsets of members that had those messages and deleted them."""
    lacking: int = 0
    """Members that have not got so far, or have lost them."""
    refusals: list[str] = attrs.field(factory=list)
    told: list[str] = attrs.field(factory=list)
    may_learn: bool = True
    """Only slaves were asked, and none refuses for what it has of its own."""

    @property
    def is_refused(self) -> bool:
        """Everybody refuses, and will."""
        return self.asked > 0 and len(self.refusals) == self.asked and not self.may_learn

    @property
    def is_deleted(self) -> bool:
        """Everybody has deleted them."""
        return self.asked > 0 and len(self.begins) == self.asked

    @property
    def is_complete(self) -> bool:
        """Everybody said what he has."""
        return self.asked > 0 and len(self.begins) + self.lacking == self.asked

    @property
    def is_answered(self) -> bool:
        """Somebody said what he has."""
        return bool(self.begins or self.lacking)

    def loss(self, part: QueueRange, start: int) -> Loss:
        """What is lost, if there is nobody else to ask."""
        if self.is_deleted:
            return Loss(part.queue, start, min(*self.begins, part.end), "the brokers have deleted them")
        end = min([*self.begins, part.end])
        return Loss(part.queue, start, end, f"no broker that answers has them ({'; '.join(self.told)})")


@attrs.define(eq=False)
class QueueCursor:
    """One walk through a range. `members` are addresses that were known when it was planned."""

    part: QueueRange
    members: Members
    reading: Reading
    position: int = attrs.field(init=False)
    _asked: int = attrs.field(default=MASTER_ID, init=False)
    """Who gave the last messages."""
    _preferred: int | None = attrs.field(default=None, init=False)
    _shunned: dict[int, float] = attrs.field(factory=dict, init=False)
    """Until when a member that failed is asked only after the others."""

    def __attrs_post_init__(self) -> None:
        self.position = self.part.start

    @property
    def is_done(self) -> bool:
        return self.position >= self.part.end

    async def next(self, client: Client, enough_bytes: int) -> Chunk:
        """Read on: what some pulls found, and what was lost after it. ReadError."""
        start, size = self.position, 0
        bodies: list[bytes] = []
        while not self.is_done and size < enough_bytes:
            step = await self._step(client)
            if isinstance(step, Loss):
                self.position = step.end
                return Chunk(start, step.end, bodies, step)
            for pulled in [step, *await self._ahead(client, step)]:
                self.position = pulled.next_offset
                if pulled.is_found:
                    bodies.append(pulled.body)
                    size += len(pulled.body)
        return Chunk(start, min(self.position, self.part.end), bodies)

    async def _step(self, client: Client) -> Pulled | Loss:
        """One pull that brings us on, or the loss that does."""
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
                    f"{self.part.queue} cannot be read from offset {self.position} on: nobody answers within "
                    f"{self.reading.seconds:g} s ({'; '.join(asked.told) or 'the route names no broker'}). Start its "
                    "broker, and read again: nothing is known to be lost."
                )
            await trio.sleep(_RETRY_SECONDS)
            await self._refresh(client)

    async def _ask_all(self, client: Client) -> _Round:
        """Ask member after member, until one has what we want."""
        addresses = self.members.get(self.part.queue.broker, {})
        asked = _Round(len(addresses))
        for broker_id in self._order(addresses):
            try:
                pulled = await self._pull(client, addresses[broker_id], self.position, _ONE_PULL)
            except BrokerError as exc:
                if exc.code in _REFUSED_FOR_GOOD or is_denied(exc.code, exc.remark or ""):
                    asked.refusals.append(str(exc))
                    asked.may_learn &= broker_id != MASTER_ID and exc.code in _COPIED
                asked.told.append(f"broker id {broker_id}: {exc}")
                continue
            except FAILURES as exc:
                self._shun(broker_id)
                asked.told.append(f"broker id {broker_id}: {exc}")
                continue
            if self._is_progress(pulled):
                self._prefer(broker_id, pulled)
                asked.found = pulled
                return asked
            if pulled.next_offset > self.position:
                asked.begins.append(pulled.next_offset)
                asked.told.append(f"broker id {broker_id} has none before offset {pulled.next_offset}")
            else:
                asked.lacking += 1
                asked.told.append(f"broker id {broker_id} has none from offset {self.position} on")
        return asked

    def _is_progress(self, pulled: Pulled) -> bool:
        """Messages; or none among those that the filter leaves."""
        if pulled.next_offset <= self.position or pulled.code == ResponseCode.PULL_OFFSET_MOVED:
            return False
        return pulled.is_found or not self.reading.wanted.is_any

    async def _ahead(self, client: Client, first: Pulled) -> list[Pulled]:
        """The pulls after one that found messages, all at once: each for as many as that one gave.

        Only answers that follow each other without a gap. With a filter nobody can tell where the next one begins.
        """
        address = self.members.get(self.part.queue.broker, {}).get(self._asked)
        if address is None or not first.is_found or not self.reading.wanted.is_any:
            return []
        stride = first.next_offset - self.position
        starts = range(first.next_offset, self.part.end, stride)[:_READ_AHEAD]
        answers: dict[int, Pulled] = {}

        async def ask(start: int) -> None:
            try:
                answers[start] = await self._pull(client, address, start, stride)
            except FAILURES:  # whoever asks next will hear of it
                self._shun(self._asked)

        async with trio.open_nursery() as nursery:
            for start in starts:
                nursery.start_soon(ask, start)
        return _unbroken(answers, first.next_offset)

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
        """Who is asked, in order: the one that is preferred, then by what is wished; who failed of late comes last."""
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
            return  # the addresses that we have are all that there is to try
        self.members = merged(self.members, fresh)


def _unbroken(answers: Mapping[int, Pulled], start: int) -> list[Pulled]:
    """The answers that found messages and follow each other, from `start` on."""
    row: list[Pulled] = []
    while (pulled := answers.get(start)) is not None and pulled.is_found and pulled.next_offset > start:
        row.append(pulled)
        start = pulled.next_offset
    return row
