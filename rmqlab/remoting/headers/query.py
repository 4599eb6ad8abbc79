"""Headers of queries for messages and queue entries.

Source: broker-requests sections 5, 6.2.
"""

import msgspec

from rmqlab.remoting.header import Header, Int, Long


class QueryMessageRequestHeader(Header, frozen=True, kw_only=True):
    """12. A missing topic or key is searched as the word `null`."""

    topic: str = "null"
    key: str = "null"
    max_num: Int
    begin_timestamp: Long
    end_timestamp: Long
    unique_key_flag: str | None = msgspec.field(name="_UNIQUE_KEY_QUERY", default=None)

    @property
    def is_unique_key(self) -> bool:
        """True if the key is one that a producer made unique.

        32 messages are enough then, whatever `max_num` is. RocketMQ compares the text: `TRUE` does not count.
        """
        return self.unique_key_flag == "true"


class QueryMessageResponseHeader(Header, frozen=True, kw_only=True):
    """12, also when no message was found (broker-requests#53)."""

    index_last_update_timestamp: int | None = None
    index_last_update_phyoffset: int | None = None


class ViewMessageRequestHeader(Header, frozen=True, kw_only=True):
    """33."""

    offset: Long
    """Commit log offset."""


class QueryConsumeQueueRequestHeader(Header, frozen=True, kw_only=True):
    """321."""

    topic: str
    queue_id: Int = 0
    index: Long = 0
    count: Int = 0
    consumer_group: str | None = None
