"""Messages of applications, and the results of sends."""

import enum
import logging
from collections.abc import Collection, Mapping

import attrs

from rmqlab.client.namespace import without_namespace
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.compression import MAX_INFLATED, DecompressionError, decompress_body
from rmqlab.remoting.message import (
    PROPERTY_DELAY,
    PROPERTY_KEYS,
    PROPERTY_RETRY_TOPIC,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    PROPERTY_WAIT,
    RecordError,
    StoredMessage,
    decode_messages,
)
from rmqlab.remoting.min_copies import MAX_MIN_COPIES, PROPERTY_MIN_COPIES
from rmqlab.remoting.names import RETRY_PREFIX
from rmqlab.runtime.config.validators import shown, within

log = logging.getLogger(__name__)


class SendStatus(enum.Enum):
    """State of a stored message at the broker's reply (store-and-ha section 3.8)."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


def _keys(value: str | Collection[str] | None) -> str:
    if value is None:
        return ""
    if not isinstance(value, Collection) or not all(isinstance(key, str) for key in value):
        raise TypeError(f"keys = {shown(value)}: expected a text, or several")
    return value if isinstance(value, str) else " ".join(value)


def _body(value: bytes | bytearray | memoryview) -> bytes:
    """Return the bytes of any buffer, also of other packages.

    A value without bytes is returned as it is, and rejected when it is sent.
    """
    if value.__class__ is bytes:
        return value
    try:
        return memoryview(value).tobytes()
    except TypeError:
        return value  # type: ignore[return-value]


def _tags(value: str | None) -> str:
    return "" if value is None else value


def _properties(value: Mapping[str, str] | None) -> Mapping[str, str]:
    return {} if value is None else value


@attrs.frozen(kw_only=True)
class Message:
    """One message to send.

    `body` is any buffer, copied unless it is bytes. `tags`, `keys` and `properties` may be None for none. `keys` may be
    several; they are indexed one by one.
    """

    topic: str
    body: bytes = attrs.field(converter=_body)
    tags: str = attrs.field(default="", converter=_tags)
    keys: str = attrs.field(default="", converter=_keys)
    properties: Mapping[str, str] = attrs.field(factory=dict, converter=_properties)
    flag: int = 0
    """A number of the application. RocketMQ stores it without using it."""
    delay_level: int = 0
    """1 to 18: 1s 5s 10s 30s 1m .. 10m 20m 30m 1h 2h. 0 delivers at once."""
    wait_store_ok: bool = True
    """False: the broker replies SEND_OK without waiting for the disk or the slave."""
    min_copies: int = attrs.field(default=0, validator=within(0, MAX_MIN_COPIES))
    """Logs that must have the message before it is SEND_OK, the master's included; 0: as the broker is configured.

    A broker obeys it with the switch `obey_min_copies`. Other brokers, also RocketMQ's, store and ignore the property.
    """

    def wire_properties(self, unique_id: str | None) -> dict[str, str]:
        """Return all properties as stored.

        RocketMQ's reserved names override the application's.
        """
        properties = dict(self.properties)
        if self.keys:
            properties[PROPERTY_KEYS] = self.keys
        if self.tags:
            properties[PROPERTY_TAGS] = self.tags
        if self.delay_level > 0:
            properties[PROPERTY_DELAY] = str(self.delay_level)
        if unique_id:
            properties[PROPERTY_UNIQ_KEY] = unique_id
        if self.min_copies:
            properties[PROPERTY_MIN_COPIES] = str(self.min_copies)
        properties[PROPERTY_WAIT] = "true" if self.wait_store_ok else "false"
        return properties


@attrs.frozen(kw_only=True)
class SendResult:
    """A message that is stored.

    For a batch, ids are joined by commas and the offset is that of the first.
    """

    status: SendStatus
    message_id: str
    """The unique id that the client gave it; it survives retries and redelivery."""
    offset_message_id: str
    """The offset message id: address and commit log offset."""
    queue: MessageQueue
    queue_offset: int
    attempts: int = 1
    """Number of requests of the send."""
    remark: str | None = None
    """The broker's remark: why no slave has the message, with rmqlab's switches on."""


@attrs.frozen(kw_only=True)
class Attempt:
    """One request of a send to one broker, and its outcome."""

    number: int
    topic: str
    message_id: str
    broker_name: str
    address: str | None
    """None where no master was known."""
    began_at: float
    """Seconds of the process's clock."""
    took: float
    status: SendStatus | None = None
    code: int | None = None
    """The response code of a refusal."""
    error: str | None = None
    is_indeterminate: bool = False
    """True if the request was written and got no reply: it may have been served."""


@attrs.define(slots=True, eq=False)
class ReceivedMessage:
    """One message as consumers get it.

    `topic` is the original one, also after a retry.
    """

    topic: str
    body: bytes
    queue: MessageQueue
    queue_offset: int
    stored: StoredMessage
    """The record as the broker keeps it."""
    from_broker_id: int | None = None
    """Broker id that a push consumer pulled it from: 0 for the master."""

    @property
    def properties(self) -> dict[str, str]:
        return self.stored.properties

    @property
    def tags(self) -> str:
        return self.stored.properties.get(PROPERTY_TAGS, "")

    @property
    def keys(self) -> str:
        return self.stored.properties.get(PROPERTY_KEYS, "")

    @property
    def message_id(self) -> str:
        """The unique id; the offset message id for a message without one."""
        return self.stored.properties.get(PROPERTY_UNIQ_KEY) or self.stored.offset_message_id

    @property
    def offset_message_id(self) -> str:
        return self.stored.offset_message_id

    @property
    def reconsume_times(self) -> int:
        return self.stored.reconsume_times

    @property
    def born_timestamp(self) -> int:
        return self.stored.born_timestamp

    @property
    def store_timestamp(self) -> int:
        return self.stored.store_timestamp


MAX_UNWANTED = 1024
"""Messages in a response that are accepted, though fewer were requested."""
MAX_INFLATED_TOGETHER = 128 * 2**20
"""Bytes of decompressed bodies of one pull response, and of those decompressed in vain."""


def received(
    stored: StoredMessage, broker_name: str, namespace: str | None = None, limit: int = MAX_INFLATED
) -> ReceivedMessage:
    """Convert a record to the message that applications get.

    Its topic is the application's name, its queue the wire's.

    A body that cannot be decompressed, or has more bytes than the limit, is passed on as it is stored: one message must
    not block its queue.
    """
    return _received(stored, _plain_body(stored, limit)[0], broker_name, namespace)


def _received(stored: StoredMessage, body: bytes, broker_name: str, namespace: str | None) -> ReceivedMessage:
    queue = MessageQueue(topic=stored.topic, broker_name=broker_name, queue_id=stored.queue_id)
    return ReceivedMessage(without_namespace(namespace, _topic_of(stored)), body, queue, stored.queue_offset, stored)


def _topic_of(stored: StoredMessage) -> str:
    is_retry = stored.topic.startswith(RETRY_PREFIX)
    return stored.properties.get(PROPERTY_RETRY_TOPIC, stored.topic) if is_retry else stored.topic


def _plain_body(stored: StoredMessage, limit: int) -> tuple[bytes, int]:
    """Return the body, and the bytes that were decompressed for it or in vain."""
    try:
        body = decompress_body(stored.body, stored.sys_flag, limit)
    except RecordError as exc:
        where = stored.offset_message_id, _topic_of(stored)
        log.warning("message %s of %s is passed on as it is stored: %s", *where, exc)
        return stored.body, exc.inflated if isinstance(exc, DecompressionError) else 0
    return body, len(body)


def received_all(
    records: bytes, broker_name: str, namespace: str | None = None, *, wanted: int = 0
) -> list[ReceivedMessage]:
    """Read the body of a pull response.

    RecordError for more messages than were wanted: a frame has room for 180,000, which take 300 MB of memory.
    """
    messages, left, most = list[ReceivedMessage](), MAX_INFLATED_TOGETHER, max(wanted, MAX_UNWANTED)
    for stored in decode_messages(records):
        if len(messages) == most:
            raise RecordError(f"more than {most} messages: {wanted} were requested")
        body, inflated = _plain_body(stored, min(left, MAX_INFLATED))
        left = max(left - inflated, 0)
        messages.append(_received(stored, body, broker_name, namespace))
    return messages
