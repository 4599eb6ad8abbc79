"""Administration of groups: members, progress, and resetting offsets.

Source: broker-requests sections 6.1 and 6.3. Errors as in admin.
"""

from rmqlab.client import broker_api as calls
from rmqlab.client.admin import any_reader, readers
from rmqlab.client.errors import BrokerError
from rmqlab.client.instance import Client
from rmqlab.client.replies import read_body
from rmqlab.remoting.bodies.group import (
    ConsumerConnection,
    ProducerConnection,
    ProducerTableInfo,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from rmqlab.remoting.bodies.offset import ConsumerOffsets, ConsumeStats, OffsetWrapper, ResetOffsetBody
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.bodies.runtime import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rmqlab.remoting.bodies.topic import GroupList
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.header import JavaBoolean
from rmqlab.remoting.headers.broker_admin import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    ResetOffsetRequestHeader,
)
from rmqlab.remoting.headers.group import (
    DeleteSubscriptionGroupRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumeStatsRequestHeader,
    GetProducerConnectionListRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)
from rmqlab.remoting.headers.offset import UpdateConsumerOffsetRequestHeader
from rmqlab.remoting.names import RETRY_PREFIX
from rmqlab.runtime.config.valuetypes import Offset, checked_methods

LATEST = -1
"""As a timestamp: the end of each queue."""


@checked_methods
class GroupAdmin:
    """Sends administrative requests about groups.

    A consumer group's brokers are those of its retry topic.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def _brokers(self, group: str) -> list[str]:
        return readers(await self._client.fetch_route(RETRY_PREFIX + group))

    # -- configuration ---------------------------------------------------------------------------

    async def create_group(self, address: str, config: SubscriptionGroupConfig) -> None:
        """Create or replace a consumer group's settings at one broker."""
        await self._client.ask(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.encode())

    async def delete_group(self, address: str, group: str, *, drop_offsets: bool = False) -> None:
        """Delete a group's settings at one broker."""
        header = DeleteSubscriptionGroupRequestHeader(group_name=group, remove_offset=JavaBoolean(drop_offsets))
        await self._client.ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def groups(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        """Return all consumer groups of a broker."""
        response = await self._client.ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return read_body(response, SubscriptionGroupWrapper.decode).subscription_group_table

    # -- members ---------------------------------------------------------------------------------

    async def consumer_connection(self, group: str) -> ConsumerConnection:
        """Return the members of a consumer group.

        BrokerError with code 206 if none is online.
        """
        header = GetConsumerConnectionListRequestHeader(consumer_group=group)
        address = any_reader(group, await self._client.fetch_route(RETRY_PREFIX + group))
        response = await self._client.ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        return read_body(response, ConsumerConnection.decode)

    async def producer_connection(self, group: str, topic: str) -> ProducerConnection:
        """Return the members of a producer group for a topic.

        BrokerError with code 1 without members.
        """
        header = GetProducerConnectionListRequestHeader(producer_group=group)
        address = any_reader(topic, await self._client.fetch_route(topic))
        response = await self._client.ask(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
        return read_body(response, ProducerConnection.decode)

    async def producers(self, address: str) -> ProducerTableInfo:
        """Return all producers of one broker."""
        return read_body(await self._client.ask(address, RequestCode.GET_ALL_PRODUCER_INFO), ProducerTableInfo.decode)

    async def groups_of_topic(self, topic: str) -> list[str]:
        """Return the groups that consume a topic, or did earlier."""
        header = QueryTopicConsumeByWhoRequestHeader(topic=topic)
        groups: set[str] = set()
        for address in readers(await self._client.fetch_route(topic)):
            response = await self._client.ask(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
            groups.update(read_body(response, GroupList.decode).group_list)
        return sorted(groups)

    async def running_info(self, group: str, client_id: str) -> ConsumerRunningInfo:
        """Return the running info of one consumer, through its broker."""
        header = GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id=client_id)
        address = any_reader(group, await self._client.fetch_route(RETRY_PREFIX + group))
        response = await self._client.ask(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header, timeout=12.0)
        return read_body(response, ConsumerRunningInfo.decode)

    async def consume_directly(
        self, address: str, group: str, client_id: str, offset_message_id: str
    ) -> ConsumeMessageDirectlyResult:
        """Make one consumer consume one message now.

        The address is that of the broker which has the message.
        """
        header = ConsumeMessageDirectlyResultRequestHeader(
            consumer_group=group, client_id=client_id, msg_id=offset_message_id
        )
        response = await self._client.ask(address, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, timeout=12.0)
        return read_body(response, ConsumeMessageDirectlyResult.decode)

    # -- progress --------------------------------------------------------------------------------

    async def consume_stats(self, group: str, topic: str | None = None) -> ConsumeStats:
        """Return a group's offset and the end of each queue."""
        tps, table = 0.0, dict[MessageQueue, OffsetWrapper]()
        for address in await self._brokers(group):
            stats = await self.consume_stats_at(address, group, topic)
            tps += stats.consume_tps
            table |= stats.offset_table
        return ConsumeStats(consume_tps=tps, offset_table=table)

    async def consume_stats_at(self, address: str, group: str, topic: str | None = None) -> ConsumeStats:
        """Return a group's offset and the end of each queue at one broker."""
        header = GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
        return read_body(await self._client.ask(address, RequestCode.GET_CONSUME_STATS, header), ConsumeStats.decode)

    async def consumer_offsets(self, address: str) -> ConsumerOffsets:
        """Return all committed offsets that one broker has, of all groups."""
        response = await self._client.ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET)
        return read_body(response, ConsumerOffsets.decode)

    async def commit_offset(self, group: str, queue: MessageQueue, offset: Offset) -> None:
        """Write one offset at the queue's broker, and wait for the reply."""
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )
        address = (await calls.broker_of(self._client, queue)).address
        await self._client.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def reset_offsets(
        self, group: str, topic: str, timestamp: int, *, is_force: bool = True
    ) -> dict[MessageQueue, int]:
        """Reset a group to a time in milliseconds; returns the new offset of each queue.

        Online consumers get the new offsets and commit them. Without any, the offsets are written at the broker, as
        mqadmin does after code 206.
        """
        header = ResetOffsetRequestHeader(topic=topic, group=group, timestamp=timestamp, is_force=JavaBoolean(is_force))
        moved: dict[MessageQueue, int] = {}
        await self._client.refresh_route(topic)
        for address in readers(await self._client.fetch_route(topic)):
            try:
                response = await self._client.ask(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
            except BrokerError as exc:
                if exc.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
                return await self._reset_offline(group, topic, timestamp, is_force=is_force)
            moved |= read_body(response, ResetOffsetBody.decode).offset_table
        return moved

    async def _reset_offline(
        self, group: str, topic: str, timestamp: int, *, is_force: bool
    ) -> dict[MessageQueue, int]:
        moved = {}
        for queue, progress in (await self.consume_stats(group, topic)).offset_table.items():
            if timestamp == LATEST:
                offset = await calls.max_offset(self._client, queue)
            else:
                offset = await calls.search_offset(self._client, queue, timestamp)
            if is_force or offset <= progress.consumer_offset:
                await self.commit_offset(group, queue, offset)
                moved[queue] = offset
        return moved
