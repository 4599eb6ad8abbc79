"""topics: list, create, update, delete, route, status."""

from collections.abc import Awaitable, Callable

import click
from rich.text import Text

from rmqlab.cluster.cli.group import CommandGroup
from rmqlab.cluster.cli.operate.command import Lines, brokers_option, cluster_option, operation
from rmqlab.cluster.cli.operate.rows import missing_lines, table_of, time_text, without_master_lines
from rmqlab.cluster.operate import topicchanges, topics
from rmqlab.cluster.operate.session import Operator, Scope
from rmqlab.cluster.operate.values import permission_text
from rmqlab.runtime.text.counted import counted
from rmqlab.runtime.text.printable import printable

topics_app = CommandGroup("topics", help="List, create, update, delete and show topics.")

topic_name_argument = click.argument("topic", help="Name of the topic.")


_COLUMNS = "TOPIC|BROKER|>READ|>WRITE|PERM|ORDER"


def _listed(result: topics.Topics) -> Lines:
    rows = (row for one in result.topics for row in _rows(one.topic, one.brokers))
    yield table_of(_COLUMNS, rows)
    yield from missing_lines(result.unreachable)


def _rows(topic: str, brokers: tuple[topics.TopicAt, ...]) -> list[tuple[object, ...]]:
    """Return a row for each broker of a topic.

    A topic that no reachable broker has gets one row without details.
    """
    rows: list[tuple[object, ...]] = [
        (topic, at.broker, at.read_queues, at.write_queues, permission_text(at.permission), "yes" if at.order else "no")
        for at in brokers
    ]
    return rows or [(topic, None, None, None, None, None)]


def _changed(result: topicchanges.ChangedTopic) -> Lines:
    yield table_of(_COLUMNS, _rows(result.topic, result.brokers))
    if result.order_config is not None:
        yield Text(printable(f"order topic; the nameservers have {result.order_config}"))
    yield from without_master_lines(result.without_master)


def _deleted(result: topicchanges.DeletedTopic) -> Lines:
    messages = "an unknown number of messages" if result.messages is None else counted(result.messages, "messages")
    where = ", ".join(result.brokers) or "no broker"
    yield Text(printable(f"deleted topic {result.topic} at {where}, with {messages} in its queues"))
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
    yield counted(sum(one.max_offset - one.min_offset for one in result), "messages")


@topics_app.command("list")
@click.option("everything", "--all", is_flag=True, help="Also those of RocketMQ, retries, dead letters.")
@operation(_listed)
async def list_topics(operator: Operator, *, everything: bool) -> topics.Topics:
    """List topics, with their queues and permission at each broker."""
    found = await topics.list_topics(operator)
    return found if everything else found.of_applications()


def _changing(act: Callable[..., Awaitable[topicchanges.ChangedTopic]]) -> Callable[..., None]:
    """Return the function of a command that changes a topic."""

    @topic_name_argument
    @click.option("--queues", "-q", help="Read and write queues at each broker.")
    @click.option("--read-queues", help="Read queues at each broker.")
    @click.option("--write-queues", help="Write queues at each broker.")
    @click.option("--permission", "-p", help="rw, r, w, none, or RocketMQ's number: 6, 4, 2, 0.")
    @click.option("--order/--no-order", default=None, help="Order topic: nameservers keep its queues (mqadmin -o).")
    @cluster_option
    @brokers_option
    @operation(_changed)
    async def change(
        operator: Operator,
        topic: str,
        queues: str | None,
        read_queues: str | None,
        write_queues: str | None,
        permission: str | None,
        cluster: str,
        brokers: tuple[str, ...],
        *,
        order: bool | None,
    ) -> topicchanges.ChangedTopic:
        changed = topicchanges.TopicChange.of(
            topic,
            queues=queues,
            read_queues=read_queues,
            write_queues=write_queues,
            permission=permission,
            order=order,
        )
        return await act(operator, changed, Scope(cluster=cluster, brokers=brokers))

    return change


topics_app.command("create", help="Create a topic at all masters, by default with 8 queues and permission rw.")(
    _changing(topicchanges.create_topic)
)
topics_app.command("update", help="Change queues or permission of a topic at all masters that have it.")(
    _changing(topicchanges.update_topic)
)


@topics_app.command("delete")
@topic_name_argument
@operation(_deleted)
async def delete(operator: Operator, topic: str) -> topicchanges.DeletedTopic:
    """Delete a topic and its queues at all masters and nameservers. Does not ask."""
    return await topicchanges.delete_topic(operator, topic)


@topics_app.command("route")
@topic_name_argument
@operation(_route)
async def route(operator: Operator, topic: str) -> list[topics.RouteAt]:
    """Show which brokers serve a topic, as the nameserver lists them."""
    return await topics.topic_route(operator, topic)


@topics_app.command("status")
@topic_name_argument
@operation(_status)
async def status(operator: Operator, topic: str) -> list[topics.QueueBounds]:
    """Show the first and the next offset of each queue."""
    return await topics.topic_status(operator, topic)
