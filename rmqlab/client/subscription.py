"""A group's subscription to a topic: tags or SQL92 (class FilterAPI). Pure.

An SQL92 expression is over the properties of messages.
"""

from collections.abc import Iterable, Mapping

import attrs

from rmqlab.client.message import ReceivedMessage
from rmqlab.remoting.bodies.heartbeat import SubscriptionData

ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"


def _not_blank(_instance: object, _attribute: object, value: str) -> None:
    if not value.strip():
        raise ValueError("the SQL92 expression is empty")


@attrs.frozen
class Sql:
    """An SQL92 filter of messages, such as `a > 5 AND region IS NOT NULL`.

    Brokers evaluate it on the properties of messages. They must allow it (`enable_property_filter`).
    """

    expression: str = attrs.field(validator=_not_blank)


Expression = str | Sql
"""`*`, tags such as `A || B`, or Sql."""


def subscription(topic: str, expression: Expression, *, version: int) -> SubscriptionData:
    """Return the subscription for heartbeats and pulls.

    `A || B` are tags; `*` or empty text means all.

    Brokers use the version, in milliseconds, to find the newer of two subscriptions.
    """
    if isinstance(expression, Sql):
        return SubscriptionData(
            topic=topic, sub_string=expression.expression, expression_type=SQL92, sub_version=version
        )
    return SubscriptionData(topic=topic, sub_string=expression or ALL, sub_version=version)


def subscriptions(topics: Mapping[str, Expression], *, version: int) -> dict[str, SubscriptionData]:
    """Make the subscriptions of a consumer, by topic."""
    return {topic: subscription(topic, expression, version=version) for topic, expression in topics.items()}


def needing_check(data: Iterable[SubscriptionData]) -> list[SubscriptionData]:
    """Return the subscriptions that a broker must check before use (request 46)."""
    return [item for item in data if item.expression_type != TAG]


def matching(messages: list[ReceivedMessage], data: SubscriptionData) -> list[ReceivedMessage]:
    """Return the messages whose tags match, because two tags can share a hash.

    Brokers filter by the hash only (broker-requests section 2.3).
    """
    if not data.tags_set or data.expression_type != TAG:
        return messages
    tags = set(data.tags_set)
    return [message for message in messages if message.tags in tags]
