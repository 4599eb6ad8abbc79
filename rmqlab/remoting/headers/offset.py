"""Headers of consumer offsets and queue bounds.

Source: broker-requests sections 3.7 to 3.9. Java makes a key of topic and group, and of a missing one the word `null`.
"""

from rmqlab.remoting.header import Header, Int, JavaBoolean, Long


class QueryConsumerOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """14."""

    consumer_group: str = "null"
    topic: str | None = None
    queue_id: Int


class QueryConsumerOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """14."""

    offset: int | None = None


class UpdateConsumerOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """15."""

    consumer_group: str = "null"
    topic: str = "null"
    queue_id: Int
    commit_offset: Long
    only_forward: JavaBoolean | None = None
    """Ours, with `hand_back_consumer_offsets`: no commit if the broker has a higher offset. 4.9.8 ignores it."""


class UpdateConsumerOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """15: no fields, but there."""


class SearchOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """29."""

    topic: str
    queue_id: Int
    timestamp: Long


class SearchOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """29."""

    offset: int | None = None


class GetMaxOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """30."""

    topic: str
    queue_id: Int


class GetMaxOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """30."""

    offset: int | None = None


class GetMinOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """31."""

    topic: str
    queue_id: Int


class GetMinOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """31."""

    offset: int | None = None


class GetEarliestMsgStoretimeRequestHeader(Header, frozen=True, kw_only=True):
    """32."""

    topic: str
    queue_id: Int


class GetEarliestMsgStoretimeResponseHeader(Header, frozen=True, kw_only=True):
    """32. Milliseconds, -1 for an empty queue."""

    timestamp: int | None = None
