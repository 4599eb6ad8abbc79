"""How far consumer groups have come in their topics (class AdminBrokerProcessor; broker-requests section 6.3)."""

from collections.abc import Iterator
from datetime import datetime

from broker.state import Broker
from remoting.bodies.offset import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueryCorrectionOffsetBody,
    QueueTimeSpan,
)
from remoting.bodies.queue import MessageQueue
from remoting.bodies.topic import GroupList, TopicConfig
from remoting.codes import RequestCode, ResponseCode
from remoting.dispatch import Refusal, Reply, Request, Route
from remoting.headers.broker_admin import CloneGroupOffsetRequestHeader, QueryCorrectionOffsetHeader
from remoting.headers.group import (
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
)

INT64_MAX = 2**63 - 1


def get_consume_stats(broker: Broker, header: GetConsumeStatsRequestHeader, _request: Request) -> Reply:
    """A group's offset and the end of each read queue, in one topic or in all where it has committed."""
    group = header.consumer_group
    named = (header.topic or "").strip()
    table, tps = {}, 0.0
    for topic in _consumed(broker, group, [named] if named else broker.offsets.topics_of(group)):
        table.update(_positions(broker, group, topic.topic_name, topic.read_queue_nums))
        tps += broker.stats.group_get_tps(topic.topic_name, group)
    return Reply(body=ConsumeStats(consume_tps=tps, offset_table=table).encode())


def get_broker_consume_stats(broker: Broker, header: GetConsumeStatsInBrokerHeader, _request: Request) -> Reply:
    """The same for every group that this broker knows, a topic at a time."""
    groups, total_diff = [], 0
    for group in broker.subscriptions.groups:
        stats = []
        for topic in _consumed(broker, group, broker.offsets.topics_of(group)):
            if header.is_order and not topic.order:
                continue
            table = _positions(broker, group, topic.topic_name, topic.write_queue_nums)
            total_diff += sum(position.broker_offset - position.consumer_offset for position in table.values())
            stats.append(
                ConsumeStats(consume_tps=broker.stats.group_get_tps(topic.topic_name, group), offset_table=table)
            )
        groups.append({group: stats})
    body = ConsumeStatsList(broker_addr=broker.config.address, consume_stats_list=groups, total_diff=total_diff)
    return Reply(body=body.encode())


def _consumed(broker: Broker, group: str, topics: list[str]) -> Iterator[TopicConfig]:
    """Those of the topics that exist and that the group, if it is online, still subscribes to."""
    online = broker.consumers.groups.get(group)
    for name in topics:
        topic = broker.topics.get(name)
        if topic is None:
            continue
        if online is None or not online.subscriptions or name in online.subscriptions:
            yield topic


def _positions(broker: Broker, group: str, topic: str, queues: int) -> dict[MessageQueue, OffsetWrapper]:
    store, table = broker.store, {}
    for queue_id in range(queues):
        offset = max(broker.offsets.query(group, topic, queue_id) or 0, 0)
        last_at = store.message_store_time(topic, queue_id, offset - 1) if offset > 0 else 0
        queue = MessageQueue(broker_name=broker.config.broker_name, queue_id=queue_id, topic=topic)
        table[queue] = OffsetWrapper(
            broker_offset=store.max_queue_offset(topic, queue_id),
            consumer_offset=offset,
            last_timestamp=max(last_at, 0),
        )
    return table


def query_topic_consume_by_who(broker: Broker, header: QueryTopicConsumeByWhoRequestHeader, _request: Request) -> Reply:
    """The groups that subscribe to a topic now, and those that have committed offsets in it."""
    groups = broker.consumers.groups_of(header.topic) | broker.offsets.groups_of(header.topic)
    return Reply(body=GroupList(group_list=sorted(groups)).encode())


def query_consume_time_span(broker: Broker, header: QueryConsumeTimeSpanRequestHeader, _request: Request) -> Reply:
    """When the first, the last and the last consumed message of each queue were stored."""
    topic = broker.topics.get(header.topic)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic {header.topic} does not exist here")
    spans = [_time_span(broker, header.topic, header.group, queue_id) for queue_id in range(topic.write_queue_nums)]
    return Reply(body=QueryConsumeTimeSpanBody(consume_time_span_set=spans).encode())


def _time_span(broker: Broker, topic: str, group: str, queue_id: int) -> QueueTimeSpan:
    store = broker.store
    first_at = store.earliest_store_time(topic, queue_id)
    max_offset = store.max_queue_offset(topic, queue_id)
    last_at = store.message_store_time(topic, queue_id, max_offset - 1)
    offset = broker.offsets.query(group, topic, queue_id) or 0
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
    local = datetime.fromtimestamp(millis // 1000).astimezone()
    return f"{local:%Y-%m-%d#%H:%M:%S}:{millis % 1000:03d}"


def query_correction_offset(broker: Broker, header: QueryCorrectionOffsetHeader, _request: Request) -> Reply:
    """The lowest offset of any group in each queue, for comparison with one group.

    Where that lowest lies above the compared group's, the greatest number stands instead. Unlike 4.9.8, which
    deletes the offsets of the groups to be left out, this leaves them out and no more.
    """
    left_out = {name for name in (header.filter_groups or "").split(",") if name.strip()}
    lowest: dict[int, int] = {}
    for group in broker.offsets.groups_of(header.topic) - left_out:
        for queue_id, offset in broker.offsets.queues_of(group, header.topic).items():
            if offset >= broker.store.min_queue_offset(header.topic, queue_id):
                lowest[queue_id] = min(offset, lowest.get(queue_id, INT64_MAX))
    for queue_id, offset in broker.offsets.queues_of(header.compare_group, header.topic).items():
        if lowest.get(queue_id, 0) > offset:
            lowest[queue_id] = INT64_MAX
    return Reply(body=QueryCorrectionOffsetBody(correction_offsets=lowest).encode())


def clone_group_offset(broker: Broker, header: CloneGroupOffsetRequestHeader, _request: Request) -> Reply:
    """Let one group stand where another does, in one topic or in all where that one has committed."""
    source = header.src_group
    named = (header.topic or "").strip()
    topics = [named] if named else broker.offsets.topics_of(source)
    if header.offline:
        known = [topic for topic in topics if broker.topics.get(topic) is not None]
    else:
        known = [topic.topic_name for topic in _consumed(broker, source, topics)]
    for topic in known:
        broker.offsets.clone(source, header.dest_group, topic)
    return Reply()


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequestHeader, get_consume_stats),
    Route(RequestCode.GET_BROKER_CONSUME_STATS, GetConsumeStatsInBrokerHeader, get_broker_consume_stats),
    Route(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, QueryTopicConsumeByWhoRequestHeader, query_topic_consume_by_who),
    Route(RequestCode.QUERY_CONSUME_TIME_SPAN, QueryConsumeTimeSpanRequestHeader, query_consume_time_span),
    Route(RequestCode.QUERY_CORRECTION_OFFSET, QueryCorrectionOffsetHeader, query_correction_offset),
    Route(RequestCode.CLONE_GROUP_OFFSET, CloneGroupOffsetRequestHeader, clone_group_offset),
]
