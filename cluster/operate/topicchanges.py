"""Changes of topics: create, update, delete.

The model is mqadmin's updateTopic, deleteTopic. updateTopic is split in two: `create_topic` rejects an existing topic.
`update_topic` rejects a missing topic, and keeps all settings that the command omits; mqadmin replaces these with its
defaults.
"""

from collections.abc import Mapping

import attrs
import msgspec

from rmqlab.client.errors import BrokerError, NoRouteError
from rmqlab.cluster.operate.errors import ConflictError, InvalidOperationError
from rmqlab.cluster.operate.ordering import NAMESPACE, change_order_config, order_config, order_config_text
from rmqlab.cluster.operate.session import EVERYWHERE, BrokerAt, Masters, Operator, Scope
from rmqlab.cluster.operate.topicnames import unknown_topic
from rmqlab.cluster.operate.topics import TopicAt, topic_at
from rmqlab.cluster.operate.values import MAX_QUEUES, parse_optional_number, parse_permission, topic_name
from rmqlab.remoting.bodies.topic import TopicConfig
from rmqlab.remoting.codes import ResponseCode

DEFAULT_QUEUES = 8
"""mqadmin's default for both kinds of queues."""


@attrs.frozen(kw_only=True)
class TopicChange:
    """A change of a topic's configuration; None keeps a value.

    InvalidOperationError for invalid ones.
    """

    topic: str = attrs.field(converter=topic_name)
    read_queues: int | None = None
    write_queues: int | None = None
    permission: int | None = None
    order: bool | None = None

    @classmethod
    def of(
        cls,
        topic: str,
        *,
        queues: str | int | None = None,
        read_queues: str | int | None = None,
        write_queues: str | int | None = None,
        permission: str | int | None = None,
        order: bool | None = None,
    ) -> "TopicChange":
        """Return a change of parsed values. `queues` sets both numbers of queues."""
        if queues is not None and (read_queues is not None or write_queues is not None):
            raise InvalidOperationError(
                "`queues` sets both read and write queues: expected either `queues` or these two"
            )
        read, write = (queues, queues) if queues is not None else (read_queues, write_queues)
        return cls(
            topic=topic,
            read_queues=parse_optional_number(read, "number of read queues", 1, MAX_QUEUES),
            write_queues=parse_optional_number(write, "number of write queues", 1, MAX_QUEUES),
            permission=None if permission is None else parse_permission(permission),
            order=order,
        )

    @property
    def is_empty(self) -> bool:
        return all(one is None for one in (self.read_queues, self.write_queues, self.permission, self.order))

    def applied(self, before: TopicConfig) -> TopicConfig:
        """Return a configuration with this change."""
        changes = {
            "read_queue_nums": self.read_queues,
            "write_queue_nums": self.write_queues,
            "perm": self.permission,
        }
        return msgspec.structs.replace(before, **{key: value for key, value in changes.items() if value is not None})


@attrs.frozen(kw_only=True)
class ChangedTopic:
    """A topic that was created or updated, as the brokers have it now."""

    topic: str
    order_config: str | None
    """As the nameservers have it now."""
    brokers: tuple[TopicAt, ...]
    without_master: tuple[str, ...]
    """Broker names that were left out, because they have no master now."""


@attrs.frozen(kw_only=True)
class DeletedTopic:
    """A topic that was deleted, and where."""

    topic: str
    brokers: tuple[str, ...]
    messages: int | None
    """Messages that its queues had; None if unknown. Their records stay in the commit logs until these expire."""
    name_servers: tuple[str, ...]
    without_master: tuple[str, ...]


async def create_topic(operator: Operator, change: TopicChange, scope: Scope = EVERYWHERE) -> ChangedTopic:
    """Create a topic at the masters of a scope.

    OperationError if one of them has it already.
    """
    masters = await operator.masters(scope)
    tables = {one.address: await _configs(operator, one) for one in masters.found}
    if has := [one.broker for one in masters.found if change.topic in tables[one.address]]:
        raise ConflictError(
            f"topic {change.topic} already exists at {', '.join(has)}: `rmqlab topics update` changes it"
        )
    fresh = TopicConfig(
        topic_name=change.topic, read_queue_nums=DEFAULT_QUEUES, write_queue_nums=DEFAULT_QUEUES, perm=6
    )
    return await _put_all(operator, change, masters, {one: change.applied(fresh) for one in masters.found})


async def update_topic(operator: Operator, change: TopicChange, scope: Scope = EVERYWHERE) -> ChangedTopic:
    """Change a topic at the masters that have it, and keep its other values.

    OperationError for an unknown topic, or if a broker that the scope names lacks it.
    """
    if change.is_empty:
        raise InvalidOperationError(
            f"nothing to change at topic {change.topic}: expected a number of queues, a permission or order"
        )
    masters = await operator.masters(scope)
    tables = {one.address: await _configs(operator, one) for one in masters.found}
    having = [one for one in masters.found if change.topic in tables[one.address]]
    if not having:
        raise await unknown_topic(operator, change.topic, *tables.values())
    if scope.brokers and len(having) < len(masters.found):
        lacking = ", ".join(one.broker for one in masters.found if one not in having)
        raise ConflictError(f"topic {change.topic} does not exist at {lacking}: create it there")
    configs = {one: change.applied(tables[one.address][change.topic]) for one in having}
    return await _put_all(operator, change, masters, configs)


async def delete_topic(operator: Operator, topic: str) -> DeletedTopic:
    """Delete a topic at every master that has it, then at the nameservers.

    OperationError for an unknown topic, or one of RocketMQ's own. Consumer offsets stay.
    """
    topic = topic_name(topic)
    masters = await operator.masters()
    tables = {one.address: await _configs(operator, one) for one in masters.found}
    having = [one for one in masters.found if topic in tables[one.address]]
    listed = await operator.admin.topics()
    if not having and topic not in listed:
        raise await unknown_topic(operator, topic, listed, *tables.values())
    messages = await _count_messages(operator, topic)
    for one in having:
        await operator.admin.delete_topic_at(one.address, topic)
    name_servers = await operator.admin.delete_topic_route(topic)
    if await order_config(operator, topic) is not None:
        await operator.admin.delete_kv(NAMESPACE, topic)
    return DeletedTopic(
        topic=topic,
        brokers=tuple(one.broker for one in having),
        messages=messages,
        name_servers=tuple(name_servers),
        without_master=tuple(masters.without),
    )


async def _configs(operator: Operator, broker: BrokerAt) -> dict[str, TopicConfig]:
    return (await operator.admin.topic_configs(broker.address)).topic_config_table


async def _put_all(
    operator: Operator, change: TopicChange, masters: Masters, configs: Mapping[BrokerAt, TopicConfig]
) -> ChangedTopic:
    """Write the configurations of a topic.

    The nameservers get the queues of an order topic first: with each registration, brokers learn from them which
    topics are order topics. mqadmin writes them last, so a registration in between undoes `order` for 30 s.
    """
    queues = {at.broker: config.write_queue_nums for at, config in configs.items()}
    ordered = await change_order_config(operator, change.topic, queues, order=change.order)
    made = [
        await _put(operator, at, msgspec.structs.replace(config, order=at.broker in ordered))
        for at, config in configs.items()
    ]
    return ChangedTopic(
        topic=change.topic,
        order_config=order_config_text(ordered) or None,
        brokers=tuple(made),
        without_master=tuple(masters.without),
    )


async def _put(operator: Operator, broker: BrokerAt, config: TopicConfig) -> TopicAt:
    await operator.admin.create_topic(broker.address, config)
    return topic_at(broker.broker, config)


async def _count_messages(operator: Operator, topic: str) -> int | None:
    try:
        stats = await operator.admin.topic_stats(topic)
    except NoRouteError:
        return 0
    except BrokerError as exc:
        if exc.code in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SYSTEM_ERROR):
            return None
        raise
    return sum(bounds.max_offset - bounds.min_offset for bounds in stats.offset_table.values())
