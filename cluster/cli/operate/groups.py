"""groups: list, create, update, delete, lag."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer
from rich.text import Text

from rmqlab.cluster.cli.operate.command import Brokers, Cluster, Lines, operation, operator_app
from rmqlab.cluster.cli.operate.rows import table_of, time_text, without_master_lines
from rmqlab.cluster.operate import groups
from rmqlab.cluster.operate.errors import InvalidOperationError
from rmqlab.cluster.operate.results import as_json
from rmqlab.cluster.operate.session import Operator, Scope
from rmqlab.runtime.printable import printable

groups_app = operator_app("List, create, update and delete consumer groups, and show how far they are behind.")

GroupName = Annotated[str, typer.Argument(help="Name of the consumer group.")]
BrokerId = Annotated[
    str | None, typer.Option("--broker-id", "-i", help="Broker id that members pull from: 0 is the master.")
]
WhenSlow = Annotated[
    str | None,
    typer.Option(
        "--when-slow", "-w", help="Broker id that members pull from when far behind (whichBrokerWhenConsumeSlowly)."
    ),
]
Retries = Annotated[str | None, typer.Option("--retries", "-r", help="Redeliveries before a message is a dead letter.")]
RetryQueues = Annotated[str | None, typer.Option("--retry-queues", help="Queues of the retry topic.")]
Consume = Annotated[bool | None, typer.Option("--consume/--no-consume", help="Members may pull.")]
Broadcast = Annotated[bool | None, typer.Option("--broadcast/--no-broadcast", help="Members may pull in broadcasting.")]
FromMin = Annotated[
    bool | None, typer.Option("--from-min/--no-from-min", help="New members may begin at the first offset.")
]
Notify = Annotated[
    bool | None, typer.Option("--notify/--no-notify", help="Tell members at once when another joins or leaves.")
]

_COLUMNS = "GROUP|BROKER|CONSUME|>RETRIES|>BROKER ID|>WHEN SLOW"


def _rows(group: str, brokers: tuple[groups.GroupAt, ...]) -> list[tuple[object, ...]]:
    return [(group, at.broker, "yes" if at.consume else "no", at.retries, at.broker_id, at.when_slow) for at in brokers]


def _listed(result: list[groups.Group]) -> Lines:
    yield table_of(_COLUMNS, (row for one in result for row in _rows(one.group, one.brokers)))


def _changed(result: groups.ChangedGroup) -> Lines:
    yield table_of(_COLUMNS, _rows(result.group, result.brokers))
    yield from without_master_lines(result.without_master)


def _deleted(result: groups.DeletedGroup) -> Lines:
    offsets = "with its offsets" if result.offsets_deleted else "its offsets stay"
    yield Text(printable(f"deleted group {result.group} at {', '.join(result.brokers)}; {offsets}"))
    if result.topics:
        yield Text(printable(f"deleted its topics {', '.join(result.topics)}"))
    if result.members:
        yield Text(f"members online ({result.members}): their next heartbeats create the group again", "yellow")
    yield from without_master_lines(result.without_master)


Lags = tuple[list[groups.GroupLag], bool]
"""Groups, and whether the queues of the only one are shown."""


def _lags(result: Lags) -> Lines:
    found, has_queues = result
    if not has_queues:
        rows = ((one.group, one.members, f"{one.tps:.1f}", one.lag if one.queues else None) for one in found)
        yield table_of("GROUP|>MEMBERS|>PER SECOND|>LAG", rows)
        return
    (one,) = found
    queues = (
        (
            f"{queue.topic}@{queue.broker}:{queue.queue}",
            queue.consumer_offset,
            queue.max_offset,
            queue.lag,
            time_text(queue.last_consumed_at),
        )
        for queue in one.queues
    )
    yield table_of("QUEUE|>CONSUMED|>MAX|>LAG|LAST CONSUMED WAS STORED", queues)
    yield f"lag {one.lag}  members online {one.members}  {one.tps:.1f} per second"


@groups_app.command("list")
@operation(_listed)
async def list_groups(
    operator: Operator,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also those of RocketMQ itself.")] = False,
) -> list[groups.Group]:
    """List consumer groups, with their settings at each broker."""
    return [one for one in await groups.list_groups(operator) if everything or not one.is_system]


def _changing(act: Callable[..., Awaitable[groups.ChangedGroup]], help_text: str) -> Callable[..., None]:
    """Return the command of an operation that changes a group."""

    async def change(
        operator: Operator,
        group: GroupName,
        broker_id: BrokerId = None,
        when_slow: WhenSlow = None,
        retries: Retries = None,
        retry_queues: RetryQueues = None,
        cluster: Cluster = "",
        brokers: Brokers = None,
        *,
        consume: Consume = None,
        broadcast: Broadcast = None,
        from_min: FromMin = None,
        notify: Notify = None,
    ) -> groups.ChangedGroup:
        changed = groups.GroupChange.of(
            group,
            broker_id=broker_id,
            when_slow=when_slow,
            retries=retries,
            retry_queues=retry_queues,
            consume=consume,
            broadcast=broadcast,
            from_min=from_min,
            notify=notify,
        )
        return await act(operator, changed, Scope(cluster=cluster, brokers=tuple(brokers or ())))

    change.__doc__ = help_text
    return operation(_changed)(change)


groups_app.command("create")(
    _changing(groups.create_group, "Create a consumer group at all masters; other settings are RocketMQ's defaults.")
)
groups_app.command("update")(
    _changing(groups.update_group, "Change settings of a consumer group at the masters that have it; the rest stays.")
)


@groups_app.command("delete")
@operation(_deleted)
async def delete(
    operator: Operator,
    group: GroupName,
    *,
    offsets: Annotated[bool, typer.Option("--offsets", help="Delete its offsets, too.")] = False,
) -> groups.DeletedGroup:
    """Delete a consumer group at all masters, with its retry and dead-letter topics.

    Does not ask.
    """
    return await groups.delete_group(operator, group, drop_offsets=offsets)


@groups_app.command("lag")
@operation(_lags, lambda result: as_json(result[0]))
async def lag(
    operator: Operator,
    group: Annotated[str | None, typer.Argument(help="The group; all groups, if absent.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.")] = None,
) -> Lags:
    """Show how far consumer groups are behind; of one group, in each queue."""
    if group is not None:
        return [await groups.group_lag(operator, group, topic)], True
    if topic is not None:
        raise InvalidOperationError("--topic needs a group")
    return await groups.all_lags(operator), False
