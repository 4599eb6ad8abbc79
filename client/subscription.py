"""What a group wants of a topic: an expression, and the tags that it names (class FilterAPI). Pure."""

from collections.abc import Mapping

from client.message import ReceivedMessage
from remoting.bodies.heartbeat import SubscriptionData

ALL = "*"
TAG = "TAG"


def subscriptions(topics: Mapping[str, str], *, version: int) -> dict[str, SubscriptionData]:
    """Make the values that heartbeats and pulls carry. `A || B` names tags; `*` or nothing means all.

    The version, in milliseconds, tells a broker which of two subscriptions is the newer.
    """
    return {
        topic: SubscriptionData(topic=topic, sub_string=expression or ALL, sub_version=version)
        for topic, expression in topics.items()
    }


def wanted(messages: list[ReceivedMessage], data: SubscriptionData) -> list[ReceivedMessage]:
    """Drop what the broker let through because two tags share a hash (broker-requests section 2.3)."""
    if not data.tags_set or data.expression_type != TAG:
        return messages
    tags = set(data.tags_set)
    return [message for message in messages if message.tags in tags]
