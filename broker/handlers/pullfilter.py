"""The filter of a pull: its own expression, or that of its group's heartbeat.

Checks run in RocketMQ's order, because the first that fails decides the reply (broker-requests section 2.2; classes
PullMessageProcessor, ClientManageProcessor).
"""

from rmqlab.broker.filter.lexer import FilterError
from rmqlab.broker.filter.message_filter import (
    EVERYTHING,
    MessageFilter,
    filter_by_expression,
    filter_by_properties,
    filter_by_subscription,
    filter_by_tags,
    filter_of_retries,
)
from rmqlab.broker.filter.table import is_tag_type
from rmqlab.broker.state import Broker
from rmqlab.remoting.bodies.heartbeat import SubscriptionData
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.header import HeaderError
from rmqlab.remoting.headers.pull import SUBSCRIPTION, PullMessageRequestHeader
from rmqlab.remoting.names import RETRY_PREFIX
from rmqlab.runtime.net.dispatch import Refusal


def filter_of_pull(broker: Broker, header: PullMessageRequestHeader) -> MessageFilter:
    """Return the filter of a pull.

    Refusal if the expression is missing, stale, invalid, or of a type that the broker does not support. HeaderError for
    a header without the version of its subscription.
    """
    find = _filter_of_expression if header.sys_flag & SUBSCRIPTION else _filter_of_heartbeat
    message_filter = find(broker, header)
    if broker.config.filter_support_retry and header.topic.startswith(RETRY_PREFIX):
        return filter_of_retries(broker.filters, header.topic, message_filter)
    return message_filter


def check_expression_type(broker: Broker, expression_type: str | None) -> None:
    """Raise Refusal for expressions other than tags, without `enable_property_filter`."""
    if not is_tag_type(expression_type) and not broker.config.enable_property_filter:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"The broker does not support consumer to filter message by {expression_type}"
        )


def _filter_of_expression(broker: Broker, header: PullMessageRequestHeader) -> MessageFilter:
    """Parse the expression that a pull carries.

    4.9.8 intends to reject invalid tag expressions, but with a disabled assertion, so it accepts all.
    """
    check_expression_type(broker, header.expression_type)
    try:
        if is_tag_type(header.expression_type):
            return filter_by_tags(header.subscription)
        return filter_by_properties(header.expression_type or "", header.subscription or "")
    except FilterError as exc:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {exc}"
        ) from None


def _filter_of_heartbeat(broker: Broker, header: PullMessageRequestHeader) -> MessageFilter:
    subscription = _subscription_of_heartbeat(broker, header)
    if subscription.class_filter_mode:
        message_filter = EVERYTHING
    elif is_tag_type(subscription.expression_type):
        message_filter = filter_by_subscription(subscription)
    else:
        message_filter = _filter_as_registered(broker, header)
    check_expression_type(broker, subscription.expression_type)
    return message_filter


def _subscription_of_heartbeat(broker: Broker, header: PullMessageRequestHeader) -> SubscriptionData:
    """Return the group's subscription to the topic, unless it is older than the pull."""
    group = broker.consumers.groups.get(header.consumer_group)
    if group is None:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_NOT_EXIST, f"group {header.consumer_group} has no consumer here by heartbeat"
        )
    group_config = broker.subscriptions.find(header.consumer_group)
    if group.message_model == "BROADCASTING" and group_config and not group_config.consume_broadcast_enable:
        raise Refusal(ResponseCode.NO_PERMISSION, f"group {header.consumer_group} may not broadcast")
    subscription = group.subscriptions.get(header.topic)
    if subscription is None:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"group {header.consumer_group} does not subscribe to {header.topic} by heartbeat",
        )
    if header.sub_version is None:
        raise HeaderError("subVersion is missing")
    if subscription.sub_version < header.sub_version:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_NOT_LATEST,
            f"the heartbeat of group {header.consumer_group} is older than this pull",
        )
    return subscription


def _filter_as_registered(broker: Broker, header: PullMessageRequestHeader) -> MessageFilter:
    data = broker.filters.find(header.topic, header.consumer_group)
    if data is None:
        raise Refusal(
            ResponseCode.FILTER_DATA_NOT_EXIST,
            f"group {header.consumer_group} has no filter for {header.topic} here; its expression may be wrong",
        )
    if data.client_version < (header.sub_version or 0):
        raise Refusal(
            ResponseCode.FILTER_DATA_NOT_LATEST, f"the filter of group {header.consumer_group} is older than this pull"
        )
    return filter_by_expression(data)
