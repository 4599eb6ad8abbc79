"""SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE (class SendMessageProcessor).

One handler serves all three codes: the header's `batch` marks a batch, not the code (broker-requests#11).
"""

import functools

from rmqlab.broker.deferred.redirect import redirect_delayed, redirect_half
from rmqlab.broker.handlers.batchproperties import BatchProperties
from rmqlab.broker.handlers.copies import (
    copies_demanded_by_batch,
    demanded_copies,
    wait_for_store,
    waits_for_store,
)
from rmqlab.broker.handlers.retry import retry_limit
from rmqlab.broker.handlers.sendchecks import (
    check_complete,
    check_properties,
    check_send,
    check_store,
    chosen_queue,
)
from rmqlab.broker.state import Broker
from rmqlab.broker.waits.pending_acks import WaitingSend
from rmqlab.remoting import names
from rmqlab.remoting.batch import ReceivedBatch
from rmqlab.remoting.bodies.topic import MULTI_TAG, TopicConfig
from rmqlab.remoting.codec import ReplyHead
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.header import HeaderError
from rmqlab.remoting.headers.send import CompleteSend, SendMessageRequestHeader, SendMessageRequestHeaderV2
from rmqlab.remoting.message import (
    MULTI_TAGS,
    PROPERTY_CLUSTER,
    PROPERTY_DELAY,
    PROPERTY_TRAN_MSG,
    PROPERTY_WAIT,
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
    if not _redirect(broker, message, properties):
        properties.pop(PROPERTY_WAIT, None)  # applied, but not stored with a plain message (store-ha#14)
    message.properties = format_properties(properties)
    check_properties(message)
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


def _redirect(broker: Broker, message: NewMessage, properties: dict[str, str]) -> bool:
    """Redirect a transactional or delayed message to the half or schedule topic.

    Returns True if it was redirected. Refusal if the broker takes no transactional messages, or no messages now.
    """
    is_half = properties.get(PROPERTY_TRAN_MSG, "").lower() == "true"
    if is_half and broker.config.reject_transaction_message:
        raise Refusal(ResponseCode.NO_PERMISSION, "this broker takes no transactional messages")
    check_store(broker)
    if is_half:
        redirect_half(message, properties)
    # A delayed half message is lost, as in RocketMQ: a delivered message cannot be a half message.
    is_delayed = PROPERTY_DELAY in properties and redirect_delayed(broker.store, message, properties)
    return is_half or is_delayed


def _retry_or_dead_letter(
    broker: Broker, header: CompleteSend, command: Command, message: NewMessage, topic: TopicConfig
) -> TopicConfig:
    """Send a retry that was tried often enough to the dead-letter topic.

    Returns the topic that the message has then. Source: broker-requests#22. Its delay stays: 4.9.8 clears the message's
    DELAY, and then overwrites the properties with the request's.
    """
    group_name = header.topic[len(names.RETRY_PREFIX) :]
    group = broker.subscriptions.require(group_name)
    if message.reconsume_times < retry_limit(group, header.max_reconsume_times, command.version):
        return topic
    message.topic = names.DLQ_PREFIX + group_name
    message.queue_id = 0
    return broker.create_own_topic(message.topic, 1)


def _send_batch(
    broker: Broker, header: CompleteSend, request: Request, topic: TopicConfig, queue_id: int
) -> Reply | None:
    if header.sys_flag is None:
        raise HeaderError("a batch without its sysFlag")
    check_store(broker)
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

    def send_reply(status: PutStatus, cause: str | None) -> None:
        code = STORED.get(status)
        if code is None:  # a DLedger group may undo it
            request.reply(not_stored(broker, status, cause))
        elif cause is None:
            request.reply_head(head, code, values)
        else:
            names = ("msgId", "queueId", "queueOffset")
            fields = dict(zip(names, map(bytes.decode, values), strict=True))
            request.reply(Reply(code, region_fields(broker) | fields, remark=cause))

    send = WaitingSend(send_reply)
    wait_for_store(broker, send, result, min_copies, is_asked=waits)
    if send.waits == 0:
        send_reply(send.status, send.cause)
    else:
        request.drop_content()
    return None


def not_stored(broker: Broker, status: PutStatus, cause: str | None) -> Reply:
    """Return the reply to a send whose message is not stored, or may be undone."""
    code = NOT_STORED.get(status, ResponseCode.SYSTEM_ERROR)
    return Reply(code, region_fields(broker), remark=cause or status.name)


def region_fields(broker: Broker) -> dict[str, str]:
    """Return the fields of every reply to a send, also a failed one.

    Source: broker-requests#20.
    """
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
