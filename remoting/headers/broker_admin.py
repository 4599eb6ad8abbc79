"""Headers of looking into a broker or its consumers, and of moving offsets.

Sources: broker-requests sections 6.3, 6.5.
"""

from remoting.header import FALSE, Header, JavaBoolean


class GetBrokerConfigResponseHeader(Header, frozen=True, kw_only=True):
    """26. The version is a data version as JSON."""

    version: str | None = None


class ViewBrokerStatsDataRequestHeader(Header, frozen=True, kw_only=True):
    """315."""

    stats_name: str
    stats_key: str


class ResetOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """222 from a tool to a broker, 220 from there to the consumers."""

    topic: str
    group: str
    timestamp: int
    """Milliseconds; -1 is the end of each queue."""
    is_force: JavaBoolean = FALSE


class GetConsumerStatusRequestHeader(Header, frozen=True, kw_only=True):
    """223 from a tool to a broker, 221 from there to the consumers."""

    topic: str
    group: str
    client_addr: str | None = None


class GetConsumerRunningInfoRequestHeader(Header, frozen=True, kw_only=True):
    """307, passed on by the broker as it is."""

    consumer_group: str
    client_id: str
    jstack_enable: JavaBoolean = FALSE


class ConsumeMessageDirectlyResultRequestHeader(Header, frozen=True, kw_only=True):
    """309. The broker adds its name, and the message as body, before it passes it on."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None


class QueryCorrectionOffsetHeader(Header, frozen=True, kw_only=True):
    """308."""

    filter_groups: str | None = None
    compare_group: str
    topic: str


class CloneGroupOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """314."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: JavaBoolean = FALSE


class ResumeCheckHalfMessageRequestHeader(Header, frozen=True, kw_only=True):
    """323."""

    msg_id: str
