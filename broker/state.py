"""The state of one broker process, which its handlers and loops share."""

import collections
import weakref
from collections.abc import Awaitable, Callable

import attrs
import trio

from rmqlab.broker.acl.control import AccessControl
from rmqlab.broker.config import BrokerConfig, BrokerSettings
from rmqlab.broker.deferred.delay import DelayedDelivery, DueAlarm
from rmqlab.broker.deferred.skipped import SkippedMessages
from rmqlab.broker.filter.bloom import BloomFilter
from rmqlab.broker.filter.table import ConsumerFilterTable
from rmqlab.broker.ha.master import HaMaster
from rmqlab.broker.ha.slave import HaSlave
from rmqlab.broker.metadata import MetadataSync
from rmqlab.broker.rebalance_notices import RebalanceNotices
from rmqlab.broker.registration import Registration
from rmqlab.broker.stats import BrokerStats
from rmqlab.broker.statsitems import StatsItems
from rmqlab.broker.tables.clients import ConsumerTable, ProducerTable
from rmqlab.broker.tables.locks import QueueLocks
from rmqlab.broker.tables.offsets import ConsumerOffsetTable
from rmqlab.broker.tables.subscriptions import SubscriptionGroupTable
from rmqlab.broker.tables.topics import TopicTable
from rmqlab.broker.tasks import TaskStarter
from rmqlab.broker.waits.append_followup import AppendFollowUp
from rmqlab.broker.waits.copy_waits import CopyWaits
from rmqlab.broker.waits.held_pulls import PullHold
from rmqlab.broker.waits.pending_acks import PendingAcks
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.headers.query import QueryMessageRequestHeader
from rmqlab.remoting.message import NewMessage, RecordError, decode_properties
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.net.channel import Channel
from rmqlab.runtime.net.dispatch import OVERLOAD, Refusal, Reply, Request
from rmqlab.runtime.net.meter import Meter
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.net.slices import Later, Slices
from rmqlab.store.files.configfile import keep_unsaved_files
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import PutResult

MAX_REQUEST_TASKS = 5000
"""Maximum number of tasks for requests that are passed on to clients: each lasts a few seconds at most."""


def _new_stats(broker: "Broker") -> BrokerStats:
    config = broker.config
    items = StatsItems(config.broker_cluster_name, counts_queues=config.enable_detail_stat)
    return BrokerStats(broker.now_millis(), items)


def _open_filters(broker: "Broker") -> ConsumerFilterTable:
    config = broker.config
    bloom = BloomFilter.of(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)
    path = broker.settings.store.store_path_root_dir / "config" / "consumerFilter.json"
    return ConsumerFilterTable(path, broker.now_millis, bloom, config.filter_data_clean_time_span)


@attrs.define(eq=False)
class Broker:
    """One broker.

    Its tables are plain values; everything that waits is a loop of `rmqlab.broker.loops`.
    """

    settings: BrokerSettings
    config: BrokerConfig
    store: MessageStore
    topics: TopicTable
    subscriptions: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    ha_master: HaMaster
    ha_slave: HaSlave
    client: RemotingClient
    registration: Registration
    sync: MetadataSync
    growth: AppendFollowUp
    flush_waits: PendingAcks
    slave_waits: CopyWaits
    hold: PullHold
    due_alarm: DueAlarm
    tasks: TaskStarter
    later: Later
    now_millis: Callable[[], int]
    now: Callable[[], float]
    """Seconds of the process's clock, for deadlines."""
    emit: Callable[..., None]
    """Emits an event to the journal and the supervisor: a kind, and fields."""
    access: AccessControl | None = None
    """None while access control is off."""
    filters: ConsumerFilterTable = attrs.Factory(_open_filters, takes_self=True)
    consumers: ConsumerTable = attrs.Factory(lambda self: ConsumerTable(self.filters), takes_self=True)
    notices: RebalanceNotices = attrs.Factory(lambda self: RebalanceNotices(self.later), takes_self=True)
    producers: ProducerTable = attrs.field(factory=ProducerTable)
    operators: weakref.WeakSet[Channel] = attrs.field(factory=weakref.WeakSet)
    """Connections that sent an operator's request: for consume stats, or for a reset of offsets."""
    locks: QueueLocks = attrs.field(factory=QueueLocks)
    stats: BrokerStats = attrs.Factory(_new_stats, takes_self=True)
    waiting_queries: collections.deque[tuple[int, QueryMessageRequestHeader, Request]] = attrs.field(
        factory=collections.deque
    )
    """Queries by key that wait until the index has reached a commit log offset, in rising order."""
    unserved: collections.Counter[tuple[str, int]] = attrs.field(factory=collections.Counter)
    served_of_5x: collections.Counter[tuple[str, int]] = attrs.field(factory=collections.Counter)
    """Requests by peer and code that only `serve_requests_of_5x` serves."""
    serves_5x: bool = attrs.Factory(lambda self: bool(self.config.serve_requests_of_5x), takes_self=True)
    """`serve_requests_of_5x` as it was at the start."""
    errors: InternalErrors = attrs.field(factory=InternalErrors)
    """Counts and logs unexpected exceptions at the boundaries of this broker."""
    skipped: SkippedMessages = attrs.Factory(lambda self: SkippedMessages(self.emit, self.errors), takes_self=True)
    """Stored messages that a service of this broker skipped."""
    slices: Slices = attrs.Factory(lambda self: Slices(self.later, self.errors), takes_self=True)
    """Continues long requests."""
    delay: DelayedDelivery = attrs.Factory(
        lambda self: DelayedDelivery(
            self.store, self.sync.delay_offset_path, self.put_due, self.now_millis, self.due_alarm, self.skipped
        ),
        takes_self=True,
    )
    replication: Meter = attrs.field(factory=Meter)
    """The bytes of HA connections, and of a DLedger group."""
    traffic: Meter = attrs.field(factory=Meter)
    """The bytes of all other connections."""
    role_taken: trio.Event = attrs.field(factory=trio.Event)
    """Set at a change of role; the waiting loop replaces it."""
    request_tasks: int = 0
    """Number of tasks that currently run for requests."""
    acl_changes: int = 0
    """Number of these that change ACL files."""
    store_host: tuple[str, int] = attrs.Factory(
        lambda self: (self.config.broker_ip1, self.config.listen_port), takes_self=True
    )
    """The address stored in records and message ids: that of the start (AbstractSendMessageProcessor)."""
    started_at_millis: int = 0
    config_version: DataVersion = attrs.Factory(
        lambda self: DataVersion(timestamp=self.started_at_millis), takes_self=True
    )
    """Increases with every change of the settings."""

    def __attrs_post_init__(self) -> None:
        self._apply_switches()

    @property
    def is_slave(self) -> bool:
        """True while this broker has the role SLAVE."""
        return self.config.is_slave

    def reconfigure(self, settings: BrokerSettings) -> None:
        """Apply new settings (request 25). Open files keep the old ones."""
        self._use(settings)
        config = self.config
        self.store.reconfigure(settings.store)
        self.ha_master.replace_settings(settings.ha)
        self.ha_slave.replace_settings(settings.ha)
        self.slave_waits.set_timeout(config.slave_timeout / 1000)
        self.flush_waits.timeout = settings.store.sync_flush_timeout / 1000
        self.config_version = DataVersion(timestamp=self.now_millis(), counter=self.config_version.counter + 1)
        self._apply_switches()

    def take_role(self, role: str, broker_id: int) -> None:
        """Change role and id while the broker runs.

        A member of a DLedger group does so (dledger#52). The services of the former role end, and those of the new one
        begin. StoreError if a master's file cannot be read; the broker keeps its role then.
        """
        settings = attrs.evolve(self.settings, broker=attrs.evolve(self.config, broker_role=role, broker_id=broker_id))
        if not settings.broker.is_slave:
            self.delay.load()
        self._use(settings)
        self.store.set_role(is_slave=self.is_slave)
        self._apply_switches()
        self.role_taken.set()

    def _use(self, settings: BrokerSettings) -> None:
        self.settings, self.config = settings, settings.broker
        self.registration.config = self.topics.config = self.subscriptions.config = settings.broker

    def _apply_switches(self) -> None:
        """Set the parts whose behaviour depends on a switch."""
        config, is_slave = self.config, self.is_slave
        self.sync.keeps_newer, self.sync.hands_back = (
            config.keep_newer_consumer_offsets,
            config.hand_back_consumer_offsets,
        )
        self.offsets.notes_own = is_slave and (self.sync.keeps_newer or self.sync.hands_back)
        # On a slave of 4.9 only the sweep checks held pulls (store-ha#70).
        self.store.dispatcher.is_observed = not is_slave or config.wake_held_pulls_on_slave
        self.hold.wakes_on_arrival = config.long_polling_enable

    def create_own_topic(self, topic: str, queue_nums: int, *, unit_mode: bool = False) -> TopicConfig:
        """Return a retry, dead-letter or system topic.

        If missing, it is created, and registered at the nameservers. Refusal without room.

        Source: TopicConfigManager.createTopicInSendMessageBackMethod, createTopicOfTranCheckMaxTime.
        """
        known = self.topics.get(topic)
        if known is not None:
            return known
        created = self.topics.create_plain(topic, queue_nums, unit_mode=unit_mode)
        self.registration.register_soon(oneway=True)
        return created

    def put_own(self, message: NewMessage) -> PutResult:
        """Store a message without a waiting client, such as a record of a transaction.

        Its caller counts it in the statistics by topic, if it belongs there.
        """
        result = self.store.put(message)
        if result.is_stored:
            self.growth.appended()
            self.stats.count_own_put(1, result.end_offset - result.physical_offset)
        return result

    def put_due(self, message: NewMessage, level: int) -> PutResult:
        """Store a delayed message that is due."""
        result = self.put_own(message)
        if result.is_stored and self.config.enable_schedule_message_stats:
            self.stats.count_delivery(message.topic, level - 1, result.end_offset - result.physical_offset)
        return result

    def run_for_request(self, request: Request, fn: Callable[..., Awaitable[object]], *args: object) -> None:
        """Start a task that replies to a request.

        If it fails, the peer gets code 1, as from a handler. Raises Refusal if there are too many.
        """
        if self.request_tasks >= MAX_REQUEST_TASKS:
            raise Refusal(ResponseCode.SYSTEM_BUSY, OVERLOAD)

        async def run() -> None:
            try:
                await fn(*args)
            except Exception as exc:  # noqa: BLE001 - a boundary
                self.errors.caught(f"request {request.command.code}", exc, f"from {request.channel.peer}")
                request.reply(Reply(ResponseCode.SYSTEM_ERROR, remark=f"{type(exc).__name__}: {exc}"))
            finally:
                self.request_tasks -= 1

        self.request_tasks += 1
        self.tasks.start_soon(run)

    def notify_group(self, group_name: str) -> None:
        """Notify every member of a group to rebalance (broker-requests#39).

        The group's configuration may forbid that.
        """
        group_config = self.subscriptions.find(group_name)
        if group_config is None or group_config.notify_consumer_ids_changed_enable:
            self._notify_members(group_name)

    def _notify_members(self, group_name: str) -> None:
        group = self.consumers.groups.get(group_name)
        if group is not None and self.config.notify_consumer_ids_changed_enable:
            self.notices.send(group)

    def channel_closed(self, channel: Channel) -> None:
        """Drop a connection from all groups at once (broker-requests#41).

        The other members are notified, whatever the group's configuration says (ConsumerManager.doChannelCloseEvent).
        """
        self.producers.leave_all(channel)
        for group_name in self.consumers.leave_all(channel):
            self._notify_members(group_name)

    def drop_silent_clients(self) -> None:
        """Close the connections of clients without heartbeats for 120 s.

        Source: broker-requests#41. The groups in which they were silent are not notified: their members notice at
        their next rebalance, up to 20 s later. In 4.9.8 the scan, which notifies nobody, races with the event of the
        closed connection, and mostly wins (ConsumerManager.scanNotActiveChannel).
        """
        now = self.now()
        for channel in self.consumers.drop_silent(now) + self.producers.silent(now):
            channel.close("no heartbeat for 120 s")

    def properties_at(self, topic: str, queue_id: int, queue_offset: int) -> dict[str, str] | None:
        """Return the properties of the message at an offset of a queue.

        None where it is missing or does not parse.
        """
        for physical, size, _ in self.store.queue_entries(topic, queue_id, queue_offset, 1):
            record = self.store.message_at(physical, size)
            try:
                return None if record is None else decode_properties(record)
            except RecordError:  # copied from a master's log: the consumer's pull reports it
                return None
        return None

    def save_tables(self) -> None:
        """Save all tables at a clean stop; the loops save them only periodically."""
        keep_unsaved_files()  # a disk that was full may have room again
        self.topics.save_changes()
        self.subscriptions.save_changes()
        self.offsets.save()
        self.filters.save()
        if not self.is_slave:  # a slave's file is its master's text (store-and-ha section 5.4)
            self.delay.save()
