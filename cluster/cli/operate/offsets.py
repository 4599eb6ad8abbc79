"""offsets: show, reset."""

import click
from rich.text import Text

from rmqlab.cluster.cli.group import CommandGroup
from rmqlab.cluster.cli.operate.command import Lines, operation
from rmqlab.cluster.cli.operate.groups import group_name_argument
from rmqlab.cluster.cli.operate.rows import missing_lines, table_of
from rmqlab.cluster.operate import offsets
from rmqlab.cluster.operate.errors import InvalidOperationError
from rmqlab.cluster.operate.session import Operator
from rmqlab.cluster.operate.values import parse_number, parse_queue_at, parse_time

offsets_app = CommandGroup("offsets", help="Show the offsets of consumer groups at masters and slaves, and reset them.")


def _shown(result: offsets.GroupOffsets) -> Lines:
    ids = sorted({broker_id for one in result.queues for broker_id in result.replied[one.broker]})
    titles = "".join(f"|>{'MASTER' if number == 0 else f'SLAVE {number}'}" for number in ids)
    yield table_of(
        f"QUEUE|>MIN|>MAX{titles}",
        (
            (
                f"{one.topic}@{one.broker}:{one.queue}",
                one.min_offset,
                one.max_offset,
                *(one.committed.get(number) for number in ids),
            )
            for one in result.queues
        ),
    )
    if not result.queues:
        yield "no committed offset"
    yield from missing_lines(result.unreachable)


def _reset(result: offsets.OffsetReset) -> Lines:
    yield table_of(
        "QUEUE|>BEFORE|>NOW",
        ((f"{result.topic}@{one.broker}:{one.queue}", one.before, one.after) for one in result.queues),
    )
    if not result.queues:
        yield "no offset was moved"
    if result.members:
        yield Text(f"members online ({result.members}) got the new offsets and commit them", "yellow")


@offsets_app.command("show")
@group_name_argument
@click.option("--topic", "-t", help="Only this topic.")
@operation(_shown)
async def show(operator: Operator, group: str, topic: str | None) -> offsets.GroupOffsets:
    """Show the committed offsets of a group, at the master and at each slave."""
    return await offsets.show_offsets(operator, group, topic)


@offsets_app.command("reset")
@group_name_argument
@click.argument("topic", help="The topic.")
@click.option("to_time", "--time", metavar="TIME", help="first, now, -10m, an ISO time, or milliseconds since 1970.")
@click.option("to_offset", "--offset", metavar="N", help="An offset of the queues.")
@click.option("--queue", help="With --offset: only this queue, BROKER:QUEUE.")
@click.option("--only-back", is_flag=True, help="With --time: move no offset forward.")
@operation(_reset)
async def reset(
    operator: Operator,
    group: str,
    topic: str,
    to_time: str | None,
    to_offset: str | None,
    queue: str | None,
    *,
    only_back: bool,
) -> offsets.OffsetReset:
    """Reset a group in a topic to a time, or to an offset.

    Members that are online get the offsets of a time at once. To an offset, a group is reset without members.
    """
    if (to_time is None) == (to_offset is None):
        raise InvalidOperationError("expected either --time or --offset")
    if to_time is not None:
        if queue is not None:
            raise InvalidOperationError("--queue needs --offset: to a time, all queues of the topic are reset")
        time = parse_time(to_time, operator.connection.now_millis())
        return await offsets.reset_to_time(operator, group, topic, time, only_back=only_back)
    if only_back:
        raise InvalidOperationError("--only-back needs --time")
    offset = parse_number(to_offset or "", "offset")
    at = None if queue is None else parse_queue_at(queue)
    return await offsets.reset_to_offset(operator, group, topic, offset, at)
