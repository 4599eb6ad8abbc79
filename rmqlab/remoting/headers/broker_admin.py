"""Headers of requests that inspect a broker or its consumers, or move offsets.

Sources: broker-requests sections 6.3, 6.5.
"""

from rmqlab.remoting.header import FALSE, Header, JavaBoolean, Long


class GetBrokerConfigResponseHeader(Header, frozen=True, kw_only=True):
    """26. The version is a data version as JSON."""

    version: str | None = None


class CreateAccessConfigRequestHeader(Header, frozen=True, kw_only=True):
    """50. Permissions are `resource=permission`, several with commas between."""

    access_key: str = ""
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: JavaBoolean = FALSE
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAccessConfigRequestHeader(Header, frozen=True, kw_only=True):
    """51."""

    access_key: str = ""


class GetBrokerAclConfigResponseHeader(Header, frozen=True, kw_only=True):
    """52. The versions are JSON: one data version, and one for each file by its path."""

    version: str | None = None
    all_acl_file_version: str | None = None
    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None


class UpdateGlobalWhiteAddrsConfigRequestHeader(Header, frozen=True, kw_only=True):
    """53. Addresses with commas between; the file is plain_acl.yml unless named."""

    global_white_addrs: str | None = None
    acl_file_full_path: str | None = None


class ViewBrokerStatsDataRequestHeader(Header, frozen=True, kw_only=True):
    """315."""

    stats_name: str = "null"
    stats_key: str | None = None


class ResetOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """222 from a tool to a broker, 220 from there to the consumers."""

    topic: str
    group: str
    timestamp: Long = 0
    """Milliseconds; -1 is the end of each queue."""
    is_force: JavaBoolean = FALSE


class GetConsumerStatusRequestHeader(Header, frozen=True, kw_only=True):
    """223 from a tool to a broker, 221 from there to the consumers."""

    topic: str
    group: str
    client_addr: str | None = None


class GetConsumerRunningInfoRequestHeader(Header, frozen=True, kw_only=True):
    """307, forwarded unchanged by the broker."""

    consumer_group: str
    client_id: str = "null"
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
    compare_group: str = "null"
    topic: str


class CloneGroupOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """314."""

    src_group: str
    dest_group: str = "null"
    topic: str | None = None
    offline: JavaBoolean = FALSE


class ResumeCheckHalfMessageRequestHeader(Header, frozen=True, kw_only=True):
    """323."""

    msg_id: str
