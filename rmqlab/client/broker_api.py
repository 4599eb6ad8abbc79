"""Requests of consumers to brokers: one function each, which returns the result.

Source: broker-requests sections 2 and 3; class MQClientAPIImpl. Errors of all: those of Client.ask, and
NoRouteError if the route has no broker for it.
"""

import enum
from collections.abc import Sequence
from typing import Any

import attrs

from rmqlab.client.errors import BrokerError, InvalidReplyError, NoRouteError
from rmqlab.client.instance import Client
from rmqlab.client.message import ReceivedMessage, received_all
from rmqlab.client.replies import expect_success, read_body, read_header, remark_of
from rmqlab.client.routes import BrokerAddress, subscribe_queues
from rmqlab.remoting.bodies.group import GetConsumerListByGroupResponseBody
from rmqlab.remoting.bodies.heartbeat import CheckClientRequestBody, SubscriptionData
from rmqlab.remoting.bodies.queue import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    MessageQueue,
    UnlockBatchRequestBody,
)
from rmqlab.remoting.body import BodyError
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.headers.group import GetConsumerListByGroupRequestHeader
from rmqlab.remoting.headers.offset import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rmqlab.remoting.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rmqlab.remoting.headers.send import ConsumerSendMsgBackRequestHeader
from rmqlab.remoting.names import MASTER_ID
from rmqlab.runtime.config.validators import INT64, shown
from rmqlab.runtime.net.channel import Channel

# Bits of a pull's sysFlag
COMMIT_OFFSET = 1
SUSPEND = 2
SUBSCRIPTION = 4
LITE_PULL = 16
MAX_MEMBERS = 20_000
"""Members of a group. A rebalance by consistent hash takes a second with so many, for each topic."""


class PullStatus(enum.Enum):
    """Outcome of a pull (class PullStatus)."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW_MSG = ResponseCode.PULL_NOT_FOUND
    NO_MATCHED_MSG = ResponseCode.PULL_RETRY_IMMEDIATELY
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED


_PULL_STATUSES = {int(status.value): status for status in PullStatus}


@attrs.frozen(kw_only=True)
class PullResult:
    """The result of a pull: messages and the next offset."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    messages: list[ReceivedMessage]


async def master_of(client: Client, queue: MessageQueue) -> str:
    """Return the master of a queue's broker, for requests that no slave serves.

    Refresh a route without one.
    """
    address = client.routes.master(queue.broker_name)
    if address is None:
        await client.try_refresh(queue.topic)
        address = client.routes.master(queue.broker_name)
    if address is None:
        raise NoRouteError(f"broker {queue.broker_name} has no known master")
    return address


async def broker_of(client: Client, queue: MessageQueue, broker_id: int = MASTER_ID) -> BrokerAddress:
    """Return the broker with this id, or its substitute (store-and-ha section 6.5)."""
    address = client.routes.for_pull(queue.broker_name, broker_id)
    if address is None:
        await client.try_refresh(queue.topic)
        address = client.routes.for_pull(queue.broker_name, broker_id)
    if address is None:
        raise NoRouteError(f"broker {queue.broker_name} has no known address")
    return address


async def pull(
    client: Client,
    address: str,
    broker_name: str,
    header: PullMessageRequestHeader,
    timeout: float,  # noqa: ASYNC109 - the protocol's own
) -> PullResult:
    """Pull messages. A time-out does not close the connection: other pulls wait on it."""
    channel = await client.remoting.channel(address)
    return await pull_over(channel, client, address, broker_name, header, timeout)


async def pull_over(
    channel: Channel,
    client: Client,
    address: str,
    broker_name: str,
    header: PullMessageRequestHeader,
    timeout: float,  # noqa: ASYNC109 - the protocol's own
) -> PullResult:
    """As `pull`, over an open channel.

    The request is written before the first checkpoint. InvalidReplyError for a next offset out of range.
    """
    response = await channel.request(client.command(RequestCode.PULL_MESSAGE, header), timeout)
    status = _PULL_STATUSES.get(response.code)
    if status is None:
        raise BrokerError(address, response.code, remark_of(response))
    response.source = address
    fields = read_header(response, PullMessageResponseHeader)
    next_offset = header.queue_offset if fields.next_begin_offset is None else fields.next_begin_offset
    if not 0 <= next_offset <= INT64:  # a consumer would commit it
        raise InvalidReplyError(address, f"nextBeginOffset {shown(next_offset)}: expected 0 to 2^63 - 1")
    return PullResult(
        status=status,
        next_offset=next_offset,
        min_offset=fields.min_offset or 0,
        max_offset=fields.max_offset or 0,
        suggested_broker_id=fields.suggest_which_broker_id or MASTER_ID,
        messages=read_body(
            response, lambda raw: received_all(raw, broker_name, client.config.namespace, wanted=header.max_msg_nums)
        )
        if status is PullStatus.FOUND
        else [],
    )


# -- groups --------------------------------------------------------------------------------------


async def consumer_ids(client: Client, address: str, group: str) -> list[str]:
    """Return the members of a group. BrokerError for a group without members.

    InvalidReplyError for more than MAX_MEMBERS.
    """
    header = GetConsumerListByGroupRequestHeader(consumer_group=group)
    response = await client.ask(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
    return read_body(response, _member_ids)


def _member_ids(body: bytes) -> list[str]:
    ids = GetConsumerListByGroupResponseBody.decode(body).consumer_id_list
    if len(ids) > MAX_MEMBERS:
        raise BodyError(f"{len(ids)} members of a group: at most {MAX_MEMBERS} are expected")
    return ids


async def check_subscription(client: Client, address: str, group: str, data: SubscriptionData) -> None:
    """Request the check of a subscription. BrokerError if it is rejected."""
    body = CheckClientRequestBody(client_id=client.client_id, group=group, subscription_data=data)
    await client.ask(address, RequestCode.CHECK_CLIENT_CONFIG, body=body.encode())


async def lock_queues(client: Client, address: str, group: str, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """Lock queues at a master; returns the granted ones."""
    body = LockBatchRequestBody(client_id=client.client_id, consumer_group=group, mq_set=list(queues))
    response = await client.ask(address, RequestCode.LOCK_BATCH_MQ, body=body.encode())
    return read_body(response, LockBatchResponseBody.decode).lock_ok_mq_set


async def unlock_queues(client: Client, address: str, group: str, queues: Sequence[MessageQueue]) -> None:
    """Unlock queues, without waiting for a reply."""
    body = UnlockBatchRequestBody(client_id=client.client_id, consumer_group=group, mq_set=list(queues))
    command = client.command(RequestCode.UNLOCK_BATCH_MQ, body=body.encode(), oneway=True)
    await client.remoting.send_oneway(address, command)


async def send_back(
    client: Client, group: str, message: ReceivedMessage, delay_level: int, max_reconsume_times: int
) -> None:
    """Ask the master to deliver a message again later."""
    header = ConsumerSendMsgBackRequestHeader(
        offset=message.stored.physical_offset,
        group=group,
        delay_level=delay_level,
        origin_msg_id=message.message_id,
        origin_topic=client.named(message.topic),
        max_reconsume_times=max_reconsume_times,
    )
    address = await master_of(client, message.queue)
    await client.ask(address, RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout=5.0)


# -- offsets -------------------------------------------------------------------------------------


def _offset_in(response: Command, kind: type[Any]) -> int:
    """Return the offset of a response, -1 for an unknown one.

    InvalidReplyError without one: 0 in its place would reset a consumer.
    """
    offset: int | None = read_header(response, kind).offset
    if offset is None or not -1 <= offset <= INT64:
        raise InvalidReplyError(response.source, f"{kind.__name__}: offset {shown(offset)}: expected 0 to 2^63 - 1")
    return offset


async def query_offset(client: Client, group: str, queue: MessageQueue) -> int | None:
    """Return the committed offset; None if the group never committed in this queue.

    Only code 22 and offset -1 mean that. Any other refusal is raised: treated as a missing offset, it would reset the
    consumer.
    """
    header = QueryConsumerOffsetRequestHeader(consumer_group=group, topic=queue.topic, queue_id=queue.queue_id)
    address = (await broker_of(client, queue)).address
    command = client.command(RequestCode.QUERY_CONSUMER_OFFSET, header)
    response = await client.remoting.request(address, command, client.config.api_timeout)
    if response.code == ResponseCode.QUERY_NOT_FOUND:
        return None
    offset = _offset_in(expect_success(address, response), QueryConsumerOffsetResponseHeader)
    return None if offset == -1 else offset  # as in Java (class RebalancePushImpl)


async def commit_offset(client: Client, address: str, group: str, queue: MessageQueue, offset: int) -> None:
    """Commit, without waiting for a reply."""
    send_commit(await client.remoting.channel(address), client, group, queue, offset)


def send_commit(channel: Channel, client: Client, group: str, queue: MessageQueue, offset: int) -> None:
    """Write a commit to an open channel, without waiting for a reply."""
    header = UpdateConsumerOffsetRequestHeader(
        consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
    )
    channel.send_oneway(client.command(RequestCode.UPDATE_CONSUMER_OFFSET, header, oneway=True))


async def queues_of(client: Client, topic: str) -> list[MessageQueue]:
    """Return all queues of a topic that can be read. Errors as Client.fetch_route."""
    topic = client.named(topic)
    return subscribe_queues(topic, await client.refresh_route(topic))


async def max_offset(client: Client, queue: MessageQueue) -> int:
    """Return the offset of the next message, at the master."""
    header = GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
    response = await client.ask(await master_of(client, queue), RequestCode.GET_MAX_OFFSET, header)
    return _offset_in(response, GetMaxOffsetResponseHeader)


async def min_offset(client: Client, queue: MessageQueue) -> int:
    """Return the first offset that the master still has."""
    header = GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
    response = await client.ask(await master_of(client, queue), RequestCode.GET_MIN_OFFSET, header)
    return _offset_in(response, GetMinOffsetResponseHeader)


async def search_offset(client: Client, queue: MessageQueue, timestamp: int) -> int:
    """Return the offset of the message stored nearest to a time in milliseconds."""
    header = SearchOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp)
    response = await client.ask(await master_of(client, queue), RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
    return _offset_in(response, SearchOffsetResponseHeader)


async def earliest_store_time(client: Client, queue: MessageQueue) -> int:
    """Return the store time of the oldest message, in milliseconds.

    -1 for an empty queue.
    """
    header = GetEarliestMsgStoretimeRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
    response = await client.ask(await master_of(client, queue), RequestCode.GET_EARLIEST_MSG_STORETIME, header)
    timestamp = read_header(response, GetEarliestMsgStoretimeResponseHeader).timestamp
    return -1 if timestamp is None else timestamp
