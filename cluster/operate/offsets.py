"""Consumer offsets: show them at master and slaves, and reset them.

The model is mqadmin's resetOffsetByTime.
"""

from collections.abc import Mapping

import attrs

from rmqlab.client import broker_api as calls
from rmqlab.client.errors import BrokerError, NoRouteError
from rmqlab.client.instance import FAILURES
from rmqlab.cluster.operate.errors import ConflictError, unknown
from rmqlab.cluster.operate.groups import check_group, count_members
from rmqlab.cluster.operate.session import Operator, list_brokers
from rmqlab.cluster.operate.topics import find_route
from rmqlab.cluster.operate.values import NOW, QueueAt, by_queue, group_name, queue_text
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.bodies.topic import TopicOffset
from rmqlab.remoting.names import MASTER_ID


@attrs.frozen(kw_only=True)
class QueueOffsets:
    """The offsets of a group in one queue, at each broker of its name."""

    topic: str
    broker: str
    queue: int
    min_offset: int | None
    max_offset: int | None
    """Bounds of the queue; None if unknown."""
    committed: Mapping[int, int]
    """Committed offset by broker id, of those brokers that have one."""


@attrs.frozen(kw_only=True)
class GroupOffsets:
    """The committed offsets of a group."""

    group: str
    queues: tuple[QueueOffsets, ...]
    replied: Mapping[str, tuple[int, ...]]
    """Ids of the brokers that replied, by name. One that `committed` of a queue lacks has no offset there."""
    unreachable: Mapping[str, str]
    """Why brokers did not reply, by address: their offsets are missing."""


@attrs.frozen(kw_only=True)
class QueueReset:
    """A reset offset of one queue."""

    broker: str
    queue: int
    before: int | None
    """The offset before; None if the group had none, or it is unknown."""
    after: int


@attrs.frozen(kw_only=True)
class OffsetReset:
    """The reset offsets of a group in a topic."""

    group: str
    topic: str
    members: int
    """Members online, which have the new offsets and commit them."""
    queues: tuple[QueueReset, ...]


async def show_offsets(operator: Operator, group: str, topic: str | None = None) -> GroupOffsets:
    """Return the offsets of a group at every broker.

    OperationError for a group that is unknown and has none.
    """
    group = group_name(group)
    committed: dict[MessageQueue, dict[int, int]] = {}
    replied: dict[str, list[int]] = {}
    unreachable = {}
    for broker in list_brokers(await operator.admin.cluster_info()):
        try:
            table = (await operator.groups.consumer_offsets(broker.address)).offset_table
        except FAILURES as exc:
            unreachable[broker.address] = str(exc)
            continue
        replied.setdefault(broker.broker, []).append(broker.broker_id)
        for key, offsets in table.items():
            of_topic, _, of_group = key.partition("@")
            if of_group == group and topic in (None, of_topic):
                for queue_id, offset in offsets.items():
                    queue = MessageQueue(topic=of_topic, broker_name=broker.broker, queue_id=queue_id)
                    committed.setdefault(queue, {})[broker.broker_id] = offset
    if topic is not None:
        await find_route(operator, topic)
    if not committed and not unreachable:
        await check_group(operator, group)
    bounds: dict[MessageQueue, TopicOffset] = {}
    for one in sorted({queue.topic for queue in committed}):
        try:
            bounds |= await _bounds(operator, one)
        except FAILURES as exc:
            if not unreachable:  # otherwise it is most likely the master that did not reply above
                unreachable[f"bounds of {one}"] = str(exc)
    return GroupOffsets(
        group=group,
        queues=tuple(_offsets_of(queue, found, bounds.get(queue)) for queue, found in by_queue(committed)),
        replied={name: tuple(sorted(ids)) for name, ids in replied.items()},
        unreachable=unreachable,
    )


async def reset_to_time(
    operator: Operator, group: str, topic: str, timestamp: int, *, only_back: bool = False
) -> OffsetReset:
    """Reset a group to a time in milliseconds (FIRST, NOW: the ends of the queues).

    Members that are online get the new offsets and commit them. Without any, the offsets are written at the masters,
    also of queues in which the group has none yet. With `only_back` no offset moves forward.
    """
    before = await _before(operator, group, topic)
    if await count_members(operator, group):
        moved = await operator.groups.reset_offsets(group, topic, timestamp, is_force=not only_back)
    else:  # request 222 fails for a group that has no offset in one of the queues
        moved = {}
        for queue in await calls.queues_of(operator.client, topic):
            offset = await _offset_at(operator, queue, timestamp)
            if not only_back or offset <= before.get(queue, offset):
                await operator.groups.commit_offset(group, queue, offset)
                moved[queue] = offset
    return await _report(operator, group, topic, before, moved)


async def reset_to_offset(
    operator: Operator, group: str, topic: str, offset: int, queue: QueueAt | None = None
) -> OffsetReset:
    """Write an offset for one queue of a topic, or for all of them.

    OperationError for an offset outside of a queue, or while the group has members: each would commit its own again.
    RocketMQ 4.9 resets a group with members to a time only.
    """
    before = await _before(operator, group, topic)
    if members := await count_members(operator, group):
        raise ConflictError(
            f"group {group} has members online ({members}), which would commit their own offsets again:"
            " stop them before, or reset to a time"
        )
    queues = await calls.queues_of(operator.client, topic)
    if queue is not None:
        known = {f"{one.broker_name}:{one.queue_id}": one for one in queues}
        named = f"{queue.broker}:{queue.queue_id}"
        if named not in known:
            raise unknown("queue", named, known, of=f"topic {topic}")
        queues = [known[named]]
    bounds = await _bounds(operator, topic)
    for one in queues:
        limits = bounds.get(one)
        if limits is not None and not limits.min_offset <= offset <= limits.max_offset:
            raise ConflictError(
                f"offset {offset} is outside of {queue_text(one)}, which has {limits.min_offset} to {limits.max_offset}"
            )
    for one in queues:
        await operator.groups.commit_offset(group, one, offset)
    return await _report(operator, group, topic, before, dict.fromkeys(queues, offset))


async def _before(operator: Operator, group: str, topic: str) -> dict[MessageQueue, int]:
    """Check group and topic; return the present offsets of the group in the topic.

    A broker name without a master is an error: offsets written at a slave are lost when the master returns. Each master
    is asked for the consume stats of the group; it records the offsets which this connection writes then as a reset.
    """
    await check_group(operator, group)
    route = await find_route(operator, topic)
    without = [data.broker_name for data in route.broker_datas if MASTER_ID not in data.broker_addrs]
    if without:
        raise ConflictError(f"{', '.join(without)} has no master now, and only masters keep a reset offset")
    before: dict[MessageQueue, int] = {}
    for data in route.broker_datas:
        stats = await operator.groups.consume_stats_at(data.broker_addrs[MASTER_ID], group)  # with a topic: also queues
        before |= {queue: progress.consumer_offset for queue, progress in stats.offset_table.items()}  # without offset
    return {queue: offset for queue, offset in before.items() if queue.topic == topic}


async def _report(
    operator: Operator, group: str, topic: str, before: Mapping[MessageQueue, int], moved: Mapping[MessageQueue, int]
) -> OffsetReset:
    ordered = sorted(moved, key=lambda queue: (queue.broker_name, queue.queue_id))
    return OffsetReset(
        group=group,
        topic=topic,
        members=await count_members(operator, group),
        queues=tuple(
            QueueReset(broker=one.broker_name, queue=one.queue_id, before=before.get(one), after=moved[one])
            for one in ordered
        ),
    )


async def _offset_at(operator: Operator, queue: MessageQueue, timestamp: int) -> int:
    if timestamp == NOW:
        return await calls.max_offset(operator.client, queue)
    return await calls.search_offset(operator.client, queue, timestamp)


async def _bounds(operator: Operator, topic: str) -> dict[MessageQueue, TopicOffset]:
    """Return the bounds of a topic's queues; empty if its brokers lack it."""
    try:
        return (await operator.admin.topic_stats(topic)).offset_table
    except (NoRouteError, BrokerError):
        return {}


def _offsets_of(queue: MessageQueue, committed: dict[int, int], bounds: TopicOffset | None) -> QueueOffsets:
    return QueueOffsets(
        topic=queue.topic,
        broker=queue.broker_name,
        queue=queue.queue_id,
        min_offset=None if bounds is None else bounds.min_offset,
        max_offset=None if bounds is None else bounds.max_offset,
        committed=dict(sorted(committed.items())),
    )
