"""Topics: list, route, status.

The model is mqadmin's topicList, topicRoute, topicStatus.
"""

from collections.abc import Mapping

import attrs

from rmqlab.client.errors import NoRouteError
from rmqlab.client.instance import FAILURES
from rmqlab.cluster.operate.ordering import order_configs
from rmqlab.cluster.operate.session import Operator
from rmqlab.cluster.operate.topicnames import topics_of_broker, unknown_topic
from rmqlab.cluster.operate.values import by_queue, topic_name
from rmqlab.remoting.bodies.route import BrokerData, QueueData, TopicRouteData
from rmqlab.remoting.bodies.topic import TopicConfig, TopicStatsTable
from rmqlab.remoting.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic


@attrs.frozen(kw_only=True)
class TopicAt:
    """The configuration of a topic at one broker name."""

    broker: str
    read_queues: int
    write_queues: int
    permission: int
    order: bool


@attrs.frozen(kw_only=True)
class Topic:
    """A topic, and its configuration at each broker name."""

    topic: str
    is_system: bool
    """Made by RocketMQ itself."""
    order_config: str | None
    """Queues of an order topic, as the nameserver has them: `broker-a:8;broker-b:8`."""
    brokers: tuple[TopicAt, ...]


@attrs.frozen(kw_only=True)
class Topics:
    """All topics of a cluster."""

    topics: tuple[Topic, ...]
    unreachable: Mapping[str, str]
    """Why brokers did not reply, by broker name: their configurations are missing."""

    def of_applications(self) -> "Topics":
        """Leave out the topics of RocketMQ itself, of retries and of dead letters."""
        prefixes = (RETRY_PREFIX, DLQ_PREFIX)
        chosen = [one for one in self.topics if not one.is_system and not one.topic.startswith(prefixes)]
        return attrs.evolve(self, topics=tuple(chosen))


@attrs.frozen(kw_only=True)
class RouteAt:
    """A broker name in a topic's route."""

    broker: str
    cluster: str
    addresses: Mapping[int, str]
    read_queues: int
    write_queues: int
    permission: int


@attrs.frozen(kw_only=True)
class QueueBounds:
    """The offsets of a queue, and when its last message was stored.

    The time is in ms; 0 if the queue is empty.
    """

    topic: str
    broker: str
    queue: int
    min_offset: int
    max_offset: int
    last_stored_at: int


async def list_topics(operator: Operator) -> Topics:
    """Return all topics that the nameserver or a broker lists."""
    names = set(await operator.admin.topics())
    order = await order_configs(operator)
    places: dict[str, list[TopicAt]] = {name: [] for name in names}
    unreachable: dict[str, str] = {}
    system: set[str] = set()
    for data in await operator.brokers():
        broker = data.broker_name
        system |= topics_of_broker(data)
        address = data.broker_addrs[min(data.broker_addrs)]
        try:
            table = (await operator.admin.topic_configs(address)).topic_config_table
        except FAILURES as exc:
            unreachable[broker] = str(exc)
            continue
        for topic, config in table.items():
            places.setdefault(topic, []).append(topic_at(broker, config))
    return Topics(
        topics=tuple(
            Topic(
                topic=name,
                is_system=name in system or is_system_topic(name),
                order_config=order.get(name),
                brokers=tuple(places[name]),
            )
            for name in sorted(places)
        ),
        unreachable=unreachable,
    )


async def topic_route(operator: Operator, topic: str) -> list[RouteAt]:
    """Return the route of a topic, by broker name.

    OperationError for an unknown topic.
    """
    route = await find_route(operator, topic)
    brokers = {data.broker_name: data for data in route.broker_datas}
    ordered = sorted(route.queue_datas, key=lambda queues: queues.broker_name)
    return [_route_at(queues, brokers.get(queues.broker_name)) for queues in ordered]


async def topic_status(operator: Operator, topic: str) -> list[QueueBounds]:
    """Return the bounds of every queue of a topic.

    OperationError for an unknown topic.
    """
    await find_route(operator, topic)
    return queue_bounds(await operator.admin.topic_stats(topic))


def queue_bounds(table: TopicStatsTable) -> list[QueueBounds]:
    """Return the bounds of queues, sorted by topic, broker name and queue id."""
    return [
        QueueBounds(
            topic=queue.topic,
            broker=queue.broker_name,
            queue=queue.queue_id,
            min_offset=bounds.min_offset,
            max_offset=bounds.max_offset,
            last_stored_at=bounds.last_update_timestamp,
        )
        for queue, bounds in by_queue(table.offset_table)
    ]


async def find_route(operator: Operator, topic: str) -> TopicRouteData:
    """Return the route of a topic.

    OperationError for an unknown one, with the near miss.
    """
    try:
        return await operator.admin.topic_route(topic_name(topic))
    except NoRouteError:
        raise await unknown_topic(operator, topic, await operator.admin.topics()) from None


def _route_at(queues: QueueData, data: BrokerData | None) -> RouteAt:
    """Return the route to the queues of a broker name, whose addresses may be unknown."""
    return RouteAt(
        broker=queues.broker_name,
        cluster=(data.cluster or "") if data is not None else "",
        addresses=dict(sorted(data.broker_addrs.items())) if data is not None else {},
        read_queues=queues.read_queue_nums,
        write_queues=queues.write_queue_nums,
        permission=queues.perm,
    )


def topic_at(broker: str, config: TopicConfig) -> TopicAt:
    """Return the configuration of a topic at a broker name."""
    return TopicAt(
        broker=broker,
        read_queues=config.read_queue_nums,
        write_queues=config.write_queue_nums,
        permission=config.perm,
        order=config.order,
    )
