"""A checksum of what a producer sends of a message and no broker changes."""

import zlib

from rmqlab.remoting.names import NO_SEND_TOPICS, RESENT_PREFIXES, SCHEDULE_TOPIC


def content_crc(body_crc: int, flag: int, keys: str, tags: str) -> int:
    """Return the CRC-32 of a message's content.

    `body_crc` is that of the body as stored, without its sign bit (store-ha#9). Brokers change or add other properties,
    such as the delay level and the original topic.
    """
    return zlib.crc32(f"{body_crc} {flag} {keys}\x01{tags}".encode("utf-8", "replace"))


def keeps_content(topic: str, real_topic: str) -> bool:
    """Return True if a record of this topic has the content that its producer sent.

    `real_topic` is the final topic of a delayed message. Consumers that send messages back compress them again (class
    DefaultMQPushConsumerImpl). A half message that is stored again has flag 0 (TransactionalMessageBridge).
    """
    if topic == SCHEDULE_TOPIC:
        topic = real_topic
    return not topic.startswith(RESENT_PREFIXES) and topic not in NO_SEND_TOPICS
