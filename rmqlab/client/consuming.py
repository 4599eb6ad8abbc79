"""Concurrent consumption: delivers messages, and sends failed ones back.

Source: class ConsumeMessageConcurrentlyService; broker-requests section 3.11. Messages of one queue may be consumed in
any order. The consumer sends a failed message back to its broker, which delivers it again after a delay from the
group's retry topic; a broadcasting consumer drops it.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, NoReturn, Protocol

import trio

from rmqlab.client import broker_api as calls
from rmqlab.client.innerproducer import inner_producer
from rmqlab.client.instance import FAILURES
from rmqlab.client.message import Message, ReceivedMessage
from rmqlab.client.pulling import Assignment, Group
from rmqlab.client.tracerecords import Consumed
from rmqlab.remoting.bodies.heartbeat import MessageModel
from rmqlab.remoting.message import (
    PROPERTY_DELAY,
    PROPERTY_MAX_RECONSUME_TIMES,
    PROPERTY_ORIGIN_MESSAGE_ID,
    PROPERTY_RECONSUME_TIME,
    PROPERTY_RETRY_TOPIC,
    PROPERTY_TRAN_MSG,
)
from rmqlab.remoting.names import RETRY_PREFIX
from rmqlab.runtime.config.validators import shown
from rmqlab.runtime.config.valuetypes import Range, checked

log = logging.getLogger(__name__)

OnMessages = Callable[[Sequence[ReceivedMessage]], Awaitable[object]]
"""The application's function. After an exception, its messages are delivered again later."""

TIMED_OUT_DELAY_LEVEL = 3
DEFAULT_MAX_RECONSUME_TIMES = 16


DelayLevel = Annotated[int, Range(lambda value: -1 <= value < 2**31, "a level from 0 to 2^31 - 1, or -1")]
Count = Annotated[int, Range(lambda value: value >= 0, "a number of messages from 0 on")]


class ConsumeLaterError(Exception):
    """Raised by an application to have messages delivered again.

    `delay_level` as in Message; 0 lets the broker choose by the number of failures, -1 sends the message to the
    dead-letter topic. The first `consumed` messages of the batch count as consumed.
    """

    @checked
    def __init__(self, reason: str = "", *, delay_level: DelayLevel = 0, consumed: Count = 0) -> None:
        super().__init__(reason or "the application requested redelivery")
        self.delay_level = delay_level
        self.consumed = consumed


class Consumption(Protocol):
    """Delivers pulled messages to the application."""

    def submit(self, assignment: Assignment, messages: list[ReceivedMessage]) -> None:
        """Queue new messages for consumption."""

    def begin(self, nursery: trio.Nursery) -> None:
        """Start the tasks that serve all queues, in the consumer's nursery."""

    def start_queue(self, assignment: Assignment, nursery: trio.Nursery) -> None:
        """Start to serve a queue that was assigned to this consumer."""


class ConcurrentConsumption:
    """A queue of batches, and the tasks that work on it.

    Its length is bounded by the flow limits of pulling.
    """

    def __init__(self, group: Group, on_messages: OnMessages, hand_back: "SendBack") -> None:
        self._group = group
        self._on_messages = on_messages
        self._hand_back = hand_back
        self._send, self._receive = trio.open_memory_channel[tuple[Assignment, list[ReceivedMessage]]](math.inf)

    def submit(self, assignment: Assignment, messages: list[ReceivedMessage]) -> None:
        """Let messages be consumed as soon as a task is free."""
        size = self._group.config.consume_batch_size
        for start in range(0, len(messages), size):
            self._send.send_nowait((assignment, messages[start : start + size]))

    def begin(self, nursery: trio.Nursery) -> None:
        """Start the tasks that consume."""
        for _ in range(self._group.config.concurrency):
            nursery.start_soon(self._work_forever, nursery)

    def start_queue(self, assignment: Assignment, nursery: trio.Nursery) -> None:
        """Do nothing: no queue has state to set up."""

    async def _work_forever(self, nursery: trio.Nursery) -> NoReturn:
        """Consume batches one by one. The nursery has the tasks that wait for a retry."""
        while True:
            assignment, messages = await self._receive.receive()
            if assignment.held.is_dropped:
                continue
            failed, delay_level = await call(self._group, self._on_messages, messages)
            if assignment.held.is_dropped:
                continue  # the queue's new owner gets these messages; sending them back would deliver them twice
            if failed:
                await self._failed(assignment, messages, failed, delay_level, nursery)
            else:
                self._done(assignment, messages)

    async def _failed(
        self,
        assignment: Assignment,
        messages: list[ReceivedMessage],
        failed: list[ReceivedMessage],
        delay_level: int,
        nursery: trio.Nursery,
    ) -> None:
        kept = []
        for message in failed:
            if self._group.config.model is MessageModel.BROADCASTING:
                log.warning(
                    "dropped, because broadcasting does not redeliver: %s of %s", message.message_id, message.queue
                )
            elif not await self._hand_back(message, delay_level):
                message.stored.reconsume_times += 1
                kept.append(message)
        if kept:
            nursery.start_soon(self._submit_later, assignment, kept)
        self._done(assignment, [message for message in messages if message not in kept])

    async def _submit_later(self, assignment: Assignment, messages: list[ReceivedMessage]) -> None:
        await trio.sleep(self._group.config.redeliver_delay)
        self.submit(assignment, messages)

    def _done(self, assignment: Assignment, messages: Sequence[ReceivedMessage]) -> None:
        offset = assignment.held.remove(messages)
        assignment.held.last_consume_at = trio.current_time()
        if offset >= 0 and not assignment.held.is_dropped:  # an offset may have been reset during a send back
            self._group.offsets.update(assignment.held.queue, offset, increase_only=True)
        assignment.notify_room()


async def call(
    group: Group, on_messages: OnMessages, messages: list[ReceivedMessage]
) -> tuple[list[ReceivedMessage], int]:
    """Deliver messages to the application.

    Return those to deliver again, and the delay level.
    """
    request_id = group.tracer.consuming(messages) if group.tracer is not None else ""
    began_at = trio.current_time()
    failed, delay_level, outcome = await _call(group, on_messages, messages)
    took = trio.current_time() - began_at
    if group.tracer is not None:
        group.tracer.consumed(messages, request_id, outcome, took)
    if (topic := messages[0].queue.topic) in group.subscriptions:  # a broker could invent any number of topics
        group.stats.consumed(topic, len(messages), len(failed), took)
    return failed, delay_level


async def _call(
    group: Group, on_messages: OnMessages, messages: list[ReceivedMessage]
) -> tuple[list[ReceivedMessage], int, Consumed]:
    timeout = group.config.consume_timeout
    try:
        with trio.move_on_after(timeout) as scope:
            await consume(on_messages, messages)
    except ConsumeLaterError as exc:
        return messages[exc.consumed :], exc.delay_level, Consumed.FAILED
    except Exception:
        log.exception("a consumer of group %s failed at %s", group.name, messages[0].message_id)
        return messages, 0, Consumed.EXCEPTION
    if scope.cancelled_caught:
        log.warning("group %s spent %g s on %s: cancelled", group.name, timeout, messages[0].message_id)
        return messages, TIMED_OUT_DELAY_LEVEL, Consumed.TIME_OUT
    return [], 0, Consumed.SUCCESS


async def consume(on_messages: OnMessages, messages: list[ReceivedMessage]) -> None:
    """Call the application's function. TypeError if it is not async."""
    consuming = on_messages(messages)
    if not isinstance(consuming, Awaitable):
        raise TypeError(f"on_messages(messages) = {shown(consuming)}: expected an async function")
    await consuming


class SendBack:
    """Sends failed messages back to a broker.

    It sends request 36 to the master, or the message to the retry topic.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        limit = group.config.max_reconsume_times
        self._max_times = DEFAULT_MAX_RECONSUME_TIMES if limit is None else limit

    async def __call__(self, message: ReceivedMessage, delay_level: int) -> bool:
        """Send request 36; if it fails, send to the retry topic.

        Return True if a broker accepted the message.
        """
        group = self._group
        try:
            await calls.send_back(group.client, group.name, message, delay_level, self._max_times)
        except FAILURES as exc:
            log.info("%s not sent back, the retry topic is tried: %s", message.message_id, exc)
        else:
            return True
        return await self._send(message, message.reconsume_times + 1)

    async def after_last_try(self, message: ReceivedMessage) -> bool:
        """Send a message of an orderly consumer to the retry topic.

        Return True if a broker accepted it; it makes the message a dead letter. Java sends no request 36 here (class
        ConsumeMessageOrderlyService, method sendMessageBack): the dead letter has the number of failures, and is
        delayed like a retry.
        """
        return await self._send(message, message.reconsume_times)

    async def _send(self, message: ReceivedMessage, reconsume_times: int) -> bool:
        group = self._group
        topic = group.client.named(message.topic)
        copy = retry_message(message, group.name, reconsume_times, self._max_times, topic=topic)
        try:
            await inner_producer(group.client).send(copy)
        except FAILURES as exc:
            log.warning("%s not sent back: %s", message.message_id, exc)
            group.on_event("send_back_failed", queue=message.queue, message_id=message.message_id, error=str(exc))
            return False
        return True


def retry_message(
    message: ReceivedMessage, group: str, reconsume_times: int, max_reconsume_times: int, *, topic: str
) -> Message:
    """Make the copy that any broker with a master can deliver again.

    The topic is the wire's name of the message's.
    """
    properties = {
        **message.properties,
        PROPERTY_RETRY_TOPIC: topic,
        PROPERTY_ORIGIN_MESSAGE_ID: message.properties.get(PROPERTY_ORIGIN_MESSAGE_ID) or message.message_id,
        PROPERTY_RECONSUME_TIME: str(reconsume_times),
        PROPERTY_MAX_RECONSUME_TIMES: str(max_reconsume_times),
    }
    for name in (PROPERTY_TRAN_MSG, PROPERTY_DELAY):
        properties.pop(name, None)
    return Message(
        topic=RETRY_PREFIX + group,
        body=message.body,
        properties=properties,
        flag=message.stored.flag,
        delay_level=3 + message.reconsume_times,
    )
