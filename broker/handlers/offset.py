"""Consumer offsets, and the lowest and highest offsets of queues.

Classes ConsumerManageProcessor, AdminBrokerProcessor.
"""

from rmqlab.broker.state import Broker
from rmqlab.remoting.codes import RequestCode, ResponseCode
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
from rmqlab.runtime.net.dispatch import Refusal, Reply, Request, Route


def query_consumer_offset(broker: Broker, header: QueryConsumerOffsetRequestHeader, _request: Request) -> Reply:
    """Return the committed offset of a consumer group in one queue.

    A group that never committed starts at 0 while the queue's first message is still young enough to be in
    memory; otherwise QUERY_NOT_FOUND lets the client choose by its consume-from-where (broker-requests#43).

    A request without a topic finds what was committed without one, under "null"; no queue has no topic.
    """
    committed_topic = "null" if header.topic is None else header.topic
    offset = broker.offsets.query(header.consumer_group, committed_topic, header.queue_id)
    if offset is None or offset < 0:  # a negative offset can be committed, and counts as missing
        if header.topic is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "the request has no topic")
        store = broker.store
        if store.min_queue_offset(header.topic, header.queue_id) > 0 or not store.is_in_memory(
            header.topic, header.queue_id, 0
        ):
            remark = f"group {header.consumer_group} has no offset in queue {header.queue_id} of {header.topic}"
            return Reply(ResponseCode.QUERY_NOT_FOUND, {}, remark=remark)
        offset = 0
    return Reply(header=QueryConsumerOffsetResponseHeader(offset=offset))


def update_consumer_offset(broker: Broker, header: UpdateConsumerOffsetRequestHeader, request: Request) -> Reply:
    """Commit an offset.

    Any offset is accepted, lower ones too (broker-requests#44). With `only_forward`, which a slave sets when it hands
    an offset back, lower ones are ignored: consumers may have committed here meanwhile.
    """
    place = (header.consumer_group, header.topic, header.queue_id)
    known = broker.offsets.query(*place) if header.only_forward else None
    if known is not None and known > header.commit_offset:
        return Reply(header={})
    if _is_reset(broker, header.consumer_group, request):
        broker.emit("offset_reset", group=header.consumer_group, topic=header.topic)
    commit_offset(broker, place, header.commit_offset, request.channel.peer)
    return Reply(header={})


def _is_reset(broker: Broker, group: str, request: Request) -> bool:
    """Return True for a commit by an operator's tool.

    mqadmin resets a group without members by commits. An application may consume over its operator's connection.
    """
    return request.channel in broker.operators and not broker.consumers.has_member(group, request.channel)


def commit_offset(broker: Broker, place: tuple[str, str, int], offset: int, peer: str) -> None:
    """Store the offset of a group in a queue; emit an event if it is lowered.

    `place` is group, topic and queue id. The event is `offset_moved_back`.
    """
    group, topic, queue_id = place
    before = broker.offsets.commit(group, topic, queue_id, offset)
    if broker.is_slave:
        broker.sync.committed_here(f"{topic}@{group}")
    if before is not None and offset < before:
        broker.emit(
            "offset_moved_back",
            group=group,
            topic=topic,
            queue_id=queue_id,
            before=before,
            after=offset,
            peer=peer,
        )


def get_max_offset(broker: Broker, header: GetMaxOffsetRequestHeader, _request: Request) -> Reply:
    """Return the queue offset that the next message will get.

    0 for a queue that is empty or unknown.
    """
    return Reply(header=GetMaxOffsetResponseHeader(offset=broker.store.max_queue_offset(header.topic, header.queue_id)))


def get_min_offset(broker: Broker, header: GetMinOffsetRequestHeader, _request: Request) -> Reply:
    """Return the first queue offset that can be read.

    0 for a queue that is empty or unknown.
    """
    return Reply(header=GetMinOffsetResponseHeader(offset=broker.store.min_queue_offset(header.topic, header.queue_id)))


def search_offset_by_timestamp(broker: Broker, header: SearchOffsetRequestHeader, _request: Request) -> Reply:
    """Return the queue offset nearest to a store time in ms (broker-requests#45)."""
    offset = broker.store.offset_by_time(header.topic, header.queue_id, header.timestamp)
    return Reply(header=SearchOffsetResponseHeader(offset=offset))


def get_earliest_msg_storetime(
    broker: Broker, header: GetEarliestMsgStoretimeRequestHeader, _request: Request
) -> Reply:
    """Return the store time in ms of the first message of a queue, -1 for none."""
    timestamp = broker.store.earliest_store_time(header.topic, header.queue_id)
    return Reply(header=GetEarliestMsgStoretimeResponseHeader(timestamp=timestamp))


def get_all_consumer_offset(broker: Broker, _header: None, _request: Request) -> Reply:
    """Return all committed offsets, for a slave (store-and-ha section 5.3)."""
    return Reply(body=broker.offsets.encode())


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.QUERY_CONSUMER_OFFSET, QueryConsumerOffsetRequestHeader, query_consumer_offset),
    Route(RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequestHeader, update_consumer_offset),
    Route(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader, get_max_offset),
    Route(RequestCode.GET_MIN_OFFSET, GetMinOffsetRequestHeader, get_min_offset),
    Route(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffsetRequestHeader, search_offset_by_timestamp),
    Route(RequestCode.GET_EARLIEST_MSG_STORETIME, GetEarliestMsgStoretimeRequestHeader, get_earliest_msg_storetime),
    Route(RequestCode.GET_ALL_CONSUMER_OFFSET, None, get_all_consumer_offset),
]
