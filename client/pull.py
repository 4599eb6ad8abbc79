"""Consumers that ask for messages instead of being given them.

`PullConsumer` does one thing per call and remembers nothing. `LitePullConsumer` keeps positions, pulls ahead in
the background, and hands out what has come. Sources: classes DefaultMQPullConsumerImpl, DefaultLitePullConsumerImpl.
"""

import math
from collections.abc import Iterable
from typing import NoReturn

import attrs
import trio

from client import calls
from client.calls import SUBSCRIPTION, SUSPEND, PullResult
from client.config import ConsumerConfig
from client.consumestats import ConsumeStats
from client.instance import Client
from client.message import ReceivedMessage
from client.offsets import BrokerOffsets, OnEvent, no_event
from client.processqueue import ProcessQueue
from client.pulling import Assignment, Group, QueuePuller
from client.subscription import ALL, Expression, subscription, subscriptions, wanted
from remoting.bodies.queue import MessageQueue
from remoting.clock import wall_millis
from remoting.headers.pull import PullMessageRequestHeader
from remoting.names import MASTER_ID


class PullConsumer:
    """Reads queues on its own account. Brokers need not know the group: the subscription goes with each pull."""

    def __init__(self, client: Client, group: str) -> None:
        self.group = client.named(group)
        self._client = client
        self._suggested: dict[MessageQueue, int] = {}

    async def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic that can be read. NoRouteError and others as Client.fetch_route."""
        return await calls.queues_of(self._client, topic)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: Expression = ALL,
        max_messages: int = 32,
        wait: float = 0.0,
    ) -> PullResult:
        """Read from an offset; with `wait`, the broker holds the request so long while there is nothing.

        Errors as Client.ask.
        """
        data = subscription(queue.topic, expression, version=0)
        broker = await calls.broker_of(self._client, queue, self._suggested.get(queue, MASTER_ID))
        header = PullMessageRequestHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=max_messages,
            sys_flag=SUBSCRIPTION | (SUSPEND if wait > 0 else 0),
            commit_offset=0,
            suspend_timeout_millis=int(wait * 1000),
            subscription=data.sub_string,
            sub_version=0,
            expression_type=data.expression_type,
        )
        result = await calls.pull(self._client, broker.address, queue.broker_name, header, wait + 10.0)
        self._suggested[queue] = result.suggested_broker_id
        return attrs.evolve(result, messages=wanted(result.messages, data))

    async def committed(self, queue: MessageQueue) -> int | None:
        """Where the group stands; None where it never committed."""
        return await calls.query_offset(self._client, self.group, queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Write down where the group stands, without waiting for an answer."""
        broker = await calls.broker_of(self._client, queue)
        await calls.commit_offset(self._client, broker.address, self.group, queue, offset)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return await calls.max_offset(self._client, queue)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that is still there."""
        return await calls.min_offset(self._client, queue)

    async def search_offset(self, queue: MessageQueue, timestamp: int) -> int:
        """The offset stored nearest to a time in milliseconds."""
        return await calls.search_offset(self._client, queue, timestamp)

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """When the oldest message was stored, in milliseconds; -1 for an empty queue."""
        return await calls.earliest_store_time(self._client, queue)


class LitePullConsumer:
    """Queues are assigned by hand; `poll` hands out what has come of them. Pulls while `run` does."""

    def __init__(
        self,
        client: Client,
        group: str,
        *,
        config: ConsumerConfig | None = None,
        on_event: OnEvent = no_event,
    ) -> None:
        self.config = config or ConsumerConfig(suspend_timeout=20.0, pull_batch_size=10)
        self._client = client
        group = client.named(group)
        self._offsets = BrokerOffsets(client, group, on_event)
        stats = ConsumeStats(trio.current_time, trio.current_time())
        self._group = Group(client, group, self.config, {}, self._offsets, on_event, stats)
        self._assigned: dict[MessageQueue, Assignment] = {}
        self._send, self._receive = trio.open_memory_channel[tuple[Assignment, list[ReceivedMessage]]](math.inf)
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Pull and commit until cancelled; then commit once more."""
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

    async def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic that can be read."""
        return await calls.queues_of(self._client, topic)

    async def assign(self, queues: Iterable[MessageQueue], expression: Expression = ALL) -> None:
        """Read these queues from now on and no others; each from its committed offset, or from its end."""
        wanted_queues = set(queues)
        topics = {queue.topic: expression for queue in wanted_queues}
        self._group.subscriptions.update(subscriptions(topics, version=wall_millis()))
        for queue in self._assigned.keys() - wanted_queues:
            self._assigned.pop(queue).drop()
        for queue in wanted_queues - self._assigned.keys():
            offset = await self._offsets.committed(queue)
            self._begin(queue, await calls.max_offset(self._client, queue) if offset is None else offset)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on from an offset. What was pulled ahead is dropped."""
        self._assigned.pop(queue).drop()
        self._offsets.update(queue, offset)
        self._begin(queue, offset)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Pull nothing more of these queues until `resume`. What was pulled ahead is still handed out."""
        for queue in queues:
            if (assignment := self._assigned.get(queue)) is not None and assignment.resumed.is_set():
                assignment.resumed = trio.Event()

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Go on after `pause`."""
        for queue in queues:
            if (assignment := self._assigned.get(queue)) is not None:
                assignment.resumed.set()

    def position(self, queue: MessageQueue) -> int | None:
        """The offset after the last message handed out; None before the first."""
        return self._offsets.peek(queue)

    async def poll(self, timeout: float = 5.0) -> list[ReceivedMessage]:  # noqa: ASYNC109 - as in RocketMQ; no error
        """Give what has come, at most one pull's worth; nothing if nothing comes in time."""
        with trio.move_on_after(timeout):
            while True:
                assignment, messages = await self._receive.receive()
                if assignment.held.is_dropped:
                    continue  # pulled before a seek
                self._offsets.update(assignment.held.queue, assignment.held.remove(messages))
                assignment.tell_room()
                return messages
        return []

    async def commit(self) -> None:
        """Write down the positions now."""
        await self._offsets.commit(list(self._assigned))

    def _begin(self, queue: MessageQueue, offset: int) -> None:
        if self._nursery is None:
            raise RuntimeError("a lite pull consumer reads only while it runs")
        assignment = self._assigned[queue] = Assignment(ProcessQueue(queue, offset))
        self._nursery.start_soon(self._pull_until_dropped, assignment)

    async def _pull_until_dropped(self, assignment: Assignment) -> None:
        puller = QueuePuller(
            self._group,
            assignment,
            lambda of, messages: self._send.send_nowait((of, messages)),
            sends_subscription=True,
        )
        with assignment.pulling:
            while True:
                offered = await puller.pull_until_illegal()
                asked = assignment.held.next_offset
                self._group.on_event("offset_illegal", queue=assignment.held.queue, asked=asked, offered=offered)
                assignment.held.next_offset = offered
