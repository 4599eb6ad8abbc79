"""Filter of one pull: by tags code, by properties, or everything.

The tags code is that of the queue entry, the properties are those of the record. Classes ExpressionMessageFilter,
ExpressionForRetryMessageFilter.
"""

from collections.abc import Callable, Mapping

import attrs

from rmqlab.broker.filter.lexer import FilterError
from rmqlab.broker.filter.sql92 import Matches
from rmqlab.broker.filter.table import ConsumerFilterTable, compiled
from rmqlab.remoting.bodies.filter import ConsumerFilterData
from rmqlab.remoting.bodies.heartbeat import MAX_TAGS, SubscriptionData
from rmqlab.remoting.message import java_hash
from rmqlab.remoting.names import RETRY_PREFIX


@attrs.frozen
class MessageFilter:
    """Two filters; a message must pass both. None passes all messages."""

    by_code: Callable[[int], bool] | None = None
    by_properties: Matches | None = None


EVERYTHING = MessageFilter()


def filter_by_tags(expression: str | None) -> MessageFilter:
    """Make the filter of a tag expression such as `TagA || TagB` (FilterAPI).

    FilterError if it has only bars or more than MAX_TAGS tags. An expression of blanks has no tags and matches nothing.
    """
    if expression in (None, "", "*"):
        return EVERYTHING
    if expression.count("||") >= MAX_TAGS:
        raise FilterError(f"more than {MAX_TAGS} tags")
    parts = expression.split("||")
    if not any(parts):
        raise FilterError(f"{expression}: there is no tag between the bars")
    codes = {java_hash(part.strip()) for part in parts if part.strip()}
    return MessageFilter(by_code=codes.__contains__)


def filter_by_subscription(data: SubscriptionData) -> MessageFilter:
    """Return the filter of a heartbeat's tags.

    Its tag codes count, not its text, unless the text selects all tags.
    """
    if data.sub_string in ("", "*"):
        return EVERYTHING
    return MessageFilter(by_code=frozenset(data.code_set).__contains__)


def filter_by_expression(data: ConsumerFilterData) -> MessageFilter:
    """Make the filter of a registered expression.

    An expression that does not compile, from a loaded file, passes all messages.
    """
    try:
        return MessageFilter(by_properties=compiled(data.expression_type, data.expression))
    except FilterError:
        return EVERYTHING


def filter_of_retries(table: ConsumerFilterTable, retry_topic: str, by_tags: MessageFilter) -> MessageFilter:
    """Return a filter of retries by the expressions for their original topics.

    The expressions are those that the group registered (setting filterSupportRetry).
    """
    group = retry_topic.removeprefix(RETRY_PREFIX)

    def matches(properties: Mapping[str, str]) -> bool:
        data = table.find(properties.get("RETRY_TOPIC", ""), group)
        message_filter = EVERYTHING if data is None else filter_by_expression(data)
        return message_filter.by_properties is None or message_filter.by_properties(properties)

    return MessageFilter(by_tags.by_code, matches)
