"""The push consumer: messages come to a function of the application's.

    consumer = PushConsumer(client, "billing", {"orders": "paid || refunded"}, on_messages)
    nursery.start_soon(consumer.run)

It shares the queues of its topics with the other members of its group, pulls its own, and commits how far it
got. Sources: classes DefaultMQPushConsumerImpl, RebalancePushImpl; store-and-ha section 6.5.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import NoReturn

import trio

from client import calls, rebalance
from client.config import ConsumerConfig
from client.consuming import ConcurrentConsumption, ConsumeLaterError, HandBack, OnMessages
from client.instance import FAILURES, Client
from client.message import received
from client.offsets import BrokerOffsets, LocalOffsets, Offsets, OnEvent, no_event
from client.processqueue import ProcessQueue
from client.producer import Producer
from client.pulling import Assignment, Group, QueuePuller
from client.routes import subscribe_queues
from client.subscription import ALL, subscriptions
from remoting.bodies.heartbeat import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel
from remoting.bodies.queue import MessageQueue
from remoting.bodies.route import TopicRouteData
from remoting.bodies.runtime import CMResult, ConsumeMessageDirectlyResult, ConsumerRunningInfo, ProcessQueueInfo
from remoting.clock import wall_millis
from remoting.dispatch import Reply, Request
from remoting.message import decode_message
from remoting.names import RETRY_PREFIX

log = logging.getLogger(__name__)

INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
HALF_AN_HOUR_MILLIS = 30 * 60 * 1000


class PushConsumer:
    """One member of a consumer group. It lives as long as `run` does."""

    def __init__(
        self,
        client: Client,
        group: str,
        topics: Mapping[str, str],
        on_messages: OnMessages,
        *,
        config: ConsumerConfig | None = None,
        on_event: OnEvent = no_event,
    ) -> None:
        """Topics come with an expression each: `*`, or tags such as `A || B`.

        Events, each with its fields: `rebalanced` (topic, added, removed, held), `pulling_from` (queue, broker_id,
        address), `pull_failed` (queue, address, error), `committing_to` (broker_name, broker_id, address),
        `commit_failed` (broker_name, error), `offset_illegal` (queue, asked, offered),
        `send_back_failed` (queue, message_id, error).
        """
        self.config = config or ConsumerConfig()
        self.started_at = wall_millis()
        self._client = client
        self._on_messages = on_messages
        self._is_clustering = self.config.model is MessageModel.CLUSTERING
        wanted = dict(topics)
        if self._is_clustering:
            wanted[RETRY_PREFIX + group] = ALL
        offsets: Offsets = (
            BrokerOffsets(client, group, on_event) if self._is_clustering else LocalOffsets(self.config.local_offsets)
        )
        self._group = Group(
            client, group, self.config, subscriptions(wanted, version=self.started_at), offsets, on_event
        )
        self._assigned: dict[MessageQueue, Assignment] = {}
        self._rebalance_due = trio.Event()
        self._consumption = ConcurrentConsumption(self._group, on_messages, HandBack(self._group, self._inner_producer))
        self._nursery: trio.Nursery | None = None
        self._producer: Producer | None = None

    @property
    def group(self) -> str:
        return self._group.name

    @property
    def held_queues(self) -> list[MessageQueue]:
        """The queues that are this consumer's now."""
        return rebalance.sort_queues(self._assigned)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Consume until cancelled; then commit, and leave the group. Started after the first rebalance."""
        self._client.add_consumer(self.group, self)
        self._client.on_route.append(self._route_changed)
        try:
            for topic in self._group.subscriptions:
                await self._client.try_refresh(topic)
            await self._client.heartbeat()  # a broker refuses pulls of groups that it does not know
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for _ in range(self.config.concurrency):
                    nursery.start_soon(self._consumption.work_forever, nursery)
                await self._rebalance()
                nursery.start_soon(self._rebalance_forever)
                nursery.start_soon(self._commit_forever)
                task_status.started()
                await trio.sleep_forever()
            raise AssertionError("sleeps forever")
        finally:
            self._nursery = None
            self._client.on_route.remove(self._route_changed)
            with trio.move_on_after(self._client.config.shutdown_timeout, shield=True):
                await self._group.offsets.commit(self._assigned)
                await self._client.leave(consumer_group=self.group)
            self._client.consumers.pop(self.group, None)

    # -- rebalance -------------------------------------------------------------------------------

    def _route_changed(self, topic: str, _route: TopicRouteData) -> None:
        if topic in self._group.subscriptions:
            self.rebalance_soon()

    async def _rebalance_forever(self) -> NoReturn:
        while True:
            with trio.move_on_after(self.config.rebalance_period):
                await self._rebalance_due.wait()
            self._rebalance_due = trio.Event()  # before the round: a change during it asks for another
            await self._rebalance()

    async def _rebalance(self) -> None:
        for topic in self._group.subscriptions:
            try:
                mine = await self._own_queues(topic)
            except FAILURES as exc:
                log.info("group %s keeps its queues of %s: %s", self.group, topic, exc)
                continue
            if mine is not None:
                await self._assign(topic, mine)

    async def _own_queues(self, topic: str) -> list[MessageQueue] | None:
        """Queues of a topic that are to be ours; None where that cannot be told."""
        route = self._client.routes.routes.get(topic)
        if route is None:
            return None
        queues = subscribe_queues(topic, route)
        if not self._is_clustering:
            return queues
        broker = self._client.routes.for_topic(topic, self._client.chance.randrange(1 << 16))
        if broker is None:
            return None
        members = await calls.consumer_ids(self._client, broker.address, self.group)
        return rebalance.allocate(self.config.strategy, self._client.client_id, queues, members)

    async def _assign(self, topic: str, mine: Iterable[MessageQueue]) -> None:
        wanted = set(mine)
        removed = [queue for queue in self._assigned if queue.topic == topic and queue not in wanted]
        for queue in removed:
            await self._give_up(queue)
        added: list[MessageQueue] = []
        async with trio.open_nursery() as nursery:
            for queue in rebalance.sort_queues(wanted - self._assigned.keys()):
                nursery.start_soon(self._take_on, queue, added)
        if added or removed:
            held = [queue for queue in self.held_queues if queue.topic == topic]
            self._group.on_event(
                "rebalanced", topic=topic, added=rebalance.sort_queues(added), removed=removed, held=held
            )

    async def _give_up(self, queue: MessageQueue) -> None:
        if (assignment := self._assigned.get(queue)) is None:
            return
        assignment.drop()
        await self._group.offsets.commit([queue])
        self._assigned.pop(queue, None)
        self._group.offsets.forget(queue)

    async def _take_on(self, queue: MessageQueue, added: list[MessageQueue]) -> None:
        self._group.offsets.forget(queue)
        try:
            offset = await self._first_offset(queue)
        except FAILURES as exc:
            log.info("%s is ours but has no known offset yet: %s", queue, exc)
            return
        assignment = self._assigned[queue] = Assignment(ProcessQueue(queue, offset))
        added.append(queue)
        assert self._nursery is not None
        self._nursery.start_soon(self._pull_until_dropped, assignment)

    async def _first_offset(self, queue: MessageQueue) -> int:
        """Where to begin: what was committed; without that, what consume_from_where says (class RebalancePushImpl)."""
        offset = await self._group.offsets.committed(queue)
        if offset is not None:
            return offset
        is_retry = queue.topic.startswith(RETRY_PREFIX)
        match self.config.consume_from_where:
            case ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
                return 0
            case ConsumeFromWhere.CONSUME_FROM_TIMESTAMP if not is_retry:
                timestamp = self.config.consume_timestamp
                return await calls.search_offset(
                    self._client, queue, self.started_at - HALF_AN_HOUR_MILLIS if timestamp is None else timestamp
                )
            case ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
                return await calls.max_offset(self._client, queue)
        return 0 if is_retry else await calls.max_offset(self._client, queue)

    # -- pulling and committing ------------------------------------------------------------------

    async def _pull_until_dropped(self, assignment: Assignment) -> None:
        with assignment.scope:
            puller = QueuePuller(self._group, assignment, self._consumption.submit)
            offered = await puller.pull_until_illegal()
            queue = assignment.held.queue
            self._group.on_event("offset_illegal", queue=queue, asked=assignment.held.next_offset, offered=offered)
            assignment.held.is_dropped = True
            await trio.sleep(self.config.offset_illegal_delay)
            await self._begin_anew(queue, offered)

    async def _begin_anew(self, queue: MessageQueue, offset: int) -> None:
        """Move a queue of ours: commit the new offset, let go, and let rebalance take the queue on again."""
        self._group.offsets.update(queue, offset)
        await self._group.offsets.commit([queue])
        self._assigned.pop(queue, None)
        self.rebalance_soon()

    async def _commit_forever(self) -> NoReturn:
        while True:
            await trio.sleep(self.config.commit_period)
            await self._group.offsets.commit(list(self._assigned))

    def _inner_producer(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(self._client, f"{INNER_PRODUCER_GROUP}_{self.group}")
        return self._producer

    # -- GroupMember: what the instance and brokers ask ------------------------------------------

    def topics(self) -> Iterable[str]:
        return self._group.subscriptions

    def data(self) -> ConsumerData:
        return ConsumerData(
            consume_from_where=self.config.consume_from_where,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            group_name=self.group,
            message_model=self.config.model,
            subscription_data_set=list(self._group.subscriptions.values()),
        )

    def rebalance_soon(self) -> None:
        self._rebalance_due.set()

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        if self._nursery is None:
            return
        for queue, assignment in self._assigned.items():
            if queue.topic == topic and queue in offsets and not assignment.held.is_dropped:
                assignment.drop()
                self._nursery.start_soon(self._begin_anew, queue, offsets[queue])

    def status(self, topic: str) -> dict[MessageQueue, int]:
        known = {queue: self._group.offsets.peek(queue) for queue in self._assigned if queue.topic == topic}
        return {queue: offset for queue, offset in known.items() if offset is not None}

    def running_info(self) -> ConsumerRunningInfo:
        return ConsumerRunningInfo(
            mq_table={queue: self._queue_info(assignment) for queue, assignment in self._assigned.items()},
            properties={
                "PROP_CONSUME_TYPE": ConsumeType.CONSUME_PASSIVELY,
                "PROP_CONSUMEORDERLY": "false",
                "PROP_CONSUMER_START_TIMESTAMP": str(self.started_at),
                "PROP_NAMESERVER_ADDR": ";".join(self._client.config.namesrv_addr),
                "PROP_THREADPOOL_CORE_SIZE": str(self.config.concurrency),
            },
            subscription_set=list(self._group.subscriptions.values()),
        )

    def _queue_info(self, assignment: Assignment) -> ProcessQueueInfo:
        held = assignment.held
        return ProcessQueueInfo(
            cached_msg_count=held.count,
            cached_msg_max_offset=held.highest_offset,
            cached_msg_min_offset=held.lowest_offset,
            cached_msg_size_in_mib=held.held_bytes // 2**20,
            commit_offset=self._group.offsets.peek(held.queue) or 0,
            dropped=held.is_dropped,
            last_consume_timestamp=_wall_millis_at(held.last_consume_at),
            last_pull_timestamp=_wall_millis_at(held.last_pull_at),
        )

    def consume_directly(self, request: Request) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(self._consume_directly, request)

    async def _consume_directly(self, request: Request) -> None:
        began_at = trio.current_time()
        remark: str | None
        result, remark = CMResult.CR_SUCCESS, None
        message = received(decode_message(request.command.body), "")
        try:
            await self._on_messages([message])
        except ConsumeLaterError as exc:
            result, remark = CMResult.CR_LATER, str(exc)
        except Exception as exc:  # noqa: BLE001 - it is told to whoever asked
            result, remark = CMResult.CR_THROW_EXCEPTION, repr(exc)
        spent = int((trio.current_time() - began_at) * 1000)
        answer = ConsumeMessageDirectlyResult(consume_result=result, remark=remark, spent_time_mills=spent)
        request.reply(Reply(body=answer.encode()))


def _wall_millis_at(moment: float) -> int:
    return 0 if moment == 0.0 else wall_millis() - int((trio.current_time() - moment) * 1000)
