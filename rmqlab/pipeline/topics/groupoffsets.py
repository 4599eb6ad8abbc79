"""Offsets that a consumer group has committed, asked from brokers."""

from collections.abc import Mapping

import attrs

from rmqlab.client.errors import BrokerError
from rmqlab.client.instance import Client
from rmqlab.pipeline.topics.queues import checked_offset, in_order
from rmqlab.pipeline.topics.topicoffsets import QueueName
from rmqlab.remoting.bodies.topic import GroupList
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.headers.group import QueryTopicConsumeByWhoRequestHeader
from rmqlab.remoting.headers.offset import QueryConsumerOffsetRequestHeader, QueryConsumerOffsetResponseHeader


@attrs.frozen
class Commits:
    """A group's committed offsets by queue, and the names of all groups.

    The names are those that brokers know in these topics.
    """

    offsets: Mapping[QueueName, int] = attrs.field(factory=dict)
    groups: frozenset[str] = frozenset()


async def groups_at(client: Client, queue: QueueName, members: Mapping[int, str]) -> list[str]:
    """Return the groups that consume the queue's topic at its broker, or once did.

    Raises UnreachableError.
    """
    header = QueryTopicConsumeByWhoRequestHeader(topic=client.named(queue.topic))

    async def ask(address: str) -> list[str]:
        response = await client.ask(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
        return [client.unnamed(group) for group in GroupList.decode(response.body).group_list]

    groups, _ = await in_order(queue, members, ask)
    return groups


async def committed_offset(client: Client, queue: QueueName, members: Mapping[int, str], group: str) -> int | None:
    """Return the offset that a group has committed, or None. Raises UnreachableError.

    A negative offset is no commit: as a position it would mean `latest` or `earliest`.

    For a group without a commit, a broker returns 0 as long as it has the queue's first message in memory
    (broker-requests#43): ask `groups_at` first.
    """
    header = QueryConsumerOffsetRequestHeader(
        consumer_group=client.named(group), topic=client.named(queue.topic), queue_id=queue.queue_id
    )

    async def ask(address: str) -> int | None:
        try:
            response = await client.ask(address, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except BrokerError as exc:
            if exc.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        offset = checked_offset(response.header(QueryConsumerOffsetResponseHeader).offset, least=-(2**63))
        return offset if offset >= 0 else None

    offset, _ = await in_order(queue, members, ask)
    return offset
