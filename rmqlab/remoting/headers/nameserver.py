"""Headers of requests to a nameserver.

Source: remoting-and-nameserver sections 3.2 to 3.12. If a field without default is missing, 4.9 replies code 1; for
other missing fields it looks up `null`, which does not exist.
"""

from rmqlab.remoting.header import FALSE, Header, Int, JavaBoolean, Long


class PutKVConfigRequestHeader(Header, frozen=True, kw_only=True):
    """100. A missing value is stored as null."""

    namespace: str | None = None
    key: str | None = None
    value: str | None = None


class GetKVConfigRequestHeader(Header, frozen=True, kw_only=True):
    """101."""

    namespace: str | None = None
    key: str | None = None


class GetKVConfigResponseHeader(Header, frozen=True, kw_only=True):
    """101."""

    value: str | None = None


class DeleteKVConfigRequestHeader(Header, frozen=True, kw_only=True):
    """102."""

    namespace: str | None = None
    key: str | None = None


class GetKVListByNamespaceRequestHeader(Header, frozen=True, kw_only=True):
    """219."""

    namespace: str | None = None


class RegisterBrokerRequestHeader(Header, frozen=True, kw_only=True):
    """103."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str | None = None
    broker_id: Long
    """0 is the master."""
    compressed: JavaBoolean = FALSE
    body_crc32: Int = 0
    """Over the body as sent; 0 is not checked (remoting#21)."""


class RegisterBrokerResponseHeader(Header, frozen=True, kw_only=True):
    """103. Filled for a slave whose master is known (remoting#25)."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnRegisterBrokerRequestHeader(Header, frozen=True, kw_only=True):
    """104."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long


class QueryDataVersionRequestHeader(Header, frozen=True, kw_only=True):
    """322. Only the address is used."""

    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None
    broker_id: Long | None = None


class QueryDataVersionResponseHeader(Header, frozen=True, kw_only=True):
    """322."""

    changed: JavaBoolean | None = None


class GetRouteInfoRequestHeader(Header, frozen=True, kw_only=True):
    """105. A missing topic counts as unknown (remoting#18)."""

    topic: str | None = None
    accept_standard_json_only: JavaBoolean | None = None


class GetTopicsByClusterRequestHeader(Header, frozen=True, kw_only=True):
    """224."""

    cluster: str | None = None


class WipeWritePermOfBrokerRequestHeader(Header, frozen=True, kw_only=True):
    """205."""

    broker_name: str | None = None


class WipeWritePermOfBrokerResponseHeader(Header, frozen=True, kw_only=True):
    """205. mqadmin fails without the count."""

    wipe_topic_count: int | None = None


class AddWritePermOfBrokerRequestHeader(Header, frozen=True, kw_only=True):
    """327."""

    broker_name: str | None = None


class AddWritePermOfBrokerResponseHeader(Header, frozen=True, kw_only=True):
    """327. mqadmin fails without the count."""

    add_topic_count: int | None = None


class DeleteTopicFromNamesrvRequestHeader(Header, frozen=True, kw_only=True):
    """216. Without a cluster, the topic is deleted in all clusters."""

    topic: str | None = None
    cluster_name: str | None = None
