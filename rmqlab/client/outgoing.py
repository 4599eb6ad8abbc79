"""From a message to the request that carries it. Pure.

Sources: broker-requests sections 1.1, 1.5, 1.6; classes Validators, DefaultMQProducerImpl, MessageBatch.
"""

import zlib
from collections.abc import Mapping, Sequence

import attrs

from rmqlab.client.config import ProducerConfig
from rmqlab.client.errors import RefusedError
from rmqlab.client.message import Message, SendStatus
from rmqlab.remoting.batch import BatchItem, encode_batch
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.contentcrc import content_crc
from rmqlab.remoting.header import FALSE, JavaBoolean
from rmqlab.remoting.headers.send import SendMessageRequestHeaderV2
from rmqlab.remoting.message import (
    COMPRESSED,
    COMPRESSION_ZLIB,
    PROPERTY_KEYS,
    PROPERTY_MAX_RECONSUME_TIMES,
    PROPERTY_MSG_TYPE,
    PROPERTY_RECONSUME_TIME,
    PROPERTY_TAGS,
    PROPERTY_TRAN_MSG,
    PROPERTY_UNIQ_KEY,
    PROPERTY_WAIT,
    TRANSACTION_PREPARED,
    body_crc,
    format_properties,
    parse_properties,
)
from rmqlab.remoting.names import NO_SEND_TOPICS, RETRY_PREFIX, topic_fault
from rmqlab.runtime.config.validators import INT32
from rmqlab.runtime.config.valuetypes import check_value, plain

STATUSES = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}
"""Response codes that mean: stored."""

RETRY_CODES = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    }
)
"""Refusals after which another broker is tried (broker-requests section 1.9). SYSTEM_BUSY is not among them."""


INT16 = 2**15 - 1

REPLY = "reply"
"""MSG_TYPE of a reply message, which is sent with a request code of its own."""


@attrs.frozen(kw_only=True)
class Outgoing:
    """A message or batch that can be sent to any queue of its topic, repeatedly."""

    topic: str
    message_id: str
    """The unique id; of a batch all ids, joined by commas."""
    body: bytes
    properties: str
    sys_flag: int = 0
    flag: int = 0
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    is_batch: bool = False
    is_reply: bool = False

    @property
    def code(self) -> RequestCode:
        if self.is_reply:
            return RequestCode.SEND_REPLY_MESSAGE_V2
        return RequestCode.SEND_BATCH_MESSAGE if self.is_batch else RequestCode.SEND_MESSAGE_V2

    def header(
        self, group: str, queue: MessageQueue, config: ProducerConfig, born_timestamp: int
    ) -> SendMessageRequestHeaderV2:
        """Address it to one queue."""
        return SendMessageRequestHeaderV2(
            producer_group=group,
            topic=self.topic,
            default_topic=config.create_topic_key,
            default_topic_queue_nums=config.default_topic_queue_nums,
            queue_id=queue.queue_id,
            sys_flag=self.sys_flag,
            born_timestamp=born_timestamp,
            flag=self.flag,
            properties=self.properties,
            reconsume_times=self.reconsume_times,
            unit_mode=FALSE,
            max_reconsume_times=self.max_reconsume_times,
            batch=JavaBoolean(self.is_batch),
        )


def prepare(message: Message, unique_id: str, config: ProducerConfig) -> Outgoing:
    """Validate a message, compress a large body.

    RefusedError if no broker would accept it.
    """
    check(message, config)
    body, sys_flag = _compressed(message.body, config)
    if message.properties.get(PROPERTY_TRAN_MSG) == "true":
        sys_flag |= TRANSACTION_PREPARED
    unique_id = message.properties.get(PROPERTY_UNIQ_KEY) or unique_id  # a message that is sent back keeps its own
    properties = message.wire_properties(unique_id)
    times = max_times = None
    if message.topic.startswith(RETRY_PREFIX):  # a consumer sends a message back through it
        times = properties.get(PROPERTY_RECONSUME_TIME)
        max_times = properties.get(PROPERTY_MAX_RECONSUME_TIMES)
        if times is not None and PROPERTY_WAIT not in message.properties:
            del properties[PROPERTY_WAIT]  # Java's copy has the properties of the message, as brokers store them
    return Outgoing(
        topic=message.topic,
        message_id=unique_id,
        body=body,
        properties=_encodable(format_properties(properties)),
        sys_flag=sys_flag,
        flag=plain(message.flag, int),
        reconsume_times=int(times or 0),
        max_reconsume_times=None if max_times is None else int(max_times),
        is_reply=properties.get(PROPERTY_MSG_TYPE) == REPLY,
    )


def _compressed(body: bytes, config: ProducerConfig) -> tuple[bytes, int]:
    """Return a body as it is sent, and the bits of its compression."""
    if len(body) < config.compress_over:
        return body, 0
    return zlib.compress(body, config.compress_level), COMPRESSED | COMPRESSION_ZLIB


def sent_header(message: Message, config: ProducerConfig, *, is_half: bool = False) -> dict[str, int]:
    """Return `crc` and `sys_flag` of a send, as a broker must store them.

    `crc` is the `content_crc` of the record. `is_half` is True for a half message, whose sysFlag says so.
    """
    body, sys_flag = _compressed(message.body, config)
    properties = parse_properties(format_properties(message.wire_properties(unique_id=None)))  # as brokers read them
    keys, tags = (properties.get(name, "") for name in (PROPERTY_KEYS, PROPERTY_TAGS))
    crc = content_crc(body_crc(body), message.flag, keys, tags)
    is_prepared = is_half or message.properties.get(PROPERTY_TRAN_MSG) == "true"
    return {"crc": crc, "sys_flag": sys_flag | (TRANSACTION_PREPARED if is_prepared else 0)}


def prepare_batch(messages: Sequence[Message], unique_ids: Sequence[str], config: ProducerConfig) -> Outgoing:
    """Put messages into one request, all stored or none.

    RefusedError if they cannot be in one batch.

    A message that has a unique id keeps it, as Java's client does (class MessageClientIDSetter).
    """
    if not messages:
        raise ValueError("messages is empty: expected at least one message")
    first = messages[0]
    for message in messages:
        check(message, config)
        if message.topic != first.topic or message.wait_store_ok != first.wait_store_ok:
            raise _illegal("the messages of a batch share one topic and one wait_store_ok")
        if message.delay_level > 0:
            raise _illegal("a delayed message cannot be part of a batch")
    if first.topic.startswith(RETRY_PREFIX):
        raise _illegal("a retry topic does not accept batches")
    unique_ids = [
        message.properties.get(PROPERTY_UNIQ_KEY) or unique_id
        for message, unique_id in zip(messages, unique_ids, strict=True)
    ]
    items = [
        BatchItem(message.body, _batch_properties(message.wire_properties(unique_id)), message.flag)
        for message, unique_id in zip(messages, unique_ids, strict=True)
    ]
    body = encode_batch(items)
    if len(body) > config.max_message_size:
        raise _illegal(f"the batch is {len(body)} bytes long, at most {config.max_message_size} are allowed")
    wait = {PROPERTY_WAIT: "true" if first.wait_store_ok else "false"}
    return Outgoing(
        topic=first.topic,
        message_id=",".join(unique_ids),
        body=body,
        properties=format_properties(wait),
        is_batch=True,
    )


def _encodable(properties: str) -> str:
    """Return the text. RefusedError if UTF-8 cannot encode it.

    Otherwise it would fail where the request is written.
    """
    try:
        if not properties.isascii():
            properties.encode()
    except UnicodeEncodeError as exc:
        raise _illegal(f"a property has the character {exc.object[exc.start]!r}, which UTF-8 cannot encode") from None
    return properties


def _batch_properties(properties: Mapping[str, str]) -> bytes:
    text = _encodable(format_properties(properties)).encode()
    if len(text) > INT16:
        raise _illegal(f"the properties are {len(text)} bytes long, at most {INT16} are allowed")
    return text


def _check_types(message: Message) -> None:
    """Check with `check_value` only what is wrong: each send takes this time."""
    if not isinstance(message, Message):
        check_value("message", message, Message)
    if not (isinstance(message.body, bytes) and isinstance(message.topic, str) and isinstance(message.tags, str)):
        for name in ("topic", "body", "tags"):
            check_value(name, getattr(message, name), str if name != "body" else bytes)
    properties = message.properties
    if properties and not (properties.__class__ is dict and _are_texts(properties)):
        check_value("properties", properties, Mapping[str, str])
    if not (message.delay_level.__class__ is int and message.flag.__class__ is int):
        for name in ("delay_level", "flag"):
            check_value(name, getattr(message, name), int)


def _are_texts(properties: Mapping[str, str]) -> bool:
    return all(isinstance(name, str) and isinstance(value, str) for name, value in properties.items())


def check(message: Message, config: ProducerConfig) -> None:
    """Reject messages that every broker would reject, empty ones, contradictions.

    Java's client rejects empty bodies; brokers accept them. TypeError for a value of a wrong type.
    """
    _check_types(message)
    if (fault := topic_fault(message.topic)) is not None:
        raise _illegal(fault)
    if message.topic in NO_SEND_TOPICS:
        raise _illegal(f"topic {message.topic} does not accept messages from clients")
    if not message.body:
        raise _illegal("the body is empty")
    if not -INT32 - 1 <= message.flag <= INT32:
        raise _illegal(f"flag {message.flag} has more than 32 bits")
    if message.min_copies and not message.wait_store_ok:
        raise _illegal("min_copies makes the broker wait, and wait_store_ok=False forbids it")
    if len(message.body) > config.max_message_size:
        raise _illegal(f"the body is {len(message.body)} bytes long, at most {config.max_message_size} are allowed")


def _illegal(reason: str) -> RefusedError:
    return RefusedError(reason, code=ResponseCode.MESSAGE_ILLEGAL, remark=reason)
