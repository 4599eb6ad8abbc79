"""Allocation of queues: each member computes it from the same two sorted lists.

Pure. Members agree only if all use the same strategy on the same lists, so each strategy returns exactly the result of
Java's class of the same name (package org.apache.rocketmq.client.consumer.rebalance).
"""

import bisect
import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Sequence

import attrs

from rmqlab.client.errors import StrategyError
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.runtime.config.validators import shown

log = logging.getLogger(__name__)

Queues = Sequence[MessageQueue]
Strategy = Callable[[str, Queues, Sequence[str]], list[MessageQueue]]
"""(own client id, all queues of a topic, all member ids) to own queues. Both lists sorted, the own id among them."""


def sort_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Return queues sorted by topic, broker name and queue id."""
    return sorted(queues, key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id))


def allocate(
    strategy: Strategy, own_id: str, queues: Iterable[MessageQueue], members: Iterable[str]
) -> list[MessageQueue]:
    """Sort both lists and apply the strategy.

    A member that is not in the list gets no queues. StrategyError if the strategy raises an exception, or returns what
    is no list of queues.
    """
    ids = sorted(members)  # duplicates stay: every member counts a member with two connections twice
    if own_id not in ids:
        return []
    try:
        return [_queue(one) for one in strategy(own_id, sort_queues(queues), ids)]
    except Exception as exc:
        log.exception("an allocation strategy failed")
        raise StrategyError(f"the allocation strategy failed: {exc!r}") from exc


def _queue(value: object) -> MessageQueue:
    if not isinstance(value, MessageQueue):
        raise TypeError(f"{shown(value)}: expected a MessageQueue")
    return value


def averagely(own_id: str, queues: Queues, members: Sequence[str]) -> list[MessageQueue]:
    """Assign neighbouring queues in equal shares.

    The first members get the remainder, one each.
    """
    index = members.index(own_id)
    share, rest = divmod(len(queues), len(members))
    start = index * share + min(index, rest)
    return list(queues[start : start + share + (index < rest)])


def averagely_by_circle(own_id: str, queues: Queues, members: Sequence[str]) -> list[MessageQueue]:
    """Assign queues in turn, one by one."""
    return list(queues[members.index(own_id) :: len(members)])


def by_config(own: Iterable[MessageQueue]) -> Strategy:
    """Return the configured queues, independent of other members."""
    fixed = list(own)
    return lambda _own_id, _queues, _members: list(fixed)


def by_machine_room(rooms: Collection[str]) -> Strategy:
    """Share out the queues of some machine rooms.

    A broker's room is the part of its name before an `@`.
    """

    def strategy(own_id: str, queues: Queues, members: Sequence[str]) -> list[MessageQueue]:
        near = [queue for queue in queues if _room_of_broker(queue.broker_name) in rooms]
        index = members.index(own_id)
        share = len(near) // len(members)
        extra = near[len(members) * share + index :][:1]  # empty from the rest-th member on
        return near[index * share : (index + 1) * share] + extra

    return strategy


def _room_of_broker(broker_name: str) -> str | None:
    room, at, name = broker_name.rstrip("@").partition("@")  # Java's split drops empty parts at the end
    return room if at and name and "@" not in name else None


def by_nearest_machine_room(
    strategy: Strategy, room_of_queue: Callable[[MessageQueue], str], room_of_member: Callable[[str], str]
) -> Strategy:
    """Apply a strategy within each machine room.

    Queues of a room without members are shared by all.
    """

    def nearest(own_id: str, queues: Queues, members: Sequence[str]) -> list[MessageQueue]:
        own_room = room_of_member(own_id)
        occupied = {room_of_member(member) for member in members}
        neighbours = [member for member in members if room_of_member(member) == own_room]
        own: list[MessageQueue] = []
        by_room: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_room.setdefault(room_of_queue(queue), []).append(queue)
        if own_room in by_room:
            own += strategy(own_id, by_room[own_room], neighbours)
        for room in sorted(by_room.keys() - occupied):
            own += strategy(own_id, by_room[room], members)
        return own

    return nearest


def consistent_hash(virtual_nodes: int = 10) -> Strategy:
    """Place members and queues on a hash ring.

    When a member joins or leaves, few queues move.
    """

    def strategy(own_id: str, queues: Queues, members: Sequence[str]) -> list[MessageQueue]:
        ring = _Ring.of(members, virtual_nodes)
        return [queue for queue in queues if ring.member_for(_java_text(queue)) == own_id]

    return strategy


@attrs.frozen
class _Ring:
    points: list[int]
    members: dict[int, str]

    @classmethod
    def of(cls, members: Sequence[str], virtual_nodes: int) -> "_Ring":
        placed: dict[int, str] = {}
        replicas: dict[str, int] = {}
        for member in members:
            first = replicas.get(member, 0)  # an id that is listed twice has twice the nodes
            replicas[member] = first + virtual_nodes
            for replica in range(first, first + virtual_nodes):
                placed[_point(f"{member}-{replica}")] = member
        return cls(sorted(placed), placed)

    def member_for(self, text: str) -> str:
        at = bisect.bisect_left(self.points, _point(text))
        return self.members[self.points[at % len(self.points)]]


def _point(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _java_text(queue: MessageQueue) -> str:
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
