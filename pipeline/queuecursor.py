"""Read a range of a queue to its end, from whichever member of the broker's group has it. No message is left out unsaid.

A broker that is gone, hangs, or lags is passed over for the next one; where none has what is wanted, all are asked
again until the deadline. What is certainly gone (expired, or above the end of a queue that shrank) is a loss.
"""

from collections.abc import Mapping
from typing import Final

import attrs
import trio

from client.errors import BrokerError
from client.instance import FAILURES, Client
from pipeline.queues import Filter, Members, Pulled, merged, pull, topic_of
from pipeline.topicoffsets import QueueName, QueueRange
from remoting.codes import ResponseCode
from remoting.names import MASTER_ID

READ_FROM: Final = ("master", "slave", "suggested")
_ONE_PULL: Final = 1024
"""Messages asked for at once; a broker gives as many as it is set to."""
_RETRY_SECONDS: Final = 0.2
_SHUN_SECONDS: Final = 30.0
_REFUSED_FOR_GOOD: Final = frozenset(
    map(int, (ResponseCode.NO_PERMISSION, ResponseCode.SUBSCRIPTION_PARSE_FAILED, ResponseCode.TOPIC_NOT_EXIST))
)


class ReadError(Exception):
    """A queue cannot be read, and waiting would not help."""


@attrs.frozen(kw_only=True)
class Reading:
    """How to read. Seconds are those of the process's clock."""

    read_from: str = "suggested"
    wanted: Filter = attrs.field(factory=Filter)
    group: str = "rmqlab-spark"
    seconds: float = 120.0
    """How long to look for somebody who has what is wanted."""
    request_seconds: float = 5.0


@attrs.frozen
class Loss:
    """Messages that were promised and are gone: from `start` up to before `end`."""

    queue: QueueName
    start: int
    end: int
    reason: str

    def __str__(self) -> str:
        return f"{self.queue}: offsets {self.start} to {self.end - 1} are lost: {self.reason}"


@attrs.define(eq=False)
class QueueCursor:
    """One walk through a range. `members` are addresses that were known when it was planned."""

    part: QueueRange
    members: Members
    reading: Reading
    position: int = attrs.field(init=False)
    _preferred: int | None = attrs.field(default=None, init=False)
    _shunned: dict[int, float] = attrs.field(factory=dict, init=False)
    """Until when a member that failed is asked only after the others."""

    def __attrs_post_init__(self) -> None:
        self.position = self.part.start

    @property
    def is_done(self) -> bool:
        return self.position >= self.part.end

    async def next(self, client: Client, enough_bytes: int) -> tuple[list[bytes], Loss | None]:
        """Read on: records of some pulls, and what was lost after them. Both are empty only at the end. ReadError."""
        bodies: list[bytes] = []
        size = 0
        while not self.is_done and size < enough_bytes:
            step = await self._step(client)
            if isinstance(step, Loss):
                self.position = step.end
                return bodies, step
            if step.is_found:
                bodies.append(step.body)
                size += len(step.body)
            elif self.reading.wanted.is_any:
                loss = Loss(
                    self.part.queue, self.position, min(step.next_offset, self.part.end), "the broker skips them"
                )
                self.position = step.next_offset
                return bodies, loss
            self.position = step.next_offset
        return bodies, None

    async def _step(self, client: Client) -> Pulled | Loss:
        """One pull that brings us on, or the loss that does."""
        deadline = trio.current_time() + self.reading.seconds
        while True:
            found, silent = await self._ask_all(client)
            if found is not None:
                return found
            if trio.current_time() >= deadline:
                reason = f"nobody has them within {self.reading.seconds:g} s ({'; '.join(silent)})"
                return Loss(self.part.queue, self.position, self.part.end, reason)
            await trio.sleep(_RETRY_SECONDS)
            await self._refresh(client)

    async def _ask_all(self, client: Client) -> tuple[Pulled | Loss | None, list[str]]:
        """Ask member after member. Expired for all who answer is a loss only when every one of them answered."""
        told: list[str] = []
        begins: list[int] = []
        addresses = self.members.get(self.part.queue.broker, {})
        for broker_id in self._order(addresses):
            try:
                pulled = await self._pull(client, addresses[broker_id])
            except BrokerError as exc:
                if exc.code in _REFUSED_FOR_GOOD:
                    raise ReadError(f"{self.part.queue}: {exc}") from None
                told.append(f"broker id {broker_id}: {exc}")
                continue
            except FAILURES as exc:
                self._shunned[broker_id] = trio.current_time() + _SHUN_SECONDS
                told.append(f"broker id {broker_id}: {exc}")
                continue
            if pulled.next_offset > self.position and pulled.code != ResponseCode.PULL_OFFSET_MOVED:
                self._preferred = self._next_member(broker_id, pulled)
                return pulled, told
            if pulled.next_offset > self.position:
                begins.append(pulled.next_offset)
            told.append(f"broker id {broker_id} has offsets up to {pulled.next_offset}")
        if begins and len(begins) == len(addresses):
            end = min(*begins, self.part.end)
            return Loss(self.part.queue, self.position, end, "the brokers have deleted them"), told
        return None, told or ["the route names no broker"]

    async def _pull(self, client: Client, address: str) -> Pulled:
        return await pull(
            client,
            address,
            self.part.queue,
            self.position,
            count=min(_ONE_PULL, self.part.end - self.position),
            wanted=self.reading.wanted,
            group=self.reading.group,
            timeout=self.reading.request_seconds,
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

    def _next_member(self, broker_id: int, pulled: Pulled) -> int:
        return pulled.suggested_broker_id if self.reading.read_from == "suggested" else broker_id

    async def _refresh(self, client: Client) -> None:
        try:
            fresh = (await topic_of(client, self.part.queue.topic)).members
        except FAILURES:
            return  # the addresses that we have are all that there is to try
        self.members = merged(self.members, fresh)
