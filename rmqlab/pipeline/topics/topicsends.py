"""Send the rows of a task.

In order within a queue, concurrently across queues, several rows in a request.
"""

import collections
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Final

import attrs
import trio

from rmqlab.client.config import ProducerConfig
from rmqlab.client.errors import IndeterminateError, NoRouteError
from rmqlab.client.instance import FAILURES, Client
from rmqlab.client.limited import for_each
from rmqlab.client.message import Message, SendStatus
from rmqlab.client.producer import Producer
from rmqlab.pipeline.errors import UserError
from rmqlab.pipeline.topics.blocking_client import first_failure
from rmqlab.pipeline.topics.refusals import is_denied
from rmqlab.pipeline.topics.topicoptions import TopicOptions
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.message import PROPERTY_UNIQ_KEY, java_hash
from rmqlab.remoting.unique_ids import UniqueIdGenerator
from rmqlab.runtime.clock import wall_millis
from rmqlab.runtime.text.counted import counted

_RETRY_SECONDS: Final = 0.5
_FREE_LANES: Final = 4
_LONE_LANES: Final = 32
"""Lanes of messages that share no requests: each waits for a round trip."""
_BATCH_BYTES: Final = 2**20


class SendFailedError(UserError):
    """Rows could not be written in time, or no broker accepts them.

    The text says which and why.
    """


@attrs.frozen
class OutgoingMessage:
    """A message and its target: one queue, the queue chosen by a key, or any queue."""

    message: Message
    queue_id: int | None = None
    broker: str | None = None
    sharding_key: str | None = None

    @property
    def is_keyed(self) -> bool:
        """True if the key chooses the queue: a row that names its queue does not need it."""
        return self.sharding_key is not None and self.queue_id is None

    @property
    def is_free(self) -> bool:
        return self.queue_id is None and self.sharding_key is None

    @property
    def goes_alone(self) -> bool:
        """True for delayed messages, which batches must not contain."""
        return self.message.delay_level > 0

    def keyed_queue(self, queues: Sequence[MessageQueue]) -> MessageQueue:
        """Return the queue of the key, as class SelectMessageQueueByHash."""
        hashed = java_hash(self.sharding_key or "")
        return queues[(0 if hashed == -(2**31) else abs(hashed)) % len(queues)]


class Sends:
    """The sends of one Arrow batch."""

    def __init__(self, client: Client, options: TopicOptions) -> None:
        self._options = options
        self._client = client
        self._producer = _producer(client, options.producer_group)
        self._deadline = trio.current_time() + options.delivery_timeout_ms / 1000
        self._outcomes: collections.Counter[str] = collections.Counter()

    async def send_all(self, letters: Sequence[OutgoingMessage]) -> collections.Counter[str]:
        """Send, wait for all responses, and count the messages by outcome.

        Raises SendFailedError.
        """
        try:
            await for_each(_lanes(self._identified(letters)), self._send_lane)
        except BaseExceptionGroup as group:
            raise first_failure(group) from None
        return self._outcomes

    def _identified(self, letters: Sequence[OutgoingMessage]) -> Iterator[OutgoingMessage]:
        """Yield the messages with unique keys, which they keep when they are sent again."""
        client = self._client
        ids = UniqueIdGenerator(client.ip, os.getpid(), wall_millis, client.rng.getrandbits(32))
        for letter in letters:
            properties = {**letter.message.properties, PROPERTY_UNIQ_KEY: ids.next()}
            yield attrs.evolve(letter, message=attrs.evolve(letter.message, properties=properties))

    async def _send_lane(self, lane: Sequence[OutgoingMessage]) -> None:
        await (self._send_keyed(lane) if lane[0].is_keyed else self._send_in_order(lane))

    async def _send_keyed(self, letters: Sequence[OutgoingMessage]) -> None:
        """Send messages with keys to one topic.

        They have a lane for each queue: there may be as many keys as messages.
        """
        while True:
            try:
                queues = await self._producer.queues(letters[0].message.topic)
                break
            except FAILURES as exc:
                await self._wait_after(exc, letters)
        lanes: dict[MessageQueue, list[OutgoingMessage]] = collections.defaultdict(list)
        for letter in letters:
            lanes[letter.keyed_queue(queues)].append(letter)
        await for_each(lanes.values(), self._send_in_order)

    async def _send_in_order(self, lane: Sequence[OutgoingMessage]) -> None:
        for load in _loads(lane, self._options.batch_size):
            await self._send(load)

    async def _send(self, load: Sequence[OutgoingMessage]) -> None:
        """Send until the messages are stored with the durability that the options require."""
        while load:
            part = load
            try:
                to, part = await self._target(load)
                result = await self._hand_over(part, to)
            except FAILURES as exc:
                await self._wait_after(exc, part)
                continue
            if result is SendStatus.SEND_OK or self._options.accept_degraded:
                self._outcomes[result.value] += len(part)
                load = load[len(part) :]
            else:
                await self._wait(result.value, part, f"stored, but {result.value}")

    async def _wait_after(self, exc: Exception, letters: Sequence[OutgoingMessage]) -> None:
        outcome = "indeterminate" if isinstance(exc, IndeterminateError) else "refused"
        is_permanent = outcome == "refused" and _is_permanent(getattr(exc, "code", 0), str(exc))
        await self._wait(outcome, letters, str(exc), is_permanent=is_permanent)

    async def _wait(
        self, outcome: str, letters: Sequence[OutgoingMessage], failure: str, *, is_permanent: bool = False
    ) -> None:
        """Wait before messages are sent again.

        Raises SendFailedError after a permanent rejection, or after the deadline.
        """
        topic = letters[0].message.topic
        self._outcomes[f"again after {outcome}"] += len(letters)
        if is_permanent or trio.current_time() >= self._deadline:
            raise SendFailedError(f"{counted(len(letters), 'rows')} could not be written to {topic}: {failure}")
        await trio.sleep(_RETRY_SECONDS)
        await self._client.try_refresh(self._client.named(topic))

    async def _target(self, load: Sequence[OutgoingMessage]) -> tuple[MessageQueue | None, Sequence[OutgoingMessage]]:
        """Return the queue, None for any, and the first messages of a load that go there.

        These are all, unless the topic has other queues now than when its keys were distributed.
        """
        first = load[0]
        if first.is_free:
            return None, load
        queues = await self._producer.queues(first.message.topic)
        if first.is_keyed:
            to = first.keyed_queue(queues)
            return to, [*itertools.takewhile(lambda letter: letter.keyed_queue(queues) == to, load)]
        for queue in queues:
            if queue.queue_id == first.queue_id and first.broker in (None, queue.broker_name):
                return queue, load
        raise NoRouteError(
            f"topic {first.message.topic} has no queue {first.queue_id} at {first.broker or 'any broker'}"
        )

    async def _hand_over(self, load: Sequence[OutgoingMessage], to: MessageQueue | None) -> SendStatus:
        messages = [letter.message for letter in load]
        timeout = self._options.request_timeout_ms / 1000
        if len(messages) == 1:
            return (await self._producer.send(messages[0], to=to, timeout=timeout)).status
        return (await self._producer.send_batch(messages, to=to, timeout=timeout)).status


def _is_permanent(code: int, remark: str) -> bool:
    """Return True for a rejection that a retry cannot change."""
    return code == ResponseCode.MESSAGE_ILLEGAL or is_denied(code, remark)


def _lanes(letters: Iterator[OutgoingMessage]) -> list[list[OutgoingMessage]]:
    """Return the messages by lane, each in order.

    A lane is a queue, or all messages of a topic with keys. Those for any queue have no order, and are distributed over
    several lanes.
    """
    lanes: dict[object, list[OutgoingMessage]] = collections.defaultdict(list)
    for number, letter in enumerate(letters):
        topic = letter.message.topic
        if letter.is_free:
            lane = number % (_LONE_LANES if letter.goes_alone else _FREE_LANES)
            lanes[topic, letter.goes_alone, lane].append(letter)
        elif letter.is_keyed:
            lanes[topic, "keyed"].append(letter)
        else:
            lanes[topic, letter.broker, letter.queue_id].append(letter)
    return [*lanes.values()]


def _loads(lane: Sequence[OutgoingMessage], most: int) -> Iterator[list[OutgoingMessage]]:
    """Cut a lane into requests, limited by messages and bytes.

    A delayed message is a request of its own.
    """
    load: list[OutgoingMessage] = []
    size = 0
    for letter in lane:
        more = len(letter.message.body)
        if load and (letter.goes_alone or load[-1].goes_alone or len(load) >= most or size + more > _BATCH_BYTES):
            yield load
            load, size = [], 0
        load.append(letter)
        size += more
    if load:
        yield load


_producers: dict[tuple[int, str], Producer] = {}


def _producer(client: Client, group: str) -> Producer:
    """Return the producer of a group and client.

    There is one per client instance: brokers identify it by its heartbeats.
    """
    key = id(client), group
    if (producer := _producers.get(key)) is None:
        producer = _producers[key] = Producer(client, group, ProducerConfig(retries=2))
    return producer
