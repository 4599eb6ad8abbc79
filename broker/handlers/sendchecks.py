"""Checks of a send before the store, for messages and for reply messages.

They run in RocketMQ's order, because the first that fails decides the reply (broker-requests section 1.2; classes
AbstractSendMessageProcessor, DefaultMessageStore).
"""

import random
from typing import Final, cast

from rmqlab.broker.state import Broker
from rmqlab.broker.tables.topics import PERM_READ, PERM_WRITE
from rmqlab.remoting import names
from rmqlab.remoting.bodies.topic import TopicConfig
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.header import HeaderError
from rmqlab.remoting.headers.send import CompleteSend, SendMessageRequestHeader
from rmqlab.remoting.message import NewMessage
from rmqlab.runtime.net.dispatch import Refusal

MAX_PROPERTIES: Final = 2**17
"""Characters of properties that are parsed. Repeated names are stored once."""
MAX_STORED_PROPERTIES: Final = 2**15 - 1


def check_send(broker: Broker, header: SendMessageRequestHeader) -> TopicConfig:
    """Run the checks before the store; return the topic, created if necessary.

    Refusal if a check fails.
    """
    config = broker.config
    accepts_from = config.start_accept_send_request_time_stamp
    if accepts_from and broker.now_millis() < accepts_from:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "this broker takes no messages yet")
    name = header.topic or ""
    topic = broker.topics.get(name)
    if not config.broker_permission & PERM_WRITE and topic is not None and topic.order:
        raise Refusal(ResponseCode.NO_PERMISSION, f"broker {config.broker_name} may not be written to")
    if (fault := names.topic_fault(name)) is not None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, fault)
    if name in names.NO_SEND_TOPICS:
        raise Refusal(ResponseCode.NO_PERMISSION, f"clients may not send to topic {name}")
    if topic is None:
        topic = _create_topic(broker, header, name)
    if header.queue_id is None:
        raise HeaderError("a send without a queue")
    if header.queue_id >= max(topic.read_queue_nums, topic.write_queue_nums):
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"queue {header.queue_id} of topic {name}: it has {topic}")
    return topic


def _create_topic(broker: Broker, header: SendMessageRequestHeader, name: str) -> TopicConfig:
    if header.default_topic is None or header.default_topic_queue_nums is None:
        raise HeaderError(f"topic {name} does not exist, and the request lacks defaultTopic or defaultTopicQueueNums")
    if not broker.topics.has_room(name):
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"this broker has no room for topic {name}: delete some")
    is_retry = name.startswith(names.RETRY_PREFIX)
    unit_mode = bool(header.unit_mode)
    topic = broker.topics.create_from_default(
        name,
        header.default_topic,
        header.default_topic_queue_nums,
        unit_mode=unit_mode,
        is_retry=is_retry,
    )
    if topic is None and is_retry:
        topic = broker.topics.create_plain(name, 1, unit_mode=unit_mode, perm=PERM_READ | PERM_WRITE)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic {name} does not exist here; create it first")
    broker.registration.register_soon(oneway=True)
    return topic


def check_complete(header: SendMessageRequestHeader) -> CompleteSend:
    """Return a header that passed `check_send`.

    HeaderError if its time or its flag is missing. Refusal for properties that are too long to parse.
    """
    if len(header.properties or "") > MAX_PROPERTIES:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"properties of {len(header.properties or '')} characters")
    if header.born_timestamp is None or header.flag is None:
        raise HeaderError("a send without its time or its flag")
    return cast("CompleteSend", header)


def chosen_queue(send: CompleteSend, topic: TopicConfig) -> int:
    """Return the queue of a send, a random one if it names none.

    HeaderError if there is none to choose; RocketMQ divides by zero then.
    """
    if send.queue_id >= 0:
        return send.queue_id
    if topic.write_queue_nums <= 0:
        raise HeaderError(f"topic {send.topic} has no queue to write to")
    return random.randrange(topic.write_queue_nums)  # noqa: S311 - spreads load


def check_store(broker: Broker) -> None:
    """Raise Refusal while the store accepts no messages.

    Source: DefaultMessageStore.checkStoreStatus.
    """
    if (reason := broker.store.write_refused()) is not None:
        raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, reason)


def check_properties(message: NewMessage) -> None:
    """Raise Refusal for properties that are longer than their field, in characters.

    Unlike longer ones in bytes, that is no failed put of request 28. Source: DefaultMessageStore.checkMessage.
    """
    if len(message.properties) > MAX_STORED_PROPERTIES:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"properties of {len(message.properties)} characters")
