"""All that one broker process knows and holds: what the handlers work on."""

import collections
import logging
from collections.abc import Callable
from typing import Protocol

import attrs

from broker.clients import ConsumerTable, ProducerTable
from broker.commit import OffsetWaits
from broker.config import BrokerConfig, BrokerSettings
from broker.ha.master import HaMaster
from broker.ha.slave import HaSlave
from broker.hold import PullHold
from broker.locks import QueueLocks
from broker.offsets import ConsumerOffsetTable
from broker.stats import BrokerStats
from broker.subscriptions import SubscriptionGroupTable
from broker.topics import TopicTable
from remoting.channel import Channel
from remoting.codes import RequestCode
from remoting.command import request
from remoting.headers.group import NotifyConsumerIdsChangedRequestHeader
from store.messagestore import MessageStore

log = logging.getLogger(__name__)


class Registrar(Protocol):
    """Tells the nameservers about this broker."""

    def register_soon(self, topic: str | None = None, *, oneway: bool = False) -> None:
        """Register as soon as may be: the whole table, or just one topic (store-and-ha section 5.1)."""


@attrs.define(eq=False)
class Broker:
    """One broker. Its tables are plain values; everything that waits is a task of `broker.main`."""

    settings: BrokerSettings
    config: BrokerConfig
    store: MessageStore
    topics: TopicTable
    subscriptions: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    ha_master: HaMaster
    ha_slave: HaSlave
    registrar: Registrar
    now_millis: Callable[[], int]
    now: Callable[[], float]
    """Seconds of the process's clock, for deadlines."""
    emit: Callable[..., None]
    """Tells the supervisor what happened: a kind, and fields."""
    run_soon: Callable[..., None]
    """Starts a task in the broker's nursery: an async function and its arguments."""
    appended: Callable[[], None]
    """Says that the commit log grew: replication and group flush take it from here."""
    hold: PullHold
    flush_waits: OffsetWaits
    slave_waits: OffsetWaits
    consumers: ConsumerTable = attrs.field(factory=ConsumerTable)
    producers: ProducerTable = attrs.field(factory=ProducerTable)
    locks: QueueLocks = attrs.field(factory=QueueLocks)
    stats: BrokerStats = attrs.field(factory=BrokerStats)
    unserved: collections.Counter[tuple[str, int]] = attrs.field(factory=collections.Counter)
    started_at_millis: int = 0

    @property
    def is_slave(self) -> bool:
        """True while this broker has the role SLAVE."""
        return self.config.is_slave

    @property
    def store_host(self) -> tuple[str, int]:
        """The address that goes into records and message ids."""
        return self.config.broker_ip1, self.config.listen_port

    def notify_group(self, group_name: str) -> None:
        """Tell every member of a group to rebalance (broker-requests#39)."""
        group = self.consumers.groups.get(group_name)
        group_config = self.subscriptions.find(group_name)
        if group is None or not self.config.notify_consumer_ids_changed_enable:
            return
        if group_config is not None and not group_config.notify_consumer_ids_changed_enable:
            return
        header = NotifyConsumerIdsChangedRequestHeader(consumer_group=group_name)
        for channel in list(group.members):
            channel.send_oneway(request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header))

    def channel_closed(self, channel: Channel) -> None:
        """Drop a connection from all groups at once (broker-requests#41)."""
        self.producers.leave_all(channel)
        for group_name in self.consumers.leave_all(channel):
            self.notify_group(group_name)
