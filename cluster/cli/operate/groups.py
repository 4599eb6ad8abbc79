"""groups: list, create, update, delete, lag."""

from collections.abc import Awaitable, Callable

import click
from rich.text import Text

from rmqlab.cluster.cli.group import CommandGroup
from rmqlab.cluster.cli.operate.command import Lines, brokers_option, cluster_option, operation
from rmqlab.cluster.cli.operate.rows import table_of, time_text, without_master_lines
from rmqlab.cluster.operate import groups
from rmqlab.cluster.operate.errors import InvalidOperationError
from rmqlab.cluster.operate.results import as_json
from rmqlab.cluster.operate.session import Operator, Scope
from rmqlab.runtime.text.printable import printable

groups_app = CommandGroup(
    "groups", help="List, create, update and delete consumer groups, and show how far they are behind."
)

group_name_argument = click.argument("group", help="Name of the consumer group.")

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
@click.option("everything", "--all", is_flag=True, help="Also those of RocketMQ itself.")
@operation(_listed)
async def list_groups(operator: Operator, *, everything: bool) -> list[groups.Group]:
    """List consumer groups, with their settings at each broker."""
    return [one for one in await groups.list_groups(operator) if everything or not one.is_system]


def _changing(act: Callable[..., Awaitable[groups.ChangedGroup]]) -> Callable[..., None]:
    """Return the function of a command that changes a group."""

    @group_name_argument
    @click.option(
        "--broker-id", "-i", help="Broker id that members pull from: 0 is the master, and that of a new group."
    )
    @click.option(
        "--when-slow",
        "-w",
        help="Broker id that members pull from when far behind (whichBrokerWhenConsumeSlowly); 1 in a new group.",
    )
    @click.option("--retries", "-r", help="Redeliveries before a message is a dead letter; 16 in a new group.")
    @click.option("--retry-queues", help="Queues of the retry topic; 1 in a new group.")
    @cluster_option
    @brokers_option
    @click.option("--consume/--no-consume", default=None, help="Members may pull.")
    @click.option("--broadcast/--no-broadcast", default=None, help="Members may pull in broadcasting.")
    @click.option("--from-min/--no-from-min", default=None, help="New members may begin at the first offset.")
    @click.option("--notify/--no-notify", default=None, help="Tell members at once when another joins or leaves.")
    @operation(_changed)
    async def change(
        operator: Operator,
        group: str,
        broker_id: str | None,
        when_slow: str | None,
        retries: str | None,
        retry_queues: str | None,
        cluster: str,
        brokers: tuple[str, ...],
        *,
        consume: bool | None,
        broadcast: bool | None,
        from_min: bool | None,
        notify: bool | None,
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
        return await act(operator, changed, Scope(cluster=cluster, brokers=brokers))

    return change


groups_app.command("create", help="Create a consumer group at all masters; other settings are RocketMQ's defaults.")(
    _changing(groups.create_group)
)
groups_app.command("update", help="Change settings of a consumer group at the masters that have it; the rest stays.")(
    _changing(groups.update_group)
)


@groups_app.command("delete")
@group_name_argument
@click.option("--offsets", is_flag=True, help="Delete its offsets, too.")
@operation(_deleted)
async def delete(operator: Operator, group: str, *, offsets: bool) -> groups.DeletedGroup:
    """Delete a consumer group at all masters, with its retry and dead-letter topics.

    Does not ask.
    """
    return await groups.delete_group(operator, group, drop_offsets=offsets)


@groups_app.command("lag")
@click.argument("group", default=None, help="The group; all groups, if absent.")
@click.option("--topic", "-t", help="Only this topic.")
@operation(_lags, lambda result: as_json(result[0]))
async def lag(operator: Operator, group: str | None, topic: str | None) -> Lags:
    """Show how far consumer groups are behind; of one group, in each queue."""
    if group is not None:
        return [await groups.group_lag(operator, group, topic)], True
    if topic is not None:
        raise InvalidOperationError("--topic needs a group")
    return await groups.all_lags(operator), False
