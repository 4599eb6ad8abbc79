"""The lite pull consumer: pulls ahead in the background.

`poll` returns the pulled messages.

    consumer = LitePullConsumer(client, "billing")
    await nursery.start(consumer.run)
    await consumer.subscribe({"orders": "*"})
    messages = await consumer.poll()

Queues are assigned by hand, or shared with the other members of the group. Source: class
DefaultLitePullConsumerImpl.
"""

import collections
import contextlib
import math
from collections.abc import Iterable, Mapping
from typing import NoReturn

import trio

from rmqlab.client import broker_api as calls
from rmqlab.client.assignments import Assignments, first_offset
from rmqlab.client.config import ConsumerConfig
from rmqlab.client.consumestats import ConsumeStats
from rmqlab.client.instance import Client
from rmqlab.client.member import Member
from rmqlab.client.message import ReceivedMessage
from rmqlab.client.offsets import OnEvent, no_event, offsets_of
from rmqlab.client.processqueue import ProcessQueue
from rmqlab.client.pulling import Assignment, Group, QueuePuller
from rmqlab.client.subscription import ALL, Expression, subscriptions
from rmqlab.remoting.bodies.heartbeat import ConsumeType
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.codes import ResponseCode
from rmqlab.runtime.clock import wall_millis
from rmqlab.runtime.config.validators import shown
from rmqlab.runtime.config.valuetypes import Offset, Seconds, checked_methods
from rmqlab.runtime.net.dispatch import Reply, Request

_REFUSED = 8
"""Offsets that are remembered as refused by the broker of a queue."""


@checked_methods
class LitePullConsumer(Member):
    """A consumer whose queues are set by `assign` or by `subscribe`, not by both.

    `poll` returns messages. It pulls while `run` runs.
    """

    consume_type = ConsumeType.CONSUME_ACTIVELY

    def __init__(
        self,
        client: Client,
        group: str,
        *,
        config: ConsumerConfig | None = None,
        on_event: OnEvent = no_event,
    ) -> None:
        config = config or ConsumerConfig(suspend_timeout=20.0, pull_batch_size=10)
        group = client.named_group(group)
        stats = ConsumeStats(trio.current_time, trio.current_time())
        self._offsets = offsets_of(client, group, config, on_event)
        shared = Group(client, group, config, {}, self._offsets, on_event, stats, is_backlogged=self._is_backlogged)
        super().__init__(client, shared)
        self._send, self._receive = trio.open_memory_channel[tuple[Assignment, list[ReceivedMessage]]](math.inf)
        self._nursery: trio.Nursery | None = None
        self._has_run = self._is_subscribing = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Pull and commit until cancelled; then commit once more, and leave the group.

        A consumer runs once: RuntimeError after that.
        """
        if self._has_run:
            raise RuntimeError(f"the consumer of group {self.group} has run: expected a new one")
        self._has_run = True
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                while True:
                    await trio.sleep(self.config.commit_period)
                    await self.commit()
        finally:
            self._nursery = None
            with trio.move_on_after(self._client.config.shutdown_timeout, shield=True):
                await self.commit()
                if self._assignments is not None:
                    self._client.on_route.remove(self._route_changed)
                    await self._client.leave(consumer_group=self.group)
            if self._assignments is not None:
                self._client.consumers.pop(self.group, None)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return all queues of a topic that can be read."""
        return await calls.queues_of(self._client, topic)

    async def subscribe(self, topics: Mapping[str, Expression]) -> None:
        """Share the queues of these topics with the group.

        Each is read from its committed offset, or from that of `consume_from_where`. Call it once. BrokerError if a
        broker rejects an SQL92 expression: then it can be called again. If it is cancelled after its heartbeat, the
        consumer is subscribed, and shares the queues soon.
        """
        nursery = self._running()
        if self._held or self._assignments is not None or self._is_subscribing:
            raise RuntimeError("queues are assigned by hand, or a subscription is there already")
        self._is_subscribing = True
        named = {self._client.named(topic): expression for topic, expression in topics.items()}
        before = dict(self._group.subscriptions)
        self._group.subscriptions.update(subscriptions(named, version=wall_millis()))
        try:
            for topic in named:
                await self._client.try_refresh(topic)
            await self._check_subscriptions()
        except BaseException:  # also if it is cancelled: it can be called again
            self._group.subscriptions.clear()
            self._group.subscriptions.update(before)
            raise
        finally:
            self._is_subscribing = False
        self._client.add_consumer(self.group, self)
        self._client.on_route.append(self._route_changed)
        assignments = self._assignments = Assignments(
            self._group, self, self.started_at, nursery, self._held, sends_subscription=True
        )
        try:
            await self._client.heartbeat()  # before the first rebalance: the member list must include us
            await assignments.rebalance()
        except BaseException:  # also if it is cancelled: this consumer is a member from now on
            with contextlib.suppress(RuntimeError):  # its nursery ends, too
                nursery.start_soon(assignments.rebalance_forever)
            raise
        nursery.start_soon(assignments.rebalance_forever)

    async def assign(self, queues: Iterable[MessageQueue], expression: Expression = ALL) -> None:
        """Read these queues from now on and no others.

        Each from its committed offset, or from that of `consume_from_where`.
        """
        self._running()
        if self._assignments is not None:
            raise RuntimeError("queues are assigned by subscription; expected a consumer without one")
        wanted = dict.fromkeys(queues)
        topics = {queue.topic: expression for queue in wanted}
        self._group.subscriptions.update(subscriptions(topics, version=wall_millis()))
        for queue in [queue for queue in self._held if queue not in wanted]:
            self._held.pop(queue).drop()
        for queue in [queue for queue in wanted if queue not in self._held]:
            self._begin(queue, await first_offset(self._group, queue, self.started_at))

    def seek(self, queue: MessageQueue, offset: Offset) -> None:
        """Continue at an offset. Messages pulled ahead are dropped.

        ValueError for a queue that is not assigned to this consumer.
        """
        if (assignment := self._held.pop(queue, None)) is None:
            raise ValueError(f"queue = {shown(queue)}: expected one that is assigned to this consumer")
        assignment.drop()
        self._offsets.update(queue, offset)
        self._begin(queue, offset)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stop pulling these queues until `resume`.

        Messages pulled ahead are still returned by `poll`.
        """
        for queue in queues:
            if (assignment := self._held.get(queue)) is not None and assignment.resumed.is_set():
                assignment.resumed = trio.Event()

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Continue after `pause`."""
        for queue in queues:
            if (assignment := self._held.get(queue)) is not None:
                assignment.resumed.set()

    def position(self, queue: MessageQueue) -> int | None:
        """Return the offset after the last message of `poll`; None before the first."""
        return self._offsets.peek(queue)

    async def poll(self, timeout: Seconds = 5.0) -> list[ReceivedMessage]:  # noqa: ASYNC109 - as in RocketMQ; no error
        """Return pulled messages, at most those of one pull.

        Empty if none arrive within the time-out.
        """
        with trio.move_on_after(timeout):
            while True:
                was_backlogged = self._is_backlogged()
                assignment, messages = await self._receive.receive()
                if was_backlogged and not self._is_backlogged():
                    self._notify_all()
                if assignment.held.is_dropped:
                    continue  # pulled before a seek, or assigned to another member by now
                self._offsets.update(assignment.held.queue, assignment.held.remove(messages))
                assignment.notify_room()
                return messages
        return []

    async def commit(self) -> None:
        """Commit the positions now."""
        await self._offsets.commit(list(self._held))

    def _is_backlogged(self) -> bool:
        waiting = self._receive.statistics().current_buffer_used
        return waiting * self.config.pull_batch_size > self.config.flow.polled_messages

    def _notify_all(self) -> None:
        for assignment in self._held.values():
            assignment.notify_room()

    def _running(self) -> trio.Nursery:
        if self._nursery is None:
            raise RuntimeError("a lite pull consumer reads only while it runs")
        return self._nursery

    def _begin(self, queue: MessageQueue, offset: int) -> None:
        assignment = Assignment(ProcessQueue(queue, offset))
        self._running().start_soon(self._pull_until_dropped, assignment)
        self._held[queue] = assignment

    async def _pull_until_dropped(self, assignment: Assignment) -> None:
        puller = QueuePuller(self._group, assignment, self.submit, sends_subscription=True)
        refused = collections.deque[int](maxlen=_REFUSED)
        with assignment.pulling:
            while True:
                offered = await puller.pull_until_illegal()
                asked = assignment.held.next_offset
                self._group.on_event("offset_illegal", queue=assignment.held.queue, asked=asked, offered=offered)
                assignment.held.next_offset = offered
                if asked in refused:  # by a broker that accepts no offset
                    await trio.sleep(self.config.offset_illegal_delay)
                refused.append(asked)

    # -- Consumption: pulled messages wait for `poll` ----------------------------------------------

    def submit(self, assignment: Assignment, messages: list[ReceivedMessage]) -> None:
        """Keep new messages of a queue for `poll`.

        Their number is bounded by the flow limits of pulling.
        """
        self._send.send_nowait((assignment, messages))

    def begin(self, nursery: trio.Nursery) -> None:
        """Do nothing: only `poll` consumes."""

    def start_queue(self, assignment: Assignment, nursery: trio.Nursery) -> None:
        """Do nothing: no queue has state to set up."""

    def consume_directly(self, request: Request) -> None:
        """Reject: there is no function of the application to call (as in Java)."""
        request.reply(
            Reply(
                ResponseCode.SYSTEM_ERROR,
                remark=f"group {self.group} is a lite pull consumer, which has no message listener",
            )
        )
