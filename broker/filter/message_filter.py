"""Filter of one pull: by tags code, by properties, or everything.

The tags code is that of the queue entry, the properties are those of the record. Classes ExpressionMessageFilter,
ExpressionForRetryMessageFilter.
"""

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from rmqlab.broker.filter.lexer import FilterError
from rmqlab.broker.filter.sql92 import MAX_OPERANDS, Matches
from rmqlab.broker.filter.table import ConsumerFilterTable, compiled
from rmqlab.remoting.bodies.filter import ConsumerFilterData
from rmqlab.remoting.bodies.heartbeat import SubscriptionData, check_tags
from rmqlab.remoting.message import java_hash
from rmqlab.remoting.names import RETRY_PREFIX
from rmqlab.store.pull import MOST_EXAMINED

_OPERANDS_OF_A_PULL: Final = 100_000
"""Operands that one pull evaluates at most: other requests wait meanwhile."""
_OPERANDS_TO_DECODE: Final = 10
"""Decoding the properties of a message costs as much as these."""


@attrs.frozen
class MessageFilter:
    """Two filters; a message must pass both. None passes all messages."""

    by_code: Callable[[int], bool] | None = None
    by_properties: Matches | None = None
    operands: int = 0
    """Maximum number of operands that `by_properties` evaluates for a message."""

    @property
    def max_examined(self) -> int:
        """Return how many messages a pull examines at most.

        Its consumer pulls again for those behind them.
        """
        if self.by_properties is None:
            return MOST_EXAMINED
        return max(_OPERANDS_OF_A_PULL // (_OPERANDS_TO_DECODE + self.operands), 1)


def filter_by_properties(expression_type: str, expression: str) -> MessageFilter:
    """Make the filter of an expression that is not one of tags.

    FilterError if it is invalid.
    """
    matches = compiled(expression_type, expression)
    return MessageFilter(by_properties=matches, operands=matches.operands)


EVERYTHING = MessageFilter()


def filter_by_tags(expression: str | None) -> MessageFilter:
    """Make the filter of a tag expression such as `TagA || TagB` (FilterAPI).

    FilterError if it has only bars or exceeds a limit of `check_tags`. An expression of blanks has no tags and matches
    nothing.
    """
    if expression in (None, "", "*"):
        return EVERYTHING
    try:
        check_tags(expression)
    except ValueError as exc:
        raise FilterError(str(exc)) from None
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
        return filter_by_properties(data.expression_type, data.expression)
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

    return MessageFilter(by_tags.by_code, matches, MAX_OPERANDS)
