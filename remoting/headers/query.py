"""Headers of looking up messages and queue entries (broker-requests sections 5, 6.2)."""

import msgspec

from remoting.header import Header, JavaBoolean


class QueryMessageRequestHeader(Header, frozen=True, kw_only=True):
    """12."""

    topic: str
    key: str
    max_num: int
    begin_timestamp: int
    end_timestamp: int
    is_unique_key: JavaBoolean | None = msgspec.field(name="_UNIQUE_KEY_QUERY", default=None)
    """The key is one that a producer made unique: 32 messages are enough."""


class QueryMessageResponseHeader(Header, frozen=True, kw_only=True):
    """12, also when nothing was found (broker-requests#53)."""

    index_last_update_timestamp: int | None = None
    index_last_update_phyoffset: int | None = None


class ViewMessageRequestHeader(Header, frozen=True, kw_only=True):
    """33."""

    offset: int
    """Commit log offset."""


class QueryConsumeQueueRequestHeader(Header, frozen=True, kw_only=True):
    """321."""

    topic: str
    queue_id: int
    index: int
    count: int
    consumer_group: str | None = None
