"""Topics: create, change, delete, list, and return their statistics.

Class AdminBrokerProcessor; broker-requests section 6.2.
"""

from rmqlab.broker.config import MAX_QUEUES
from rmqlab.broker.handlers.slave import refuse_on_slave
from rmqlab.broker.state import Broker
from rmqlab.remoting import names
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.bodies.topic import FILTER_TYPES, TopicConfig, TopicList, TopicOffset
from rmqlab.remoting.body import encode_entry
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.header import HeaderError
from rmqlab.remoting.headers.topic import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetTopicConfigRequestHeader,
    GetTopicStatsInfoRequestHeader,
)
from rmqlab.runtime.net.dispatch import NO_REMARK_SET, Refusal, Reply, Request, Route
from rmqlab.runtime.net.slices import Parts, Work, in_slices


def update_and_create_topic(broker: Broker, _header: None, request: Request) -> None:
    """Replace a topic's configuration, and register this topic.

    The reply is sent when the nameservers have it. The header's `order` is ignored: order topics are those in the
    nameservers' KV table. The perm is not checked.
    """
    refuse_on_slave(broker)
    header = request.command.header(CreateTopicRequestHeader)
    if header.topic_filter_type not in FILTER_TYPES:
        raise HeaderError(f"topicFilterType is {header.topic_filter_type}, expected SINGLE_TAG or MULTI_TAG")
    _check_name(broker, header.topic)
    if max(header.read_queue_nums, header.write_queue_nums) > MAX_QUEUES:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"a topic has at most {MAX_QUEUES} queues here")
    if not broker.topics.has_room(header.topic):
        raise Refusal(ResponseCode.SYSTEM_ERROR, "this broker has no room for more topics: delete some")
    topic = TopicConfig(
        topic_name=header.topic,
        read_queue_nums=header.read_queue_nums,
        write_queue_nums=header.write_queue_nums,
        topic_filter_type=header.topic_filter_type,
        perm=header.perm,
        topic_sys_flag=header.topic_sys_flag or 0,
    )
    broker.topics.put(topic)
    broker.registration.register_soon(header.topic, then=lambda: request.reply(Reply(remark=NO_REMARK_SET)))


def delete_topic(broker: Broker, _header: None, request: Request) -> Reply:
    """Delete a topic and its queues.

    Consumer offsets stay, and the tool deletes the route at the nameservers.
    """
    refuse_on_slave(broker)
    header = request.command.header(DeleteTopicRequestHeader)
    _check_name(broker, header.topic)
    broker.topics.delete(header.topic)
    _drop_queues(broker, header.topic)
    return Reply()


def _drop_queues(broker: Broker, topic: str) -> None:
    broker.store.delete_topic(topic)
    if broker.config.auto_delete_unused_stats:
        broker.stats.items.forget_topic(topic)
    broker.emit("topic_deleted", topic=topic)


def _check_name(broker: Broker, topic: str) -> None:
    if (fault := names.topic_fault(topic)) is not None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, fault)
    if topic in broker.topics.system_topics or names.is_system_topic(topic):
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{topic} is a system topic")


def get_all_topic_config(broker: Broker, _header: None, _request: Request) -> Reply:
    """Return the whole table with its version: for tools, and for a slave."""
    return Reply(header={}, body=broker.topics.wrapper().encode())


def get_topic_config(broker: Broker, header: GetTopicConfigRequestHeader, _request: Request) -> Reply:
    """Return one topic, for the mqadmin of 5.x (broker-requests#62)."""
    return Reply(body=broker.topics.require(header.topic).encode())


@in_slices
def get_topic_stats_info(broker: Broker, header: GetTopicStatsInfoRequestHeader, _request: Request) -> Work:
    """Return the bounds of each of a topic's write queues."""
    topic = broker.topics.require(header.topic)
    store, entries = broker.store, Parts()
    for queue_id in range(topic.write_queue_nums):
        max_offset = store.max_queue_offset(header.topic, queue_id)
        last_at = store.message_store_time(header.topic, queue_id, max_offset - 1)
        queue = MessageQueue(broker_name=broker.config.broker_name, queue_id=queue_id, topic=header.topic)
        bounds = TopicOffset(
            last_update_timestamp=max(last_at, 0),
            max_offset=max_offset,
            min_offset=store.min_queue_offset(header.topic, queue_id),
        )
        entries.add(encode_entry(queue, bounds))
        yield
    return Reply(body=b'{"offsetTable":{%b}}' % entries.joined())


def get_system_topic_list_from_broker(broker: Broker, _header: None, _request: Request) -> Reply:
    """Return the broker's own topics; tools that export leave them out."""
    return Reply(body=TopicList(topic_list=sorted(broker.topics.system_topics)).encode())


@in_slices
def clean_unused_topic(broker: Broker, _header: None, _request: Request) -> Work:
    """Drop the queues of topics that have no configuration any more.

    A system topic needs none to keep them.
    """
    for topic in {topic for topic, _ in broker.store.topics_queues()}:
        if broker.topics.get(topic) is None and not names.is_system_topic(topic):
            _drop_queues(broker, topic)
        yield
    return Reply()


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.UPDATE_AND_CREATE_TOPIC, None, update_and_create_topic),
    Route(RequestCode.DELETE_TOPIC_IN_BROKER, None, delete_topic),
    Route(RequestCode.GET_ALL_TOPIC_CONFIG, None, get_all_topic_config),
    Route(RequestCode.GET_TOPIC_STATS_INFO, GetTopicStatsInfoRequestHeader, get_topic_stats_info),
    Route(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, None, get_system_topic_list_from_broker),
    Route(RequestCode.CLEAN_UNUSED_TOPIC, None, clean_unused_topic),
]

ROUTES_OF_5X: list[Route[Broker]] = [
    Route(RequestCode.GET_TOPIC_CONFIG, GetTopicConfigRequestHeader, get_topic_config),
]
