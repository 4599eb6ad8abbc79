"""Redirects of new messages to the half topic and to the schedule topic.

The real topic and queue id go into properties, from which `message_copy.destination` reads them when the message is
stored a second time (store-and-ha sections 7.1, 7.2).
"""

from rmqlab.broker.deferred.halfmessages import HALF_QUEUE
from rmqlab.remoting import names
from rmqlab.remoting.header import java_number
from rmqlab.remoting.message import (
    PROPERTY_DELAY,
    PROPERTY_REAL_QID,
    PROPERTY_REAL_TOPIC,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    NewMessage,
)
from rmqlab.store.messagestore import MessageStore


def redirect_half(message: NewMessage, properties: dict[str, str]) -> None:
    """Redirect the half message of a transaction to the half topic (store-ha#71).

    `properties` are those of the message; the caller formats them into it.
    """
    _redirect(message, properties, names.HALF_TOPIC, HALF_QUEUE)
    message.sys_flag &= ~TRANSACTION_MASK


def redirect_delayed(store: MessageStore, message: NewMessage, properties: dict[str, str]) -> bool:
    """Redirect a message with a delay level to the schedule topic (store-ha#74).

    Returns True if it was redirected. A message that its sysFlag marks as prepared or as rolled back is not delayed
    (CommitLog.asyncPutMessage). `properties` as in `redirect_half`, with a DELAY; a level that is too high becomes the
    highest. ValueError for a level that is not a number.
    """
    if message.sys_flag & TRANSACTION_MASK in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
        return False
    level, highest = java_number(properties[PROPERTY_DELAY]), len(store.dispatcher.entries.delay_millis)
    if level <= 0:
        return False
    if level > highest:
        level = highest
        properties[PROPERTY_DELAY] = str(level)
    _redirect(message, properties, names.SCHEDULE_TOPIC, level - 1)
    return True


def _redirect(message: NewMessage, properties: dict[str, str], topic: str, queue_id: int) -> None:
    properties[PROPERTY_REAL_TOPIC] = message.topic
    properties[PROPERTY_REAL_QID] = str(message.queue_id)
    message.topic = topic
    message.queue_id = queue_id
