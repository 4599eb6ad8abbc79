"""The progress of consumer groups in their topics.

Class AdminBrokerProcessor; broker-requests section 6.3.
"""

from collections.abc import Iterable, Iterator

import msgspec

from rmqlab.broker.state import Broker
from rmqlab.remoting import names
from rmqlab.remoting.bodies.offset import OffsetWrapper, QueryCorrectionOffsetBody, QueueTimeSpan
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.bodies.topic import GroupList, TopicConfig
from rmqlab.remoting.body import encode_entry, encode_part
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.header import java_long_sum
from rmqlab.remoting.headers.broker_admin import CloneGroupOffsetRequestHeader, QueryCorrectionOffsetHeader
from rmqlab.remoting.headers.group import (
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)
from rmqlab.runtime.config.validators import INT64
from rmqlab.runtime.net.dispatch import Refusal, Reply, Request, Route
from rmqlab.runtime.net.slices import Parts, Work, in_slices
from rmqlab.runtime.text.localtime import local_time


@in_slices
def get_consume_stats(broker: Broker, header: GetConsumeStatsRequestHeader, request: Request) -> Work:
    """Return a group's offset and the end of each read queue.

    Covers the named topic, or all topics in which the group has committed. Only operators' tools ask for it.
    """
    broker.operators.add(request.channel)
    group = header.consumer_group
    named = names.unless_blank(header.topic)
    entries, tps = Parts(), 0.0
    for topic in _consumed(broker, group, broker.offsets.topics_of(group) if named is None else [named]):
        for queue_id in range(topic.read_queue_nums):
            entries.add(encode_entry(*_position(broker, group, topic.topic_name, queue_id)))
            yield
        tps += broker.stats.items.group_get_tps(topic.topic_name, group)
        yield
    return Reply(body=_consume_stats(tps, entries.joined()))


@in_slices
def get_broker_consume_stats(broker: Broker, header: GetConsumeStatsInBrokerHeader, _request: Request) -> Work:
    """Return the consume stats of every group of this broker, topic by topic."""
    groups, total_diff = Parts(), 0
    for group in list(broker.subscriptions.groups):
        stats = Parts()
        for topic in _consumed(broker, group, broker.offsets.topics_of(group)):
            if header.is_order and not topic.order:
                continue
            entries = Parts()
            for queue_id in range(topic.write_queue_nums):
                queue, position = _position(broker, group, topic.topic_name, queue_id)
                total_diff += position.broker_offset - position.consumer_offset
                entries.add(encode_entry(queue, position))
                yield
            stats.add(_consume_stats(broker.stats.items.group_get_tps(topic.topic_name, group), entries.joined()))
        groups.add(b"{%b:[%b]}" % (msgspec.json.encode(group), stats.joined()))
        yield
    address = msgspec.json.encode(broker.config.address)
    body = b'{"brokerAddr":%b,"consumeStatsList":[%b],"totalDiff":%d}'
    return Reply(body=body % (address, groups.joined(), java_long_sum(total_diff)))


def _consume_stats(tps: float, entries: bytes) -> bytes:
    """Return the encoding of a ConsumeStats, from encoded entries."""
    return b'{"consumeTps":%b,"offsetTable":{%b}}' % (msgspec.json.encode(tps), entries)


def _consumed(broker: Broker, group: str, topics: Iterable[str]) -> Iterator[TopicConfig]:
    """Yield those of the topics that exist and that the group subscribes to.

    If the group has no consumers online, its subscriptions are unknown, and all topics that exist are returned.
    """
    online = broker.consumers.groups.get(group)
    for name in topics:
        topic = broker.topics.get(name)
        if topic is None:
            continue
        if online is None or not online.subscriptions or name in online.subscriptions:
            yield topic


def _position(broker: Broker, group: str, topic: str, queue_id: int) -> tuple[MessageQueue, OffsetWrapper]:
    store = broker.store
    offset = max(broker.offsets.query(group, topic, queue_id) or 0, 0)
    last_at = store.message_store_time(topic, queue_id, offset - 1) if offset > 0 else 0
    queue = MessageQueue(broker_name=broker.config.broker_name, queue_id=queue_id, topic=topic)
    position = OffsetWrapper(
        broker_offset=store.max_queue_offset(topic, queue_id),
        consumer_offset=offset,
        last_timestamp=max(last_at, 0),
    )
    return queue, position


def query_topic_consume_by_who(broker: Broker, header: QueryTopicConsumeByWhoRequestHeader, _request: Request) -> Reply:
    """Return the groups that subscribe to a topic or have offsets in it."""
    groups = broker.consumers.groups_of(header.topic) | broker.offsets.groups_of(header.topic)
    return Reply(body=GroupList(group_list=sorted(groups)).encode())


@in_slices
def query_consume_time_span(broker: Broker, header: QueryConsumeTimeSpanRequestHeader, _request: Request) -> Work:
    """Return the store times of each queue's first, last and last consumed message."""
    topic = broker.topics.require(header.topic)
    spans = Parts()
    for queue_id in range(topic.write_queue_nums):
        spans.add(encode_part(_time_span(broker, header.topic, header.group, queue_id)))
        yield
    return Reply(body=b'{"consumeTimeSpanSet":[%b]}' % spans.joined())


def _time_span(broker: Broker, topic: str, group: str, queue_id: int) -> QueueTimeSpan:
    store = broker.store
    first_at = store.earliest_store_time(topic, queue_id)
    max_offset = store.max_queue_offset(topic, queue_id)
    last_at = store.message_store_time(topic, queue_id, max_offset - 1)
    committed = broker.offsets.query(group, topic, queue_id)
    offset = -1 if committed is None else committed  # of a missing offset the delay counts from 1970, as in 4.9
    consumed_at = store.message_store_time(topic, queue_id, offset - 1) if offset > 0 else first_at
    delay = 0
    if offset < max_offset:  # the age of the next message to consume
        delay = broker.now_millis() - store.message_store_time(topic, queue_id, offset)
    return QueueTimeSpan(
        consume_time_stamp=consumed_at,
        consume_time_stamp_str=_time_text(consumed_at),
        delay_time=delay,
        max_time_stamp=last_at,
        max_time_stamp_str=_time_text(last_at),
        message_queue=MessageQueue(broker_name=broker.config.broker_name, queue_id=queue_id, topic=topic),
        min_time_stamp=first_at,
        min_time_stamp_str=_time_text(first_at),
    )


def _time_text(millis: int) -> str:
    return f"{local_time(millis):%Y-%m-%d#%H:%M:%S}:{millis % 1000:03d}"


@in_slices
def query_correction_offset(broker: Broker, header: QueryCorrectionOffsetHeader, _request: Request) -> Work:
    """Return the lowest offset of any group in each queue.

    4.9.8 intends to return the greatest number where the lowest is above the compared group's. But it passes topic and
    group in the wrong order, so it compares with what a group with the topic's name has committed for a topic with the
    group's name (AdminBrokerProcessor.queryCorrectionOffset). Unlike 4.9.8, which deletes the offsets of the groups to
    be left out, this leaves them out and no more.
    """
    left_out = {name for name in (header.filter_groups or "").split(",") if name.strip()}
    lowest: dict[int, int] = {}
    for group in broker.offsets.groups_of(header.topic) - left_out:
        for queue_id, offset in list(broker.offsets.queues_of(group, header.topic).items()):
            if offset >= broker.store.min_queue_offset(header.topic, queue_id):
                lowest[queue_id] = min(offset, lowest.get(queue_id, INT64))
            yield
    for queue_id, offset in broker.offsets.queues_of(group=header.topic, topic=header.compare_group).items():
        if queue_id not in lowest:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"no group has an offset of queue {queue_id}")
        if lowest[queue_id] > offset:
            lowest[queue_id] = INT64
    return Reply(body=QueryCorrectionOffsetBody(correction_offsets=lowest).encode())


@in_slices
def clone_group_offset(broker: Broker, header: CloneGroupOffsetRequestHeader, _request: Request) -> Work:
    """Copy one group's offsets to another group.

    Covers the named topic, or all topics in which the source group has committed.
    """
    source = header.src_group
    named = names.unless_blank(header.topic)
    topics = broker.offsets.topics_of(source) if named is None else [named]
    if header.offline:
        known = [topic for topic in topics if broker.topics.get(topic) is not None]
    else:
        known = [topic.topic_name for topic in _consumed(broker, source, topics)]
    for topic in known:
        broker.offsets.clone(source, header.dest_group, topic)
        broker.emit("offset_reset", group=header.dest_group, topic=topic)
        yield
    return Reply()


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequestHeader, get_consume_stats),
    Route(RequestCode.GET_BROKER_CONSUME_STATS, GetConsumeStatsInBrokerHeader, get_broker_consume_stats),
    Route(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, QueryTopicConsumeByWhoRequestHeader, query_topic_consume_by_who),
    Route(RequestCode.QUERY_CONSUME_TIME_SPAN, QueryConsumeTimeSpanRequestHeader, query_consume_time_span),
    Route(RequestCode.QUERY_CORRECTION_OFFSET, QueryCorrectionOffsetHeader, query_correction_offset),
    Route(RequestCode.CLONE_GROUP_OFFSET, CloneGroupOffsetRequestHeader, clone_group_offset),
]
