"""Message traces: collects records, and sends them to the trace topic.

Source: class AsyncTraceDispatcher. A trace message is sent half a second after its first record, or when it has 118,000
bytes. Tracing must not delay sends and consumption: at most 1,024 records wait, later ones are dropped, and a trace
message that cannot be sent is lost and logged. Brokers have the topic if `traceTopicEnable` is set.
"""

import logging
import math
from collections.abc import Sequence
from typing import Protocol

import trio

from rmqlab.client import tracerecords
from rmqlab.client.config import ProducerConfig
from rmqlab.client.instance import FAILURES, Client
from rmqlab.client.message import Message, ReceivedMessage, SendResult
from rmqlab.client.outgoing import Outgoing
from rmqlab.client.tracerecords import Consumed, TraceRecord, is_traced
from rmqlab.remoting.header import FALSE
from rmqlab.remoting.headers.send import SendMessageResponseHeader
from rmqlab.runtime.clock import wall_millis

log = logging.getLogger(__name__)

_MAX_MESSAGE_SIZE = 128_000
_MAX_TRACE = _MAX_MESSAGE_SIZE - 10_000
_MAX_KEYS = 30_000
"""Characters. Properties have a length of two bytes: Java's client loses a trace that has more keys than fit."""
_MAX_WAITING = 1024
_GATHER_SECONDS = 0.5
_FLUSH_SECONDS = 0.5

TRACE_PRODUCER = ProducerConfig(send_timeout=5.0, max_message_size=_MAX_MESSAGE_SIZE)
"""That of the producer that sends traces; it is not traced itself."""


def producer_group(group: str, side: str) -> str:
    """Return the producer group for a group's traces; the side is PRODUCE or CONSUME."""
    return f"_INNER_TRACE_PRODUCER-{group}-{side}-1"


class Sender(Protocol):
    """The producer that sends traces."""

    client: Client

    async def send(self, message: Message) -> object:
        """As rmqlab.client.producer.Producer."""

    def new_id(self) -> str:
        """Make a unique id."""

    async def close(self) -> None:
        """Leave the group."""


class Tracer:
    """The tracer of one producer or consumer.

    It runs in the client instance's nursery until `close`.
    """

    def __init__(self, sender: Sender, group: str, topic: str) -> None:
        """`group`: the group whose messages are traced; `topic`: the trace topic."""
        self._sender, self._topic = sender, topic
        self._client = sender.client
        self._group = self._client.unnamed(group)
        self._waiting: list[TraceRecord] = []
        self._length = 0
        self._arrived, self._is_large = trio.Event(), trio.Event()
        self._sending = trio.Lock()
        self._working = trio.CancelScope()
        self._client.nursery.start_soon(self._send_forever)
        self._client.on_close.append(self.flush)

    # -- events to trace --------------------------------------------------------------------------

    def published(
        self, outgoing: Outgoing, broker: str, result: SendResult, header: SendMessageResponseHeader, seconds: float
    ) -> None:
        """Trace a send that got this reply header.

        Brokers may turn tracing off (`traceOn`); traces are not traced.
        """
        if outgoing.topic.startswith(self._topic) or header.trace_on is FALSE:
            return
        took = int(seconds * 1000)
        region = header.region or tracerecords.DEFAULT_REGION
        topic, at = self._client.unnamed(outgoing.topic), wall_millis() - took
        self._add(tracerecords.published(self._group, topic, outgoing, broker, result, region=region, at=at, took=took))

    def consuming(self, messages: Sequence[ReceivedMessage]) -> str:
        """Trace a delivery to the application; return the id of this call."""
        request_id = self._sender.new_id()
        if traced := list(filter(is_traced, messages)):
            self._add(tracerecords.consuming(self._group, traced, request_id, at=wall_millis()))
        return request_id

    def consumed(self, messages: Sequence[ReceivedMessage], request_id: str, outcome: Consumed, seconds: float) -> None:
        """Trace the end of that call."""
        if traced := list(filter(is_traced, messages)):
            took = math.floor(seconds * 1000 / len(messages))
            self._add(tracerecords.consumed(self._group, traced, request_id, outcome, at=wall_millis(), took=took))

    def ended_transaction(
        self, message: Message | ReceivedMessage, broker: str, message_id: str, state: str, *, is_asked_for: bool
    ) -> None:
        """Trace the end of a transaction, with names of Java's enum LocalTransactionState."""
        properties = dict(message.properties)
        if isinstance(message, Message):
            properties = message.wire_properties(message_id)
        self._add(
            tracerecords.ended_transaction(
                self._group,
                self._client.unnamed(message.topic),
                properties,
                broker,
                message_id,
                state,
                is_asked_for=is_asked_for,
                at=wall_millis(),
            )
        )

    # -- sending ---------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Send waiting records, for half a second at most."""
        with trio.move_on_after(_FLUSH_SECONDS, shield=True):
            async with self._sending:  # waits for trace messages being sent
                while self._waiting:
                    await self._send_one()

    async def close(self) -> None:
        """Send the remaining records, and stop tracing."""
        if self.flush in self._client.on_close:
            self._client.on_close.remove(self.flush)
        await self.flush()
        self._working.cancel()
        await self._sender.close()

    def _add(self, record: TraceRecord) -> None:
        if self._working.cancel_called:
            return
        if len(self._waiting) >= _MAX_WAITING:
            log.info("%d traces wait: one about %s is dropped", len(self._waiting), record.keys)
            return
        self._waiting.append(record)
        self._length += record.size
        self._arrived.set()
        if self._length >= _MAX_TRACE:
            self._is_large.set()

    async def _send_forever(self) -> None:
        with self._working:
            while True:
                await self._arrived.wait()
                with trio.move_on_after(_GATHER_SECONDS):
                    await self._is_large.wait()
                async with self._sending:
                    if self._waiting:
                        await self._send_one()

    async def _send_one(self) -> None:
        """Send one message with waiting records."""
        text, keys = self._take()
        try:
            await self._sender.send(Message(topic=self._topic, body=text.encode(), keys=keys))
        except FAILURES as exc:
            log.warning("a trace under %d keys is lost: %s", len(keys), exc)

    def _take(self) -> tuple[str, list[str]]:
        """Remove records that fit into one message; return their text and keys."""
        keys: dict[str, None] = {}
        length = of_keys = count = 0
        for record in self._waiting:
            new = dict.fromkeys(key for key in record.keys if key not in keys)
            of_keys += sum(len(key) + 1 for key in new)
            if count and (length + record.size > _MAX_TRACE or of_keys > _MAX_KEYS):
                break
            keys |= new
            length += record.size
            count += 1
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        self._length -= length
        if self._waiting:
            self._is_large.set()  # the rest is sent at once
        else:
            self._arrived, self._is_large = trio.Event(), trio.Event()
        return "".join(record.text for record in taken), list(keys)
