"""Headers of groups and their members.

Source: broker-requests sections 3.2, 3.3, 3.6, 6.3.
"""

import msgspec

from rmqlab.remoting.header import FALSE, Header, JavaBoolean


class UnregisterClientRequestHeader(Header, frozen=True, kw_only=True):
    """35. An empty group counts as missing (broker-requests#42)."""

    client_id: str | None = msgspec.field(name="clientID", default=None)
    producer_group: str | None = None
    consumer_group: str | None = None


class UnregisterClientResponseHeader(Header, frozen=True, kw_only=True):
    """35: no fields, but there."""


class GetConsumerListByGroupRequestHeader(Header, frozen=True, kw_only=True):
    """38."""

    consumer_group: str


class GetConsumerListByGroupResponseHeader(Header, frozen=True, kw_only=True):
    """38: no fields, but there."""


class NotifyConsumerIdsChangedRequestHeader(Header, frozen=True, kw_only=True):
    """40, from broker to consumer."""

    consumer_group: str


class GetConsumerConnectionListRequestHeader(Header, frozen=True, kw_only=True):
    """203."""

    consumer_group: str


class GetProducerConnectionListRequestHeader(Header, frozen=True, kw_only=True):
    """204."""

    producer_group: str


class DeleteSubscriptionGroupRequestHeader(Header, frozen=True, kw_only=True):
    """207. The flag has another name in 5.x."""

    group_name: str
    remove_offset: JavaBoolean = FALSE
    clean_offset: JavaBoolean | None = None

    @property
    def drops_offsets(self) -> bool:
        """True if the group's offsets are deleted with it."""
        return bool(self.remove_offset or self.clean_offset)


class GetSubscriptionGroupConfigRequestHeader(Header, frozen=True, kw_only=True):
    """352 of 5.x."""

    group: str


class GetConsumeStatsRequestHeader(Header, frozen=True, kw_only=True):
    """208. A blank topic is every topic of the group."""

    consumer_group: str
    topic: str | None = None


class QueryTopicConsumeByWhoRequestHeader(Header, frozen=True, kw_only=True):
    """300."""

    topic: str


class QueryConsumeTimeSpanRequestHeader(Header, frozen=True, kw_only=True):
    """303. A missing group counts as the group `null`."""

    topic: str
    group: str = "null"


class GetConsumeStatsInBrokerHeader(Header, frozen=True, kw_only=True):
    """317."""

    is_order: JavaBoolean = FALSE
