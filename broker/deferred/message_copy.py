"""Copies of stored messages, for those that are stored a second time.

These are delayed, handed back, committed and checked messages.
"""

from typing import Final

from rmqlab.remoting import names
from rmqlab.remoting.header import java_number
from rmqlab.remoting.message import (
    PROPERTY_REAL_QID,
    PROPERTY_REAL_TOPIC,
    NewMessage,
    RecordError,
    StoredMessage,
    format_properties,
)
from rmqlab.store.queue.queues import can_have_queues
from rmqlab.store.results import PutResult, PutStatus

FINAL: Final = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})
"""Statuses that judge the message, not the state of the store: the same message is refused again at any time."""


def copy_of(
    stored: StoredMessage, topic: str, queue_id: int, *, properties: dict[str, str] | None = None
) -> NewMessage:
    """Return a copy of a message for another queue.

    Body, flags, times, hosts and properties are kept.

    `properties` replaces its properties.
    """
    return NewMessage(
        topic=topic,
        queue_id=queue_id,
        body=stored.body,
        born_host=stored.born_host,
        store_host=stored.store_host,
        born_timestamp=stored.born_timestamp,
        flag=stored.flag,
        sys_flag=stored.sys_flag,
        reconsume_times=stored.reconsume_times,
        properties=stored.properties_text if properties is None else format_properties(properties),
    )


def destination(stored: StoredMessage) -> tuple[str, int]:
    """Return the real topic and queue id of a delayed or half message.

    RecordError if its properties lack them.

    Clients can choose these properties. The queue id may be negative or beyond the topic's queues, as in RocketMQ.
    """
    topic, queue_id = (stored.properties.get(name) for name in (PROPERTY_REAL_TOPIC, PROPERTY_REAL_QID))
    if topic is None or queue_id is None:
        raise RecordError("the message lacks the properties of its real topic and queue")
    try:
        return topic, java_number(queue_id)
    except ValueError:
        raise RecordError(f"the message is meant for queue {queue_id[:20]!r}, expected a 32-bit number") from None


def is_final(result: PutResult) -> bool:
    """True if the store will never accept this message.

    False if it accepted it, or may accept it later.
    """
    return result.status in FINAL


def can_be_topic(topic: str) -> bool:
    """True if the store can hold messages of this topic.

    The name has at most 127 bytes and is valid as the name of a directory.
    """
    return can_have_queues(topic) and len(topic.encode()) <= names.MAX_TOPIC_LENGTH
