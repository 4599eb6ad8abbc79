"""Selects the user's topics, and makes the error for an unknown topic."""

import itertools
from collections.abc import Iterable

from rmqlab.cluster.operate.errors import UnknownNameError, unknown
from rmqlab.cluster.operate.session import Operator
from rmqlab.remoting.bodies.route import BrokerData
from rmqlab.remoting.names import DLQ_PREFIX, REPLY_TOPIC_SUFFIX, RETRY_PREFIX, is_system_topic

_PREFIXES = (RETRY_PREFIX, DLQ_PREFIX)


async def unknown_topic(operator: Operator, topic: str, *listed: Iterable[str]) -> UnknownNameError:
    """Return the error for an unknown topic.

    It has the near miss, or else some of the user's topics among the listed ones.
    """
    system = {name for data in await operator.brokers() for name in topics_of_broker(data)}
    return unknown("topic", topic, users_topics({*itertools.chain(*listed)} - system, topic))


def topics_of_broker(data: BrokerData) -> set[str]:
    """Return the topics that a broker makes of its name and of its cluster's."""
    cluster = data.cluster or ""
    return {data.broker_name, cluster, cluster + REPLY_TOPIC_SUFFIX}


def users_topics(topics: Iterable[str], topic: str) -> list[str]:
    """Return the topics that a user can mean by `topic`.

    RocketMQ's own are left out, and retry and dead-letter topics, unless one of these was given.
    """
    hidden = () if topic.startswith(_PREFIXES) else _PREFIXES
    return [one for one in topics if not one.startswith(hidden) and not is_system_topic(one)]
