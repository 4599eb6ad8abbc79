"""SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE (class SendMessageProcessor).

One handler serves all three codes: the header's `batch` marks a batch, not the code (broker-requests#11). Checks run in
RocketMQ's order, because the first that fails decides the reply (broker-requests section 1.2).
"""

import functools
import random
from typing import Final, cast

from rmqlab.broker.handlers.batchproperties import BatchProperties
from rmqlab.broker.handlers.copies import (
    copies_demanded_by_batch,
    demanded_copies,
    wait_for_store,
    waits_for_store,
)
from rmqlab.broker.state import Broker
from rmqlab.broker.tables.topics import PERM_READ, PERM_WRITE
from rmqlab.broker.waits.pending_acks import WaitingSend
from rmqlab.remoting import names
from rmqlab.remoting.batch import ReceivedBatch
from rmqlab.remoting.bodies.topic import MULTI_TAG, TopicConfig
from rmqlab.remoting.codec import ReplyHead
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.header import HeaderError, java_number
from rmqlab.remoting.headers.send import CompleteSend, SendMessageRequestHeader, SendMessageRequestHeaderV2
from rmqlab.remoting.message import (
    MULTI_TAGS,
    PROPERTY_CLUSTER,
    PROPERTY_DELAY,
    PROPERTY_REAL_QID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TRAN_MSG,
    PROPERTY_WAIT,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    NewMessage,
    format_properties,
    offset_message_ids,
    parse_properties,
)
from rmqlab.runtime import stopwatch
from rmqlab.runtime.net.dispatch import Refusal, Reply, Request, Route
from rmqlab.store.results import PutResult, PutStatus

STORED = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
}
"""The outcomes after which the message is in the log (store-ha#32)."""
NOT_STORED = {
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
}
MAX_PROPERTIES: Final = 2**17
"""Characters of properties that are parsed. At most 32,767 bytes can be stored, but repeated names count once there."""
OLDEST_WITH_MAX_RECONSUME_TIMES = 121
"""Client version 3.4.9: older clients lack the field (broker-requests section 1.4)."""


def send_message(broker: Broker, header: SendMessageRequestHeader, request: Request) -> Reply | None:
    """Store one message or a batch; reply when it is flushed and copied.

    The broker's role and flush type decide which of the two the reply waits for.
    """
    try:
        topic = check_send(broker, header)
        send = check_complete(header)
        queue_id = chosen_queue(send, topic)
        if header.batch:
            return _send_batch(broker, send, request, topic, queue_id)
        return _send_single(broker, send, request, topic, queue_id)
    except Refusal as exc:
        return Reply(exc.code, region_fields(broker), remark=str(exc))
    except ValueError as exc:  # a batch body or a delay level that does not parse
        raise HeaderError(str(exc)) from None


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


def chosen_queue(send: CompleteSend, topic: TopicConfig) -> int:
    """Return the queue of a send, a random one if it names none.

    HeaderError if there is none to choose; RocketMQ divides by zero then.
    """
    if send.queue_id >= 0:
        return send.queue_id
    if topic.write_queue_nums <= 0:
        raise HeaderError(f"topic {send.topic} has no queue to write to")
    return random.randrange(topic.write_queue_nums)  # noqa: S311 - spreads load


def check_complete(header: SendMessageRequestHeader) -> CompleteSend:
    """Return a header that passed `check_send`.

    HeaderError if its time or its flag is missing. Refusal for properties that are too long to parse.
    """
    if len(header.properties or "") > MAX_PROPERTIES:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"properties of {len(header.properties or '')} characters")
    if header.born_timestamp is None or header.flag is None:
        raise HeaderError("a send without its time or its flag")
    return cast("CompleteSend", header)


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


def _send_single(
    broker: Broker, header: CompleteSend, request: Request, topic: TopicConfig, queue_id: int
) -> Reply | None:
    if header.sys_flag is None:
        raise HeaderError("a send without its sysFlag")
    properties = parse_properties(header.properties or "")
    min_copies = demanded_copies(broker, properties)
    message = NewMessage(
        topic=header.topic,
        queue_id=queue_id,
        body=request.command.body,
        flag=header.flag,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        born_host=peer_address(request),
        store_host=broker.store_host,
        reconsume_times=header.reconsume_times or 0,
    )
    if header.topic.startswith(names.RETRY_PREFIX):
        topic = _retry_or_dead_letter(broker, header, request.command, message, topic)
    message.sys_flag = _stored_sys_flag(message.sys_flag, topic)
    waits = waits_for_store(properties)
    properties[PROPERTY_CLUSTER] = broker.config.broker_cluster_name
    if not _make_special(broker, message, properties):
        properties.pop(PROPERTY_WAIT, None)  # applied, but not stored with a plain message (store-ha#14)
    message.properties = format_properties(properties)
    began = stopwatch.wall()
    result = broker.store.append(message)
    broker.stats.put_times.count(stopwatch.wall() - began)
    if result.is_stored and message.topic == names.SCHEDULE_TOPIC:
        broker.stats.items.count_schedule_put(message.queue_id, result.end_offset - result.physical_offset)
    return finish_send(broker, request, result, message.topic, queue_id, waits=waits, min_copies=min_copies)


def _stored_sys_flag(sys_flag: int, topic: TopicConfig) -> int:
    """Return a sysFlag, with MULTI_TAGS if the topic has this filter type.

    Source: SendMessageProcessor.handleRetryAndDLQ, asyncSendBatchMessage. Nothing in RocketMQ reads the bit to filter.
    """
    return sys_flag | MULTI_TAGS if topic.topic_filter_type == MULTI_TAG else sys_flag


def _make_special(broker: Broker, message: NewMessage, properties: dict[str, str]) -> bool:
    """Redirect a transactional or delayed message to the half or schedule topic.

    True if it was redirected.
    """
    is_half = properties.get(PROPERTY_TRAN_MSG, "").lower() == "true"
    if is_half and broker.config.reject_transaction_message:
        raise Refusal(ResponseCode.NO_PERMISSION, "this broker takes no transactional messages")
    _check_store(broker)
    if is_half:
        make_half(message, properties)
        if (
            PROPERTY_DELAY in properties
        ):  # dropped, as in RocketMQ: a delivered delayed message cannot be a half message
            delay(broker, message, properties)
        return True
    return PROPERTY_DELAY in properties and delay(broker, message, properties)


def _check_store(broker: Broker) -> None:
    """Raise Refusal while the store accepts no messages.

    Source: DefaultMessageStore.checkStoreStatus.
    """
    if (reason := broker.store.write_refused()) is not None:
        broker.stats.count_put_failure()
        raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, reason)


def make_half(message: NewMessage, properties: dict[str, str]) -> None:
    """Turn a message into the half message of a transaction (store-ha#71)."""
    properties[PROPERTY_REAL_TOPIC] = message.topic
    properties[PROPERTY_REAL_QID] = str(message.queue_id)
    message.topic = names.HALF_TOPIC
    message.queue_id = 0
    message.sys_flag &= ~TRANSACTION_MASK


def delay(broker: Broker, message: NewMessage, properties: dict[str, str]) -> bool:
    """Redirect a message with a delay level to the schedule topic (store-ha#74).

    Returns True if the message has a delay level. One that its sysFlag marks as prepared or as rolled back is not
    delayed (CommitLog.asyncPutMessage).
    """
    if message.sys_flag & TRANSACTION_MASK in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
        return False
    level, highest = java_number(properties[PROPERTY_DELAY]), len(broker.store.dispatcher.delay_millis)
    if level <= 0:
        return False
    if level > highest:
        level = highest
        properties[PROPERTY_DELAY] = str(level)
    properties[PROPERTY_REAL_TOPIC] = message.topic
    properties[PROPERTY_REAL_QID] = str(message.queue_id)
    message.topic = names.SCHEDULE_TOPIC
    message.queue_id = level - 1
    return True


def _retry_or_dead_letter(
    broker: Broker, header: CompleteSend, command: Command, message: NewMessage, topic: TopicConfig
) -> TopicConfig:
    """Send a retry that was tried often enough to the dead-letter topic.

    Returns the topic that the message has then. Source: broker-requests#22. Its delay stays: 4.9.8 clears the message's
    DELAY, and then overwrites the properties with the request's.
    """
    group_name = header.topic[len(names.RETRY_PREFIX) :]
    group = broker.subscriptions.find(group_name)
    if group is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group {group_name} does not exist")
    limit = group.retry_max_times
    if header.max_reconsume_times is not None and command.version >= OLDEST_WITH_MAX_RECONSUME_TIMES:
        limit = header.max_reconsume_times
    if message.reconsume_times < limit:
        return topic
    message.topic = names.DLQ_PREFIX + group_name
    message.queue_id = 0
    return broker.create_own_topic(message.topic, 1)


def _send_batch(
    broker: Broker, header: CompleteSend, request: Request, topic: TopicConfig, queue_id: int
) -> Reply | None:
    if header.sys_flag is None:
        raise HeaderError("a batch without its sysFlag")
    _check_store(broker)
    if not request.command.body:
        raise HeaderError("a batch without messages")
    if len(request.command.body) > broker.store.config.max_message_size:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"a batch of {len(request.command.body)} bytes is too large")
    properties = BatchProperties.of_plain_batch(
        header.properties or "", header.sys_flag, broker.config.broker_cluster_name
    )
    shared = NewMessage(
        topic=header.topic,
        queue_id=queue_id,
        body=b"",
        flag=0,
        sys_flag=_stored_sys_flag(header.sys_flag, topic),
        born_timestamp=header.born_timestamp,
        born_host=peer_address(request),
        store_host=broker.store_host,
        reconsume_times=header.reconsume_times or 0,
        properties=properties.stored,
    )
    batch = ReceivedBatch(request.command.body)
    min_copies = copies_demanded_by_batch(broker, properties.parsed, batch)
    began = stopwatch.wall()
    result = broker.store.append_batch(shared, batch)
    broker.stats.put_times.count(stopwatch.wall() - began)
    return finish_send(broker, request, result, shared.topic, queue_id, waits=properties.waits, min_copies=min_copies)


def finish_send(
    broker: Broker, request: Request, result: PutResult, topic: str, queue_id: int, *, waits: bool, min_copies: int
) -> Reply | None:
    """Reply to a send, or hold the reply until disk and slaves have the record."""
    if result.status is not PutStatus.PUT_OK:
        broker.stats.count_put_failure()
        return not_stored(broker, result.status, result.reason)
    size = result.end_offset - result.physical_offset
    broker.growth.appended(size)
    offsets = result.physical_offsets or (result.physical_offset,)
    broker.stats.count_put(topic, len(offsets), size)
    host = broker.store_host
    ids = offset_message_ids(*host, offsets)
    values = (ids, b"%d" % queue_id, b"%d" % result.queue_offset)
    head = stored_head(broker.config.region_id, trace_on=broker.config.trace_on)

    def answer(status: PutStatus, cause: str | None) -> None:
        code = STORED.get(status)
        if code is None:  # a DLedger group may undo it
            request.reply(not_stored(broker, status, cause))
        elif cause is None:
            request.reply_head(head, code, values)
        else:
            names = ("msgId", "queueId", "queueOffset")
            fields = dict(zip(names, map(bytes.decode, values), strict=True))
            request.reply(Reply(code, region_fields(broker) | fields, remark=cause))

    send = WaitingSend(answer)
    wait_for_store(broker, send, result, min_copies, is_asked=waits)
    if send.waits == 0:
        answer(send.status, send.cause)
    else:
        request.drop_content()
    return None


def not_stored(broker: Broker, status: PutStatus, cause: str | None) -> Reply:
    """Return the reply to a send whose message is not stored, or may be undone."""
    code = NOT_STORED.get(status, ResponseCode.SYSTEM_ERROR)
    return Reply(code, region_fields(broker), remark=cause or status.name)


def region_fields(broker: Broker) -> dict[str, str]:
    """Fields of every reply to a send, failures included (broker-requests#20)."""
    return {"MSG_REGION": broker.config.region_id, "TRACE_ON": "true" if broker.config.trace_on else "false"}


@functools.lru_cache(16)
def stored_head(region_id: str, *, trace_on: bool) -> ReplyHead:
    """Return the prepared reply to a stored send, without ids, queue and queue offset."""
    fields = {"MSG_REGION": region_id, "TRACE_ON": "true" if trace_on else "false"}
    return ReplyHead(fields, ["msgId", "queueId", "queueOffset"])


def peer_address(request: Request) -> tuple[str, int]:
    """Return the peer's address as stored in the record."""
    return _address(request.channel.peer)


@functools.lru_cache(4096)
def _address(peer: str) -> tuple[str, int]:
    host, _, port = peer.rpartition(":")
    return host, int(port)


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.SEND_MESSAGE, SendMessageRequestHeader, send_message),
    Route(RequestCode.SEND_MESSAGE_V2, SendMessageRequestHeaderV2, send_message),
    Route(RequestCode.SEND_BATCH_MESSAGE, SendMessageRequestHeaderV2, send_message),
]
