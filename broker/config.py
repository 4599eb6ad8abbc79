"""Settings of a broker: RocketMQ's broker.conf keys in snake_case.

Sources: classes BrokerConfig, MessageStoreConfig, NettyServerConfig of 4.9.8. Defaults and units (milliseconds, bytes)
are those of 4.9.8. One file feeds four classes: the broker's own keys, the store's, replication's, and those that have
no effect here.
"""

import ipaddress
import logging
import pathlib
from collections.abc import Mapping
from typing import Any, Self, TypeVar

import attrs

from rmqlab.broker.dledger.settings import DLedgerConfig
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ignored_settings import UnusedConfig, ineffective_settings
from rmqlab.broker.profiles import PROFILES
from rmqlab.remoting.names import MASTER_ID, TRACE_TOPIC
from rmqlab.runtime.config.settings import (
    Settings,
    SettingsError,
    change_settings,
    changed_unknown,
    read_settings,
    settings_text,
)
from rmqlab.runtime.config.validators import (
    FIXED,
    INT32,
    INT64,
    addresses,
    is_host,
    one_line_texts,
    one_of,
    shown,
    within,
)
from rmqlab.store.config import StoreConfig
from rmqlab.store.files.configfile import save_config_file

log = logging.getLogger(__name__)

T = TypeVar("T")

ROLES = ("ASYNC_MASTER", "SYNC_MASTER", "SLAVE")


HIGHEST_PORT = 65_535
MAX_NAME_BYTES = 240
"""Of a name that becomes a directory, with room for `_REPLY_TOPIC`."""

ANYWHERE = ("", "0.0.0.0", "::")
"""Listening addresses that peers cannot connect to."""


def reachable(listen_address: str) -> str:
    """Return the address that peers connect to, as far as it can be determined."""
    return "127.0.0.1" if listen_address in ANYWHERE else listen_address


MAX_QUEUES = 32_768
"""Maximum number of queues in a topic. 4.9.8 has no limit, but replies about all queues would not fit in a frame."""

_millis = within(0, INT64)
_period = within(1, INT64)
"""Milliseconds between two rounds of a loop: 0 would never sleep."""


def _is_ip(_config: object, field: "attrs.Attribute[str]", value: str) -> None:
    try:
        ipaddress.ip_address(value)
    except ValueError:  # it goes into every record and message id (store-and-ha section 1.1)
        raise ValueError(f"{field.name} = {shown(value)}: expected an IP address") from None


def _is_host(_config: object, field: "attrs.Attribute[str]", value: str) -> None:
    if value not in ANYWHERE and not is_host(value):
        raise ValueError(f"{field.name} = {shown(value)}: expected an IP address or a host name")


def _is_name(_config: object, field: "attrs.Attribute[str]", value: str) -> None:
    """Validate a name that becomes a topic, and therefore a directory of queues."""
    if not value.strip() or "/" in value or value in (".", "..") or len(value.encode()) > MAX_NAME_BYTES:
        raise ValueError(f"{field.name} = {shown(value)}: expected a name of 1 to {MAX_NAME_BYTES} bytes without /")


def _has_neighbours(config: "BrokerConfig", _field: object, port: int) -> None:
    """A port decides two others: listen_port - 2 and + 1 must be ports as well."""
    if config.fast_listen_port is None and port in (1, 2):
        raise ValueError(f"listen_port = {port}: expected 3 or more, for the VIP port is 2 below (fast_listen_port)")
    if config.ha_listen_port is None and port == HIGHEST_PORT:
        raise ValueError(f"listen_port = {port}: expected less, for the HA port is 1 above (ha_listen_port)")


@attrs.frozen(kw_only=True, field_transformer=one_line_texts)
class BrokerConfig:
    """The broker's own keys. Checked here, then never changed except by request 25."""

    broker_cluster_name: str = attrs.field(default="DefaultCluster", validator=_is_name)
    broker_name: str = attrs.field(default="broker-a", validator=_is_name)
    broker_id: int = attrs.field(default=MASTER_ID, validator=within(0, INT64))
    broker_role: str = attrs.field(default="ASYNC_MASTER", validator=one_of(ROLES))
    namesrv_addr: str = attrs.field(default="", validator=addresses())
    """Nameservers as `host:port`, separated by `;`."""

    listen_address: str = attrs.field(default="127.0.0.1", validator=_is_host)
    """Listening address (ours: RocketMQ listens on all)."""
    listen_port: int = attrs.field(default=10911, validator=[within(0, HIGHEST_PORT), _has_neighbours])
    ha_listen_port: int | None = attrs.field(default=None, validator=attrs.validators.optional(within(0, HIGHEST_PORT)))
    """Default and, in 4.9, the only choice: listen_port + 1. A port of 0 lets the system choose."""
    fast_listen_port: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(within(0, HIGHEST_PORT))
    )
    """The VIP port: listen_port - 2 unless given (ours, for hosts where ports are scarce)."""
    broker_ip1: str = attrs.field(
        default=attrs.Factory(lambda self: reachable(self.listen_address), takes_self=True), validator=_is_ip
    )
    """Address registered for clients; by default the listening address, if peers can connect to it."""
    broker_ip2: str = attrs.field(
        default=attrs.Factory(lambda self: self.broker_ip1, takes_self=True), validator=_is_host
    )
    """Address registered for slaves."""

    broker_permission: int = attrs.field(default=6, validator=within(0, 7))
    default_topic_queue_nums: int = attrs.field(default=8, validator=within(1, MAX_QUEUES))
    auto_create_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = attrs.field(default=TRACE_TOPIC, validator=_is_name)
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    reject_transaction_message: bool = False
    store_reply_message_enable: bool = True
    enable_property_filter: bool = False
    """Whether consumers may filter by SQL92."""
    filter_support_retry: bool = False
    filter_data_clean_time_span: int = attrs.field(default=86_400_000, validator=_millis)
    """How long a filter is kept after its last consumer left."""
    max_error_rate_of_bloom_filter: int = attrs.field(default=20, validator=within(1, 99))
    """In per cent. This and the next size the bits in consumerFilter.json."""
    expect_consumer_num_use_filter: int = attrs.field(default=32, validator=within(1, INT32))
    broker_fast_failure_enable: bool = True
    """Whether requests that waited too long are refused with code 2; see rmqlab.broker.overload."""
    wait_time_mills_in_send_queue: int = attrs.field(default=200, validator=_millis)
    wait_time_mills_in_pull_queue: int = attrs.field(default=5_000, validator=_millis)
    wait_time_mills_in_heartbeat_queue: int = attrs.field(default=31_000, validator=_millis)
    wait_time_mills_in_transaction_queue: int = attrs.field(default=3_000, validator=_millis)
    os_page_cache_busy_time_out_mills: int = attrs.field(default=1_000, validator=_millis)
    """Longest time for writing one message; sends queued behind a slower write are refused."""
    acl_enable: bool = False
    """Require a signature or a white-listed address. Read at the start only, as in RocketMQ."""
    acl_denied_is_no_permission: bool = False
    """Ours: reply to denied requests with code 16 (NO_PERMISSION), as 5.x does; 4.9 replies 1 with the same remark."""
    rocketmq_home: str = attrs.field(default="", metadata=FIXED)
    """Directory of conf/plain_acl.yml and conf/acl/; by default that of the settings file."""
    start_accept_send_request_time_stamp: int = attrs.field(default=0, validator=within(0, INT64))
    enable_detail_stat: bool = True
    """Whether request 315 has statistics of the queues of delayed messages. Read at the start only."""
    enable_schedule_message_stats: bool = True
    """Whether delayed messages count in request 315 when they are delivered."""
    auto_delete_unused_stats: bool = False
    """Whether statistics of a topic or group are dropped with it."""
    default_query_max_num: int = attrs.field(default=32, validator=within(0, 10_000))
    """Maximum number of messages in a reply to a query by unique key."""

    serve_requests_of_5x: bool = False
    """Ours: serve requests 351, 352 and 361 of RocketMQ 5.x, and report the runtime values that its tools read. 4.9.8
    has none of them and replies code 3. Read at the start only.
    """
    journal_traffic: bool = False
    """Ours: each send, pull and commit is a journal event; see rmqlab.broker.traffic. Read at the start only."""

    long_polling_enable: bool = True
    short_polling_time_mills: int = attrs.field(default=1000, validator=_millis)
    notify_consumer_ids_changed_enable: bool = True
    slave_read_enable: bool = False

    force_register: bool = True
    register_name_server_period: int = attrs.field(default=30_000, validator=within(-INT32, INT32))
    """Clamped to 10 s to 60 s, as in RocketMQ."""
    register_broker_timeout_mills: int = attrs.field(default=6_000, validator=within(1, INT32))
    compressed_register: bool = False
    flush_consumer_offset_interval: int = attrs.field(default=5_000, validator=within(1, INT32))
    flush_delay_offset_interval: int = attrs.field(default=10_000, validator=_period)
    transaction_time_out: int = attrs.field(default=6_000, validator=_millis)
    """Age at which a half message is first checked, unless its properties set another."""
    transaction_check_max: int = attrs.field(default=15, validator=within(0, INT32))
    transaction_check_interval: int = attrs.field(default=60_000, validator=_period)
    slave_timeout: int = attrs.field(default=3_000, validator=within(0, INT32))
    server_channel_max_idle_time_seconds: int = attrs.field(default=120, validator=within(-1, INT32))
    """Connections without traffic for so long are closed; 0 or -1 keeps all, as in Netty."""
    config_black_list: str = "configBlackList;brokerConfigPath"

    # ---- ours ----

    profile: str = attrs.field(default="4.9", validator=one_of(tuple(PROFILES)))
    """Values for many switches at once; those that are set by hand win."""
    keep_newer_consumer_offsets: bool = False
    """A slave keeps offsets committed to it, and those a restarted master lost; 4.9 overwrites them (#69)."""
    hand_back_consumer_offsets: bool = False
    """A slave commits such offsets to its returning master; in 4.9 they stay on the slave."""
    obey_min_copies: bool = False
    """A message with the property MIN_COPIES waits for that many logs, the master's included; 4.9 ignores it."""
    wake_held_pulls_on_slave: bool = False
    """A slave wakes a held pull when its message arrives; in 4.9 only the sweep every 5 s does (store-ha#70)."""

    @property
    def is_slave(self) -> bool:
        """True for the role SLAVE."""
        return self.broker_role == "SLAVE"

    @property
    def is_sync_master(self) -> bool:
        """True for the role SYNC_MASTER."""
        return self.broker_role == "SYNC_MASTER"

    @property
    def address(self) -> str:
        """The address for clients: `ip:port`."""
        return f"{self.broker_ip1}:{self.listen_port}"

    @property
    def namesrv_addrs(self) -> tuple[str, ...]:
        """The nameservers, one by one."""
        return tuple(part.strip() for part in self.namesrv_addr.split(";") if part.strip())


KINDS = (BrokerConfig, StoreConfig, HaSettings, DLedgerConfig, UnusedConfig)
"""The classes that one settings file feeds."""


@attrs.frozen
class BrokerSettings:
    """The content of one settings file, by the package that reads it."""

    broker: BrokerConfig
    store: StoreConfig
    ha: HaSettings
    dledger: DLedgerConfig
    unused: Any
    """Settings that are kept and shown without effect; see rmqlab.broker.ignored_settings."""
    source: Settings

    @property
    def home(self) -> pathlib.Path:
        """The directory that RocketMQ would call its home."""
        return pathlib.Path(self.broker.rocketmq_home or pathlib.Path(self.source.source).absolute().parent)

    def changed(self, changes: Mapping[str, str]) -> Self:
        """Return these settings with changes under RocketMQ's names.

        SettingsError for an invalid value.
        """
        broker, values = change_settings(self.broker, changes)
        store, more = change_settings(self.store, changes)
        ha, still_more = change_settings(self.ha, changes)
        dledger, of_group = change_settings(self.dledger, changes)
        unused, kept = change_settings(self.unused, changes)
        values = {**self.source.values, **values, **more, **still_more, **of_group, **kept}
        source = attrs.evolve(self.source, values=values, unknown=changed_unknown(self.source, changes))
        # The saved file must load: a changed key may change defaults. The rule that a SLAVE has an id above 0 is
        # checked at the next start only, as in 4.9.8, because its tool changes one key at a time.
        _bind(attrs.evolve(source, source="read again from its file"))
        if broker.profile != self.broker.profile:
            ha, broker = _follow_profile(ha, source, broker.profile), _follow_profile(broker, source, broker.profile)
        return attrs.evolve(self, broker=broker, store=store, ha=ha, dledger=dledger, unused=unused, source=source)

    def save(self) -> None:
        """Rewrite the settings file; its former content is kept as `.bak`."""
        save_config_file(pathlib.Path(self.source.source), settings_text(self.source).encode())


def load_config(path: str | pathlib.Path) -> BrokerSettings:
    """Load and validate a settings file.

    SettingsError names file, key, and the expected value.
    """
    settings = _bind(read_settings(path, KINDS))
    broker = settings.broker
    if settings.dledger.enable_dleger_commit_log:  # a member is a slave until its group elects it
        follower = attrs.evolve(broker, broker_role="SLAVE", broker_id=settings.dledger.number)
        settings = attrs.evolve(settings, broker=follower)
    elif broker.is_slave:
        if broker.broker_id == MASTER_ID:
            raise SettingsError(f"{path}: broker_id = {broker.broker_id}: a SLAVE needs one above 0")
    elif broker.broker_id != MASTER_ID:  # a master always has id 0 (store-and-ha section 5.1)
        settings = attrs.evolve(settings, broker=attrs.evolve(broker, broker_id=MASTER_ID))
    if ineffective := ineffective_settings(settings.source.values) + settings.dledger.has_no_effect():
        log.warning("%s: no effect here: %s", path, ", ".join(ineffective))
    return settings


def _bind(source: Settings) -> BrokerSettings:
    """Build the settings from a file's values and its profile's."""
    profile = PROFILES.get(str(source.values.get("profile")), {})
    settings = attrs.evolve(source, values={**profile, **source.values})
    broker, store, ha = settings.bind(BrokerConfig), settings.bind(StoreConfig), settings.bind(HaSettings)
    return BrokerSettings(broker, store, ha, settings.bind(DLedgerConfig), settings.bind(UnusedConfig), source)


def _follow_profile(settings: T, source: Settings, profile: str) -> T:
    """Return these settings under another profile; keys in the file keep their values."""
    switches = {name for values in PROFILES.values() for name in values} - source.values.keys()
    fields = [field for field in attrs.fields(type(settings)) if field.name in switches]  # type: ignore[arg-type]  # attrs classes
    return attrs.evolve(settings, **{f.name: PROFILES[profile].get(f.name, f.default) for f in fields})  # type: ignore[misc]
