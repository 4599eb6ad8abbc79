"""Headers of consumer offsets and queue bounds (broker-requests sections 3.7 to 3.9)."""

from remoting.header import Header


class QueryConsumerOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """14."""

    consumer_group: str
    topic: str
    queue_id: int


class QueryConsumerOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """14."""

    offset: int | None = None


class UpdateConsumerOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """15."""

    consumer_group: str
    topic: str
    queue_id: int
    commit_offset: int


class UpdateConsumerOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """15: no fields, but there."""


class SearchOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """29."""

    topic: str
    queue_id: int
    timestamp: int


class SearchOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """29."""

    offset: int | None = None


class GetMaxOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """30."""

    topic: str
    queue_id: int


class GetMaxOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """30."""

    offset: int | None = None


class GetMinOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """31."""

    topic: str
    queue_id: int


class GetMinOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """31."""

    offset: int | None = None


class GetEarliestMsgStoretimeRequestHeader(Header, frozen=True, kw_only=True):
    """32."""

    topic: str
    queue_id: int


class GetEarliestMsgStoretimeResponseHeader(Header, frozen=True, kw_only=True):
    """32. Milliseconds, -1 for an empty queue."""

    timestamp: int | None = None
