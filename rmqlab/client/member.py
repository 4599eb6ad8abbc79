"""Base of consumer group members: heartbeats, and requests of brokers and tools.

Push consumers and lite pull consumers that subscribe are alike in this: they share the queues of their topics with
the other members, and serve the same requests. Source: interface MQConsumerInner.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

import trio

from rmqlab.client import broker_api as calls
from rmqlab.client import rebalance
from rmqlab.client.instance import Client
from rmqlab.client.pulling import Assignment, Group
from rmqlab.client.subscription import needing_check
from rmqlab.remoting.bodies.heartbeat import ConsumerData, ConsumeType
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.bodies.route import TopicRouteData
from rmqlab.remoting.bodies.runtime import ConsumerRunningInfo, ConsumeStatus, ProcessQueueInfo
from rmqlab.remoting.codes import VERSION, version_name
from rmqlab.runtime.clock import wall_millis

if TYPE_CHECKING:
    from rmqlab.client.assignments import Assignments

log = logging.getLogger(__name__)


class Member:
    """See rmqlab.client.client_handlers.GroupMember; consumers add their own methods."""

    consume_type: ClassVar[ConsumeType]

    def __init__(self, client: Client, group: Group) -> None:
        self.config = group.config
        self.started_at = wall_millis()
        self._client = client
        self._group = group
        self._held: dict[MessageQueue, Assignment] = {}
        self._assignments: Assignments | None = None

    @property
    def group(self) -> str:
        return self._group.name

    @property
    def held_queues(self) -> list[MessageQueue]:
        """The queues that are assigned to this consumer."""
        return rebalance.sort_queues(self._held)

    async def _check_subscriptions(self) -> None:
        """Let one broker of each topic check the subscription.

        Java does the same: it assumes that brokers have equal settings.
        """
        for data in needing_check(self._group.subscriptions.values()):
            broker = self._client.routes.for_topic(data.topic, self._client.rng.randrange(1 << 16))
            if broker is not None:
                await calls.check_subscription(self._client, broker.address, self.group, data)

    def _route_changed(self, topic: str, route: TopicRouteData) -> None:
        if topic in self._group.subscriptions:
            brokers = {
                data.broker_name: {str(broker_id): address for broker_id, address in data.broker_addrs.items()}
                for data in route.broker_datas
            }
            self._group.on_event("route_believed", topic=topic, brokers=brokers)
            self.rebalance_soon()

    def topics(self) -> Iterable[str]:
        return self._group.subscriptions

    def data(self) -> ConsumerData:
        return ConsumerData(
            consume_from_where=self.config.consume_from_where,
            consume_type=self.consume_type,
            group_name=self.group,
            message_model=self.config.model,
            subscription_data_set=list(self._group.subscriptions.values()),
        )

    def rebalance_soon(self) -> None:
        if self._assignments is not None:
            self._assignments.rebalance_soon()

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        for queue in [queue for queue in self._held if queue.topic == topic and queue in offsets]:
            if offsets[queue] < 0:  # committed, it would keep the group from its queue
                log.warning("a broker resets %s to offset %d: ignored", queue, offsets[queue])
            elif self._assignments is not None:
                self._assignments.move(queue, offsets[queue])

    def status(self, topic: str) -> dict[MessageQueue, int]:
        known = {queue: self._group.offsets.peek(queue) for queue in self._held if queue.topic == topic}
        return {queue: offset for queue, offset in known.items() if offset is not None}

    def running_info(self) -> ConsumerRunningInfo:
        return ConsumerRunningInfo(
            mq_table={queue: self._queue_info(assignment) for queue, assignment in self._held.items()},
            properties={
                "PROP_CLIENT_VERSION": version_name(VERSION),
                "PROP_CONSUME_TYPE": self.consume_type,
                "PROP_CONSUMEORDERLY": "true" if self.config.orderly else "false",
                "PROP_CONSUMER_START_TIMESTAMP": str(self.started_at),
                "PROP_NAMESERVER_ADDR": ";".join(self._client.config.namesrv_addr),
                "PROP_THREADPOOL_CORE_SIZE": str(self.config.concurrency),
            },
            status_table=dict.fromkeys(self._group.subscriptions, ConsumeStatus()) | self._group.stats.table(),
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
            locked=held.is_locked,
            last_lock_timestamp=_wall_millis_at(held.locked_at) if held.is_locked else 0,
            last_consume_timestamp=_wall_millis_at(held.last_consume_at),
            last_pull_timestamp=_wall_millis_at(held.last_pull_at),
        )


def _wall_millis_at(moment: float) -> int:
    return 0 if moment == 0.0 else wall_millis() - int((trio.current_time() - moment) * 1000)
