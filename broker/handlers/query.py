"""Finding messages: by key, by commit log offset, by queue entry.

Classes QueryMessageProcessor, AdminBrokerProcessor. Sources: broker-requests sections 5 and 6.2.
"""

from rmqlab.broker.state import Broker
from rmqlab.remoting.bodies.queue import ConsumeQueueData, QueryConsumeQueueResponseBody
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.frame import JSON
from rmqlab.remoting.header import HeaderError
from rmqlab.remoting.headers.query import (
    QueryConsumeQueueRequestHeader,
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from rmqlab.remoting.message import RecordError, StoredMessage, decode_message
from rmqlab.runtime.net.dispatch import NO_REMARK_SET, OVERLOAD, Refusal, Reply, Request, Route
from rmqlab.runtime.net.slices import Work
from rmqlab.store.config import QUEUE_ENTRY_SIZE

MAX_WAITING_QUERIES = 1000
"""Queries that wait for the index, of all clients together."""
MAX_ENTRIES = 10_000
"""Entries of a queue in one reply. A file has 300,000: more bytes than fit into a frame, and seconds of work."""


def query_message(broker: Broker, header: QueryMessageRequestHeader, request: Request) -> Reply | None:
    """Return messages with a key, stored within a time span (section 5.1).

    They are in the order of the commit log. All messages in queues must be found, as in RocketMQ, where queues and
    index grow together. Here the index may lag on a slave that copies a long log, and after a crash; then the query
    waits until the index has reached the queues.
    """
    if header.max_num < 0 and not header.is_unique_key:  # 4.9.8 replaces the number of a query by unique key
        raise HeaderError(f"a query for {header.max_num} messages")
    wanted = broker.store.dispatcher.want_index()
    if wanted is None:
        return broker.slices.begin(_query(broker, header, request), request)
    if len(broker.waiting_queries) >= MAX_WAITING_QUERIES:
        raise Refusal(ResponseCode.SYSTEM_BUSY, OVERLOAD)
    broker.waiting_queries.append((wanted, header, request))
    return None


def release_waiting_queries(broker: Broker) -> None:
    """Reply to the queries that waited for the index to grow."""
    waiting, dispatcher = broker.waiting_queries, broker.store.dispatcher
    while waiting and dispatcher.indexed >= min(waiting[0][0], dispatcher.offset):
        _, header, request = waiting.popleft()
        if not request.channel.is_closed:
            try:
                reply = broker.slices.begin(_query(broker, header, request), request)
            except Refusal as exc:
                reply = Reply(exc.code, remark=str(exc))
            if reply is not None:
                request.reply(reply)


def _query(broker: Broker, header: QueryMessageRequestHeader, request: Request) -> Work:
    max_num = broker.config.default_query_max_num if header.is_unique_key else header.max_num
    found = yield from broker.store.search(
        header.topic, header.key, max_num, header.begin_timestamp, header.end_timestamp
    )
    fields = QueryMessageResponseHeader(
        index_last_update_timestamp=found.index_last_update_timestamp,
        index_last_update_phyoffset=found.index_last_update_phyoffset,
    )
    if not found.buffers:
        return Reply(ResponseCode.QUERY_NOT_FOUND, fields, remark="no message has this key in this time")
    request.command.serialize_type = JSON  # RocketMQ encodes this reply before it reads the request's codec
    return Reply(header=fields, body=found.buffers)


def view_message_by_id(broker: Broker, header: ViewMessageRequestHeader, request: Request) -> Reply:
    """Return the message at a commit log offset, as encoded in an offset message id."""
    record = broker.store.message_at(header.offset)
    if record is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no message at commit log offset {header.offset}")
    request.command.serialize_type = JSON  # as for a query
    return Reply(body=record)


def decoded_at(broker: Broker, physical_offset: int) -> StoredMessage | None:
    """Return the message whose record begins at a commit log offset, or None."""
    record = broker.store.message_at(physical_offset)
    try:
        return None if record is None else decode_message(record)
    except RecordError:  # bytes in the middle of a record that look like one
        return None


def query_consume_queue(broker: Broker, header: QueryConsumeQueueRequestHeader, _request: Request) -> Reply:
    """Return entries of a queue unchanged.

    If the request names a consumer group, its subscription is returned too. `eval` stays false: RocketMQ judges only
    entries with an extension, which ours never have.
    """
    store, topic, queue_id = broker.store, header.topic, header.queue_id
    if (topic, queue_id) not in store.topics_queues():
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"queue {queue_id} of topic {topic} does not exist here")
    lowest, highest = store.min_queue_offset(topic, queue_id), store.max_queue_offset(topic, queue_id)
    if not lowest <= header.index < highest:
        return Reply(remark=f"Index {header.index} of {queue_id}@{topic} is not exist!")
    subscription = filter_data = None
    if header.consumer_group is not None:
        group = broker.consumers.groups.get(header.consumer_group)
        subscription = group.subscriptions.get(topic) if group is not None else None
        filter_data = f"{header.consumer_group}@{topic} is not online!"
        if subscription is not None:
            registered = broker.filters.find(topic, header.consumer_group)
            filter_data = "null" if registered is None else registered.encode_pretty().decode()
    body = QueryConsumeQueueResponseBody(
        filter_data=filter_data,
        max_queue_index=highest,
        min_queue_index=lowest,
        queue_data=[
            ConsumeQueueData(physic_offset=physical, physic_size=size, tags_code=code)
            for physical, size, code in store.queue_entries(topic, queue_id, header.index, _count(header.count))
        ],
        subscription_data=subscription,
    )
    return Reply(body=body.encode(), remark=NO_REMARK_SET)


def _count(number: int) -> int:
    """Convert a requested number as RocketMQ's 32-bit arithmetic does.

    A number that is too large or below 0 becomes 0: no message has it. At most MAX_ENTRIES.
    """
    return min(max((number * QUEUE_ENTRY_SIZE + 2**31) % 2**32 - 2**31, 0) // QUEUE_ENTRY_SIZE, MAX_ENTRIES)


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.QUERY_MESSAGE, QueryMessageRequestHeader, query_message),
    Route(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader, view_message_by_id),
    Route(RequestCode.QUERY_CONSUME_QUEUE, QueryConsumeQueueRequestHeader, query_consume_queue),
]
