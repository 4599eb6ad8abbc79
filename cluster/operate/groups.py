"""Consumer groups: list, create, update, delete, lag.

The model is mqadmin's updateSubGroup, deleteSubGroup, consumerProgress.

mqadmin's updateSubGroup is split into `create_group` and `update_group`, as for topics. A created group has the
defaults of a broker; mqadmin sends consumeFromMinEnable and consumeBroadcastEnable as false by default.
"""

from collections.abc import Iterable

import attrs
import msgspec

from rmqlab.client.errors import BrokerError, NoRouteError
from rmqlab.cluster.operate.errors import ConflictError, InvalidOperationError, UnknownNameError, unknown
from rmqlab.cluster.operate.session import EVERYWHERE, BrokerAt, Operator, Scope
from rmqlab.cluster.operate.values import by_queue, group_name, parse_optional_number
from rmqlab.remoting.bodies.group import SubscriptionGroupConfig
from rmqlab.remoting.bodies.offset import ConsumeStats
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.names import BUILT_IN_GROUPS, DLQ_PREFIX, RETRY_PREFIX, SYSTEM_GROUP_PREFIX
from rmqlab.runtime.config.validators import INT32, INT64

_MAX_RETRY_QUEUES = 1024
_WIRE_NAMES = {
    "consume": "consume_enable",
    "broadcast": "consume_broadcast_enable",
    "from_min": "consume_from_min_enable",
    "notify": "notify_consumer_ids_changed_enable",
    "retries": "retry_max_times",
    "retry_queues": "retry_queue_nums",
    "broker_id": "broker_id",
    "when_slow": "which_broker_when_consume_slowly",
}
"""Members of the wire's SubscriptionGroupConfig, by ours."""


@attrs.frozen(kw_only=True)
class GroupChange:
    """A change of a group's settings; None keeps a value."""

    group: str = attrs.field(converter=group_name)
    consume: bool | None = None
    broadcast: bool | None = None
    from_min: bool | None = None
    notify: bool | None = None
    """Notify members when a member joins or leaves."""
    retries: int | None = None
    retry_queues: int | None = None
    broker_id: int | None = None
    """Broker id that pulls are sent to (mqadmin's -i)."""
    when_slow: int | None = None
    """Broker id that pulls are sent to when the reader is far behind: whichBrokerWhenConsumeSlowly (mqadmin's -w)."""

    @classmethod
    def of(
        cls,
        group: str,
        *,
        retries: str | int | None = None,
        retry_queues: str | int | None = None,
        broker_id: str | int | None = None,
        when_slow: str | int | None = None,
        **flags: bool | None,
    ) -> "GroupChange":
        """Return a change of parsed values."""
        return cls(
            group=group,
            retries=parse_optional_number(retries, "number of retries", 0, INT32),
            retry_queues=parse_optional_number(retry_queues, "number of retry queues", 0, _MAX_RETRY_QUEUES),
            broker_id=parse_optional_number(broker_id, "broker id", 0, INT64),
            when_slow=parse_optional_number(when_slow, "broker id when slow", 0, INT64),
            **flags,
        )

    @property
    def is_empty(self) -> bool:
        return all(getattr(self, name) is None for name in _WIRE_NAMES)

    def applied(self, before: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """Return settings with this change."""
        changes = {wire: getattr(self, name) for name, wire in _WIRE_NAMES.items()}
        return msgspec.structs.replace(before, **{key: value for key, value in changes.items() if value is not None})


@attrs.frozen(kw_only=True)
class GroupAt:
    """The settings of a group at one broker name."""

    broker: str
    consume: bool
    broadcast: bool
    from_min: bool
    notify: bool
    retries: int
    retry_queues: int
    broker_id: int
    when_slow: int


@attrs.frozen(kw_only=True)
class Group:
    """A consumer group, and its settings at each broker name."""

    group: str
    is_system: bool
    """Made by RocketMQ itself."""
    brokers: tuple[GroupAt, ...]


@attrs.frozen(kw_only=True)
class ChangedGroup:
    """A group that was created or updated, as the brokers have it now."""

    group: str
    brokers: tuple[GroupAt, ...]
    without_master: tuple[str, ...]
    """Broker names that were left out, because they have no master now."""


@attrs.frozen(kw_only=True)
class DeletedGroup:
    """A group that was deleted, and what with it."""

    group: str
    brokers: tuple[str, ...]
    offsets_deleted: bool
    topics: tuple[str, ...]
    """Its retry and dead-letter topics, deleted with it."""
    members: int
    """Members online: the next heartbeat of each creates the group again, where brokers create groups."""
    without_master: tuple[str, ...]


@attrs.frozen(kw_only=True)
class QueueLag:
    """The progress of a group in one queue. Offsets are entries of the queue."""

    topic: str
    broker: str
    queue: int
    max_offset: int
    consumer_offset: int
    lag: int
    last_consumed_at: int
    """When the last consumed message was stored, in ms; 0 if there is none."""


@attrs.frozen(kw_only=True)
class GroupLag:
    """The progress of a group."""

    group: str
    members: int
    """Members online."""
    tps: float
    lag: int
    queues: tuple[QueueLag, ...]


async def list_groups(operator: Operator) -> list[Group]:
    """Return the groups of all brokers.

    For a broker name without a master, return those of its slave.
    """
    places: dict[str, list[GroupAt]] = {}
    for data in await operator.brokers():
        table = await operator.groups.groups(data.broker_addrs[min(data.broker_addrs)])
        for name, config in table.items():
            places.setdefault(name, []).append(_group_at(data.broker_name, config))
    return [Group(group=name, is_system=is_system_group(name), brokers=tuple(places[name])) for name in sorted(places)]


def is_system_group(group: str) -> bool:
    """Return True for a group that RocketMQ itself makes."""
    return group in BUILT_IN_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


async def create_group(operator: Operator, change: GroupChange, scope: Scope = EVERYWHERE) -> ChangedGroup:
    """Create a group at the masters of a scope.

    OperationError if one of them has it already.
    """
    masters = await operator.masters(scope)
    tables = {one.address: await operator.groups.groups(one.address) for one in masters.found}
    if has := [one.broker for one in masters.found if change.group in tables[one.address]]:
        raise ConflictError(
            f"group {change.group} already exists at {', '.join(has)}: `rmqlab groups update` changes it"
        )
    fresh = SubscriptionGroupConfig(group_name=change.group)
    made = [await _put(operator, one, change.applied(fresh)) for one in masters.found]
    return ChangedGroup(group=change.group, brokers=tuple(made), without_master=tuple(masters.without))


async def update_group(
    operator: Operator, change: GroupChange, scope: Scope = EVERYWHERE, *, creates: bool = False
) -> ChangedGroup:
    """Change a group at the masters that have it, and keep its other values.

    OperationError for an unknown group; with `creates` it is created, as by mqadmin.
    """
    if change.is_empty and not creates:
        raise InvalidOperationError(f"nothing to change at group {change.group}: expected a setting")
    masters = await operator.masters(scope)
    tables = {one.address: await operator.groups.groups(one.address) for one in masters.found}
    having = [one for one in masters.found if change.group in tables[one.address] or creates]
    if not having:
        raise _unknown_group(change.group, *tables.values())
    fresh = SubscriptionGroupConfig(group_name=change.group)
    changed = [
        await _put(operator, one, change.applied(tables[one.address].get(change.group, fresh))) for one in having
    ]
    return ChangedGroup(group=change.group, brokers=tuple(changed), without_master=tuple(masters.without))


async def delete_group(operator: Operator, group: str, *, drop_offsets: bool = False) -> DeletedGroup:
    """Delete a group at all masters, and its retry and dead-letter topics.

    OperationError for an unknown group, or one of RocketMQ's own. Its offsets stay, unless `drop_offsets`.
    """
    group = group_name(group)
    if is_system_group(group):
        raise ConflictError(f"{group} is a group of RocketMQ's own")
    masters = await operator.masters()
    tables = {one.address: await operator.groups.groups(one.address) for one in masters.found}
    having = [one for one in masters.found if group in tables[one.address]]
    if not having:
        raise _unknown_group(group, *tables.values())
    members = await count_members(operator, group)
    for one in having:
        await operator.groups.delete_group(one.address, group, drop_offsets=drop_offsets)
    listed = await operator.admin.topics()
    topics = [topic for topic in (RETRY_PREFIX + group, DLQ_PREFIX + group) if topic in listed]
    for topic in topics:
        for one in masters.found:
            await operator.admin.delete_topic_at(one.address, topic)
        await operator.admin.delete_topic_route(topic)
    return DeletedGroup(
        group=group,
        brokers=tuple(one.broker for one in having),
        offsets_deleted=drop_offsets,
        topics=tuple(topics),
        members=members,
        without_master=tuple(masters.without),
    )


async def group_lag(operator: Operator, group: str, topic: str | None = None) -> GroupLag:
    """Return how far a group is behind in each queue.

    OperationError for an unknown group.
    """
    await check_group(operator, group)
    return await _lag(operator, group, topic)


async def all_lags(operator: Operator) -> list[GroupLag]:
    """Return the progress of all groups but those of RocketMQ's own."""
    return [await _lag(operator, one.group) for one in await list_groups(operator) if not one.is_system]


async def check_group(operator: Operator, group: str) -> None:
    """Raise OperationError for an unknown group, with the near miss."""
    group = group_name(group)
    known = {one.group for one in await list_groups(operator)}
    if group not in known:
        raise _unknown_group(group, known)


def _unknown_group(group: str, *listed: Iterable[str]) -> UnknownNameError:
    """Return the error for an unknown group: of the listed ones, it names the user's."""
    return unknown("group", group, {name for names in listed for name in names if not is_system_group(name)})


async def consume_stats(operator: Operator, group: str, topic: str | None = None) -> ConsumeStats:
    """Return the progress of a group; empty if it never consumed."""
    try:
        return await operator.groups.consume_stats(group, topic)
    except NoRouteError:  # it has no retry topic: it never had a member
        return ConsumeStats()


async def count_members(operator: Operator, group: str) -> int:
    """Return the number of a group's members that are online.

    The first broker of the group's route is asked.
    """
    try:
        return len((await operator.groups.consumer_connection(group)).connection_set)
    except NoRouteError:
        return 0
    except BrokerError as exc:
        if exc.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return 0
        raise


async def _lag(operator: Operator, group: str, topic: str | None = None) -> GroupLag:
    stats = await consume_stats(operator, group, topic)
    queues = tuple(
        QueueLag(
            topic=queue.topic,
            broker=queue.broker_name,
            queue=queue.queue_id,
            max_offset=progress.broker_offset,
            consumer_offset=progress.consumer_offset,
            lag=progress.broker_offset - progress.consumer_offset,
            last_consumed_at=progress.last_timestamp,
        )
        for queue, progress in by_queue(stats.offset_table)
    )
    return GroupLag(
        group=group,
        members=await count_members(operator, group),
        tps=stats.consume_tps,
        lag=sum(one.lag for one in queues),
        queues=queues,
    )


async def _put(operator: Operator, broker: BrokerAt, config: SubscriptionGroupConfig) -> GroupAt:
    await operator.groups.create_group(broker.address, config)
    return _group_at(broker.broker, config)


def _group_at(broker: str, config: SubscriptionGroupConfig) -> GroupAt:
    return GroupAt(broker=broker, **{name: getattr(config, wire) for name, wire in _WIRE_NAMES.items()})
