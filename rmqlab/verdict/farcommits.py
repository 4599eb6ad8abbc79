"""Detects commits in journals beyond the end of their queue.

A consumer commits what it has received, so the queue has had these messages. A broker stores any offset, but a later
commit replaces it: then only the journal has it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

import attrs

from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.roles import Roles

REMOVED_KINDS = tuple(kind for kind in REMOVING_KINDS if kind != "file_deleted")
"""Kinds of events after which a queue may end earlier. An expired file leaves the queue's end."""


@attrs.frozen(kw_only=True)
class FarCommit:
    """The largest commit of a group in a queue, with the consumer that made it."""

    node: str
    group: str
    topic: str
    broker: str
    queue: int
    offset: int


@attrs.frozen(kw_only=True)
class QueueEnds:
    """The ends of queues in all stores of their broker names."""

    by_queue: Mapping[tuple[str, str, int], int]
    """By broker name, topic and queue id; only of queues with messages."""
    known: Collection[str]
    """Broker names whose stores were all read."""
    whole: Collection[str]
    """Broker names whose logs all begin at 0: a queue without messages ends at 0."""


def judged_brokers(brokers: Collection[str], losers: Iterable[str], roles: Roles, *, has_disk_fault: bool) -> set[str]:
    """Return the broker names whose queues cannot have lost their ends.

    `losers` are the nodes of events of REMOVED_KINDS. Behind a failing disk a starting broker may cut its log.
    """
    lost = {name for node in losers for name in roles.names_of(node)}
    return set() if has_disk_fault else set(brokers) - lost


def far_commits(
    commits: Iterable[FarCommit], ends: QueueEnds, brokers: Collection[str], conditions: Conditions
) -> Iterator[str]:
    """Yield a line for each consumer and group with a commit beyond its queue's end.

    The line names the farthest of these commits. Groups that a request reset are left out: it may set any offset.
    """
    worst: dict[tuple[str, str], tuple[int, str]] = {}
    for one in commits:
        end = ends.by_queue.get((one.broker, one.topic, one.queue), 0 if one.broker in ends.whole else None)
        is_judged = one.broker in brokers and one.broker in ends.known and one.group not in conditions.reset_groups
        if is_judged and end is not None and one.offset > end:
            where = f"{one.topic}@{one.broker}:{one.queue}"
            text = f"{one.group} committed offset {one.offset} in {where}, and the queue ends at {end}"
            worst[one.node, one.group] = max(worst.get((one.node, one.group), (0, "")), (one.offset - end, text))
    for (node, _), (_, text) in sorted(worst.items()):
        yield f"{node}: {text}"
