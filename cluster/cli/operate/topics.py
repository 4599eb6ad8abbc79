"""topics: list, create, update, delete, route, status."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer
from rich.text import Text

from rmqlab.cluster.cli.operate.command import Brokers, Cluster, Lines, operation, operator_app
from rmqlab.cluster.cli.operate.rows import missing_lines, table_of, time_text, without_master_lines
from rmqlab.cluster.operate import topics
from rmqlab.cluster.operate.session import Operator, Scope
from rmqlab.cluster.operate.values import permission_text
from rmqlab.runtime.printable import printable

topics_app = operator_app("List, create, update, delete and show topics.")

TopicName = Annotated[str, typer.Argument(help="Name of the topic.")]
Queues = Annotated[str | None, typer.Option("--queues", "-q", help="Read and write queues at each broker.")]
ReadQueues = Annotated[str | None, typer.Option("--read-queues", help="Read queues at each broker.")]
WriteQueues = Annotated[str | None, typer.Option("--write-queues", help="Write queues at each broker.")]
Permission = Annotated[
    str | None, typer.Option("--permission", "-p", help="rw, r, w, none, or RocketMQ's number: 6, 4, 2, 0.")
]


def _listed(result: topics.Topics) -> Lines:
    rows = (row for one in result.topics for row in _rows(one.topic, one.brokers))
    yield table_of("TOPIC|BROKER|>READ|>WRITE|PERM", rows)
    yield from missing_lines(result.unreachable)


def _rows(topic: str, brokers: tuple[topics.TopicAt, ...]) -> list[tuple[object, ...]]:
    """Return a row for each broker of a topic.

    A topic that no reachable broker has gets one row without details.
    """
    rows: list[tuple[object, ...]] = [
        (topic, at.broker, at.read_queues, at.write_queues, permission_text(at.permission)) for at in brokers
    ]
    return rows or [(topic, None, None, None, None)]


def _changed(result: topics.ChangedTopic) -> Lines:
    yield table_of("TOPIC|BROKER|>READ|>WRITE|PERM", _rows(result.topic, result.brokers))
    yield from without_master_lines(result.without_master)


def _deleted(result: topics.DeletedTopic) -> Lines:
    messages = "an unknown number of" if result.messages is None else result.messages
    where = ", ".join(result.brokers) or "no broker"
    yield Text(printable(f"deleted topic {result.topic} at {where}, with {messages} messages in its queues"))
    yield Text(printable(f"deleted its route at {', '.join(result.name_servers)}"))
    yield from without_master_lines(result.without_master)


def _route(result: list[topics.RouteAt]) -> Lines:
    yield table_of(
        "BROKER|CLUSTER|ADDRESSES|>READ|>WRITE|PERM",
        (
            (
                one.broker,
                one.cluster,
                " ".join(f"{number}={address}" for number, address in one.addresses.items()) or "none",
                one.read_queues,
                one.write_queues,
                permission_text(one.permission),
            )
            for one in result
        ),
    )


def _status(result: list[topics.QueueBounds]) -> Lines:
    rows = [
        (f"{one.broker}:{one.queue}", one.min_offset, one.max_offset, time_text(one.last_stored_at)) for one in result
    ]
    yield table_of("QUEUE|>MIN|>MAX|LAST STORED", rows)
    yield f"{sum(one.max_offset - one.min_offset for one in result)} messages"


@topics_app.command("list")
@operation(_listed)
async def list_topics(
    operator: Operator,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also those of RocketMQ, retries, dead letters.")] = False,
) -> topics.Topics:
    """List topics, with their queues and permission at each broker."""
    found = await topics.list_topics(operator)
    return found if everything else found.of_applications()


def _changing(act: Callable[..., Awaitable[topics.ChangedTopic]], help_text: str) -> Callable[..., None]:
    """Return the command of an operation that changes a topic."""

    async def change(
        operator: Operator,
        topic: TopicName,
        queues: Queues = None,
        read_queues: ReadQueues = None,
        write_queues: WriteQueues = None,
        permission: Permission = None,
        cluster: Cluster = "",
        brokers: Brokers = None,
    ) -> topics.ChangedTopic:
        changed = topics.TopicChange.of(
            topic, queues=queues, read_queues=read_queues, write_queues=write_queues, permission=permission
        )
        return await act(operator, changed, Scope(cluster=cluster, brokers=tuple(brokers or ())))

    change.__doc__ = help_text
    return operation(_changed)(change)


topics_app.command("create")(
    _changing(topics.create_topic, "Create a topic at all masters, by default with 8 queues and permission rw.")
)
topics_app.command("update")(
    _changing(topics.update_topic, "Change queues or permission of a topic at all masters that have it.")
)


@topics_app.command("delete")
@operation(_deleted)
async def delete(operator: Operator, topic: TopicName) -> topics.DeletedTopic:
    """Delete a topic and its queues at all masters and name servers. Does not ask."""
    return await topics.delete_topic(operator, topic)


@topics_app.command("route")
@operation(_route)
async def route(operator: Operator, topic: TopicName) -> list[topics.RouteAt]:
    """Show which brokers serve a topic, as the name server lists them."""
    return await topics.topic_route(operator, topic)


@topics_app.command("status")
@operation(_status)
async def status(operator: Operator, topic: TopicName) -> list[topics.QueueBounds]:
    """Show the first and the next offset of each queue."""
    return await topics.topic_status(operator, topic)
