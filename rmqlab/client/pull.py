"""A stateless consumer of single pull requests (class DefaultMQPullConsumerImpl).

It stores no offsets. The consumer in litepull keeps positions and pulls ahead.
"""

from typing import Annotated

import attrs

from rmqlab.client import broker_api as calls
from rmqlab.client.broker_api import SUBSCRIPTION, SUSPEND, PullResult
from rmqlab.client.instance import Client
from rmqlab.client.subscription import ALL, Expression, matching, subscription
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.headers.pull import PullMessageRequestHeader
from rmqlab.remoting.names import MASTER_ID
from rmqlab.runtime.config.valuetypes import Offset, Range, Seconds, checked_methods

Count = Annotated[int, Range(lambda value: 0 < value < 2**31, "a number of messages from 1 to 2^31 - 1")]


@checked_methods
class PullConsumer:
    """Reads queues without a group's heartbeats: each pull carries the subscription."""

    def __init__(self, client: Client, group: str) -> None:
        self.group = client.named_group(group)
        self._client = client
        self._suggested: dict[MessageQueue, int] = {}

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return all queues of a topic that can be read.

        NoRouteError and others as Client.fetch_route.
        """
        return await calls.queues_of(self._client, topic)

    async def pull(
        self,
        queue: MessageQueue,
        offset: Offset,
        *,
        expression: Expression = ALL,
        max_messages: Count = 32,
        wait: Seconds = 0.0,
    ) -> PullResult:
        """Read from an offset.

        `wait`: seconds that the broker may hold the request while there is no message.

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
        return attrs.evolve(result, messages=matching(result.messages, data))

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the committed offset of the group; None if it never committed."""
        return await calls.query_offset(self._client, self.group, queue)

    async def commit(self, queue: MessageQueue, offset: Offset) -> None:
        """Commit an offset of the group, without waiting for a reply."""
        broker = await calls.broker_of(self._client, queue)
        await calls.commit_offset(self._client, broker.address, self.group, queue, offset)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the next message."""
        return await calls.max_offset(self._client, queue)

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset that is still stored."""
        return await calls.min_offset(self._client, queue)

    async def search_offset(self, queue: MessageQueue, timestamp: int) -> int:
        """Return the offset stored nearest to a time in milliseconds."""
        return await calls.search_offset(self._client, queue, timestamp)

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """Return the store time of the oldest message, in milliseconds.

        -1 for an empty queue.
        """
        return await calls.earliest_store_time(self._client, queue)
