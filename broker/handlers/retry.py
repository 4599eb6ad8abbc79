"""CONSUMER_SEND_MSG_BACK: store a message for a retry or as a dead letter.

Sources: broker-requests section 3.11, store-and-ha section 7.3; class SendMessageProcessor. A consumer returns a
message it could not handle. The message is read from this broker's commit log and stored again in its group's retry or
dead-letter topic, usually by way of the schedule topic.
"""

import random

from rmqlab.broker.deferred.message_copy import can_be_topic, copy_of
from rmqlab.broker.deferred.redirect import redirect_delayed
from rmqlab.broker.handlers.query import decoded_at
from rmqlab.broker.state import Broker
from rmqlab.broker.tables.topics import PERM_WRITE
from rmqlab.remoting import names
from rmqlab.remoting.bodies.group import SubscriptionGroupConfig
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.header import java_int
from rmqlab.remoting.headers.send import ConsumerSendMsgBackRequestHeader
from rmqlab.remoting.message import (
    PROPERTY_DELAY,
    PROPERTY_ORIGIN_MESSAGE_ID,
    PROPERTY_RETRY_TOPIC,
    PROPERTY_WAIT,
    NewMessage,
    StoredMessage,
    format_properties,
)
from rmqlab.runtime.net.dispatch import Refusal, Reply, Request, Route
from rmqlab.store.results import PutStatus

FIRST_RETRY_LEVEL = 3
"""Delay level of the first retry: 10 s. Each further one waits a level longer."""
DLQ_QUEUES = 1
_OLDEST_WITH_MAX_RECONSUME_TIMES = 121
"""Client version 3.4.9: older clients lack the field (broker-requests section 1.4)."""


def consumer_send_msg_back(broker: Broker, header: ConsumerSendMsgBackRequestHeader, request: Request) -> Reply | None:
    """Store a copy of a message for a retry or as a dead letter.

    Source: broker-requests#47.
    """
    group = _check(broker, header)
    if group.retry_queue_nums <= 0:
        return Reply()  # the message is dropped silently, as in RocketMQ
    topic = names.RETRY_PREFIX + header.group
    _make_topic(broker, topic, group.retry_queue_nums, unit_mode=bool(header.unit_mode))
    stored = decoded_at(broker, header.offset)
    if stored is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no message at commit log offset {header.offset}")
    limit = retry_limit(group, header.max_reconsume_times, request.command.version)
    level = header.delay_level or java_int(FIRST_RETRY_LEVEL + stored.reconsume_times)
    queue_id = random.randrange(group.retry_queue_nums)  # noqa: S311 - spreads load
    if stored.reconsume_times >= limit or header.delay_level < 0:
        topic, queue_id, level = names.DLQ_PREFIX + header.group, 0, 0
        _make_topic(broker, topic, DLQ_QUEUES)
    if not can_be_topic(topic):  # else the copy would wait for its delay, and be refused then
        raise Refusal(ResponseCode.SYSTEM_ERROR, PutStatus.MESSAGE_ILLEGAL.name)
    message, properties = _copy(stored, topic, queue_id, level)
    redirect_delayed(broker.store, message, properties)
    message.properties = format_properties(properties)
    result = broker.put_own(message)
    if not result.is_stored:
        raise Refusal(ResponseCode.SYSTEM_ERROR, result.status.name)
    if message.topic == names.SCHEDULE_TOPIC:  # no dead letter (class SendMessageProcessor)
        size = result.end_offset - result.physical_offset
        broker.stats.items.count_topic_put(message.topic, 1, size)
        broker.stats.items.count_schedule_put(message.queue_id, size)
    broker.stats.items.count_send_back(properties[PROPERTY_RETRY_TOPIC], header.group)
    if result.decision is None:
        return Reply()
    result.decision.when_made(lambda status, cause: request.reply(_outcome(status, cause)))
    return None


def retry_limit(group: SubscriptionGroupConfig, max_reconsume_times: int | None, client_version: int) -> int:
    """Return how often a message is retried before it becomes a dead letter.

    This is the number in the header of the request, unless its client is too old to send one, or else the group's
    (broker-requests#22).
    """
    if max_reconsume_times is not None and client_version >= _OLDEST_WITH_MAX_RECONSUME_TIMES:
        return max_reconsume_times
    return group.retry_max_times


def _outcome(status: PutStatus, cause: str | None) -> Reply:
    """Return the reply to a message that a DLedger group has stored or not."""
    if status is PutStatus.PUT_OK:
        return Reply()
    return Reply(ResponseCode.SYSTEM_ERROR, remark=cause or status.name)


def _check(broker: Broker, header: ConsumerSendMsgBackRequestHeader) -> SubscriptionGroupConfig:
    group = broker.subscriptions.require(header.group)
    if not broker.config.broker_permission & PERM_WRITE:
        raise Refusal(ResponseCode.NO_PERMISSION, f"broker {broker.config.broker_name} may not be written to")
    return group


def _make_topic(broker: Broker, topic: str, queues: int, *, unit_mode: bool = False) -> None:
    config = broker.create_own_topic(topic, queues, unit_mode=unit_mode)
    if topic.startswith(names.RETRY_PREFIX) and not config.perm & PERM_WRITE:
        raise Refusal(ResponseCode.NO_PERMISSION, f"topic {topic} may not be written to")


def _copy(stored: StoredMessage, topic: str, queue_id: int, level: int) -> tuple[NewMessage, dict[str, str]]:
    """Return a copy of the message for its next try.

    It keeps its original id and topic through all tries.
    """
    properties = dict(stored.properties)
    properties.setdefault(PROPERTY_RETRY_TOPIC, stored.topic)
    if not properties.get(PROPERTY_ORIGIN_MESSAGE_ID, "").strip():
        properties[PROPERTY_ORIGIN_MESSAGE_ID] = stored.offset_message_id
    properties[PROPERTY_WAIT] = "false"
    properties[PROPERTY_DELAY] = str(level)
    message = copy_of(stored, topic, queue_id, properties=properties)
    message.reconsume_times = java_int(message.reconsume_times + 1)
    return message, properties


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.CONSUMER_SEND_MSG_BACK, ConsumerSendMsgBackRequestHeader, consumer_send_msg_back),
]
