"""The composition root of a broker.

It makes the parts in an order in which each constructor gets all it needs. Two cycles of the design are broken by small
objects that both sides share. Dispatch wakes held pulls, and held pulls read the store: so `PullHold` and `DueAlarm`
are made before the store opens. Replication asks the nameservers for the master, and their replies direct replication:
so both share a `KnownMaster`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from rmqlab.broker.acl.control import AccessControl
from rmqlab.broker.config import ANYWHERE, BrokerConfig, BrokerSettings
from rmqlab.broker.deferred.delay import DueAlarm
from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.master import HaMaster
from rmqlab.broker.ha.master_precheck import Identity, MasterPrecheck
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.ha.slave import HaSlave
from rmqlab.broker.ha.trouble_report import TroubleReporter
from rmqlab.broker.master_follower import HandbackAtConnect, MasterFollower
from rmqlab.broker.metadata import MetadataSync
from rmqlab.broker.registration import Registration
from rmqlab.broker.state import Broker
from rmqlab.broker.tables.offsets import ConsumerOffsetTable
from rmqlab.broker.tables.subscriptions import SubscriptionGroupTable
from rmqlab.broker.tables.topics import TopicTable
from rmqlab.broker.tasks import TaskStarter
from rmqlab.broker.waits.append_followup import AppendFollowUp
from rmqlab.broker.waits.arrivals import Arrivals
from rmqlab.broker.waits.copy_waits import CopyWaits
from rmqlab.broker.waits.flushing import GroupFlush, Syncs
from rmqlab.broker.waits.held_pulls import PullHold
from rmqlab.broker.waits.pending_acks import PendingAcks
from rmqlab.runtime.clock import call_on_wall_change, process_time, wall_clock, wall_millis
from rmqlab.runtime.net.callthread import caller
from rmqlab.runtime.net.meter import Meter
from rmqlab.runtime.net.reactor import Reactor
from rmqlab.runtime.net.remoting_client import RemotingClient
from rmqlab.runtime.node.control import ControlLink
from rmqlab.runtime.node.process import StartError
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.results import PutStatus

if TYPE_CHECKING:
    from rmqlab.broker.dledger.membership import GroupMember

HA_PORT_DISTANCE = 1


@attrs.frozen(eq=False)
class Environment:
    """The process around a broker."""

    settings: BrokerSettings
    reactor: Reactor
    link: ControlLink
    access: AccessControl | None
    """None while access control is off."""
    replication: Meter = attrs.field(factory=Meter)
    """Counts the bytes of HA connections, and of a DLedger group."""


def make_arrivals(reactor: Reactor, link: ControlLink) -> Arrivals:
    """Make the parts that the store's dispatch calls, before the store exists."""
    due_alarm = DueAlarm(wall_clock())
    call_on_wall_change(due_alarm.wake)
    return Arrivals(PullHold(reactor.again, process_time(), link.errors, link.emit), due_alarm)


@attrs.frozen(eq=False)
class _Parts:
    """Parts of a broker that later parts get in their constructors."""

    env: Environment
    store: MessageStore
    tasks: TaskStarter
    client: RemotingClient
    """For requests to nameservers and to the master."""
    known_master: KnownMaster
    now: Callable[[], float]


def assemble(
    env: Environment, store: MessageStore, arrivals: Arrivals, tasks: TaskStarter
) -> "tuple[Broker, GroupMember | None]":
    """Make a broker, and its membership in a DLedger group if it has one.

    Its HA port listens from here on; no task runs yet. A member of a group registers an HA address, and has no HA port
    (section 8.4 of docs/protocol/dledger.md).

    StartError if the HA port cannot be opened, StoreError if the file of a table cannot be loaded.
    """
    settings, config, link = env.settings, env.settings.broker, env.link
    client = RemotingClient(env.reactor, source_ip=_source_ip(config))
    ha_settings = _slave_settings(settings)
    parts = _Parts(env, store, tasks, client, KnownMaster.from_settings(ha_settings), process_time())
    slave_waits = CopyWaits(config.slave_timeout / 1000)
    flush_waits = PendingAcks(settings.store.sync_flush_timeout / 1000, PutStatus.FLUSH_DISK_TIMEOUT)
    ha_master = _make_ha_master(parts, slave_waits)
    is_member = settings.dledger.enable_dleger_commit_log
    ha_address = _ha_address(config) if is_member else _listen_for_slaves(ha_master, config)
    topics, offsets, subscriptions = _load_tables(env)
    sync = _make_metadata_sync(parts, topics, offsets, subscriptions)
    follower = MasterFollower(parts.known_master, sync, tasks, link.emit) if config.is_slave else None
    registration = Registration(config, topics, client, ha_address, link.emit, tasks, follower, errors=link.errors)
    group_flush = GroupFlush(Syncs(store), flush_waits, caller(env.reactor, tasks.start_soon), env.reactor.defer)
    growth = AppendFollowUp(env.reactor, store, ha_master, group_flush)
    broker = Broker(
        settings=settings,
        config=config,
        store=store,
        topics=topics,
        subscriptions=subscriptions,
        offsets=offsets,
        ha_master=ha_master,
        ha_slave=_make_ha_slave(parts, ha_settings, ha_master, growth, sync, registration),
        client=client,
        registration=registration,
        sync=sync,
        growth=growth,
        flush_waits=flush_waits,
        slave_waits=slave_waits,
        hold=arrivals.hold,
        due_alarm=arrivals.due_alarm,
        tasks=tasks,
        later=env.reactor.again,
        now_millis=wall_clock(),
        now=parts.now,
        emit=link.emit,
        errors=link.errors,
        access=env.access,
        started_at_millis=wall_millis(),
        replication=env.replication,
        traffic=env.reactor.meter,
    )
    return broker, _join_group(env, store, growth, tasks) if is_member else None


def _load_tables(env: Environment) -> tuple[TopicTable, ConsumerOffsetTable, SubscriptionGroupTable]:
    """Load topics, consumer offsets and subscription groups. StoreError."""
    config, directory = env.settings.broker, _config_dir(env)
    return (
        TopicTable(config, directory / "topics.json", wall_millis, env.reactor.defer),
        ConsumerOffsetTable(directory / "consumerOffset.json"),
        SubscriptionGroupTable(config, directory / "subscriptionGroup.json", wall_millis, env.reactor.defer),
    )


def _config_dir(env: Environment) -> Path:
    return env.settings.store.store_path_root_dir / "config"


def _make_metadata_sync(
    parts: _Parts, topics: TopicTable, offsets: ConsumerOffsetTable, subscriptions: SubscriptionGroupTable
) -> MetadataSync:
    """Make the sync of a slave's tables with those of its master."""
    return MetadataSync(
        parts.env.settings.broker.address,
        topics,
        offsets,
        subscriptions,
        _config_dir(parts.env) / "delayOffset.json",
        parts.client,
        parts.env.link.emit,
        parts.known_master,
        errors=parts.env.link.errors,
    )


def _make_ha_slave(
    parts: _Parts,
    ha_settings: HaSettings,
    ha_master: HaMaster,
    growth: AppendFollowUp,
    sync: MetadataSync,
    registration: Registration,
) -> HaSlave:
    """Make the slave's side of replication, with its checks and reports."""
    env, client, known_master = parts.env, parts.client, parts.known_master
    config, link = env.settings.broker, env.link
    identity = Identity(config.broker_cluster_name, config.broker_name)
    return HaSlave(
        env.reactor,
        parts.store,
        ha_settings,
        known_master,
        on_received=growth.received,
        emit=link.emit,
        connection_observer=HandbackAtConnect(known_master, sync, registration, parts.tasks),
        master_check=MasterPrecheck(
            parts.store,
            identity,
            client,
            link.emit,
            known_master,
            before_cut=lambda: ha_master.disconnect_slaves("our log is cut"),
        ),
        trouble_observer=TroubleReporter(identity, config.broker_id, link.name, client, known_master, parts.now),
        source_ip=_source_ip(config),
        meter=env.replication,
        now=parts.now,
    )


def _join_group(env: Environment, store: MessageStore, growth: AppendFollowUp, tasks: TaskStarter) -> "GroupMember":
    from rmqlab.broker.dledger.entrylog import EntryLog  # noqa: PLC0415 -- few brokers are members of a group
    from rmqlab.broker.dledger.membership import join_group  # noqa: PLC0415

    assert isinstance(store.log, EntryLog)
    client = RemotingClient(env.reactor, source_ip=_source_ip(env.settings.broker), meter=env.replication)
    return join_group(store, store.log, growth, client, env.reactor, tasks)


def _make_ha_master(parts: _Parts, slave_waits: CopyWaits) -> HaMaster:
    env = parts.env
    return HaMaster(
        env.reactor,
        parts.store,
        env.settings.ha,
        on_ack=slave_waits.advance,
        on_lost=slave_waits.fail_lost,
        emit=env.link.emit,
        is_slave=env.settings.broker.is_slave,
        meter=env.replication,
        now=parts.now,
    )


def _listen_for_slaves(ha_master: HaMaster, config: BrokerConfig) -> str:
    """Open the HA port; return the HA address for registrations.

    StartError if the port cannot be opened.
    """
    try:
        _, port = ha_master.listen(config.listen_address, _ha_port(config))
    except OSError as exc:
        raise StartError(exc.strerror or str(exc)) from None
    return f"{config.broker_ip2}:{port}"


def _ha_address(config: BrokerConfig) -> str:
    return f"{config.broker_ip2}:{_ha_port(config)}"


def _ha_port(config: BrokerConfig) -> int:
    return config.ha_listen_port if config.ha_listen_port is not None else config.listen_port + HA_PORT_DISTANCE


def _slave_settings(settings: BrokerSettings) -> HaSettings:
    """Return the HA settings of the slave's side; a master follows no other broker."""
    return settings.ha if settings.broker.is_slave else attrs.evolve(settings.ha, ha_master_address="")


def _source_ip(config: BrokerConfig) -> str | None:
    """Return the local address of outgoing connections.

    None lets the system choose it.
    """
    return None if config.listen_address in ANYWHERE else config.listen_address
