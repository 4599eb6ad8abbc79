"""Detects saved offsets that no client with a journal committed.

Consumers journal each commit. So a larger saved offset was set by an operator, by a client without a journal, or by
another program in the file. A group that continues at such an offset skips messages.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping

from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.metrics import Source

GroupQueueKey = tuple[str, str, str, int]
"""Consumer group, topic, broker name and queue id."""


def judged_groups(conditions: Conditions, groups_of: Mapping[str, Collection[str]]) -> set[str]:
    """Return the groups whose commits are all in journals.

    `groups_of` are the groups of each workload. Excluded are groups with members that were killed (their last commits may
    be missing), still run, or have no journal, and groups that a request reset.
    """
    if any(Source.CONSUMERS in gap.sources or Source.SUPERVISOR in gap.sources for gap in conditions.gaps):
        return set()
    unsure = {*conditions.killed_workloads, *conditions.running_workloads}
    open_groups = {group for node, groups in groups_of.items() if node in unsure for group in groups}
    every = set(itertools.chain.from_iterable(groups_of.values()))
    return every - open_groups - conditions.reset_groups - conditions.outside_groups


def uncommitted_offsets(
    node: str,
    broker: str,
    table: Mapping[str, Mapping[int, int]],
    highest: Mapping[GroupQueueKey, int],
    groups: Collection[str],
) -> Iterator[str]:
    """Yield a line for each group with an offset that it did not commit.

    `table` has offsets by `topic@group` and queue id. `highest` has the largest commits; for a queue without any, the
    lowest delivered offset, at or below which the group began. The line has the largest distance.
    """
    worst: dict[str, tuple[int, str]] = {}
    for key, queues in table.items():
        topic, _, group = key.partition("@")
        for queue, offset in queues.items() if group in groups else ():
            known = highest.get((group, topic, broker, queue))
            if known is not None and offset > known:
                text = (
                    f"{group} has offset {offset} in {topic}@{broker}:{queue}, and no client of a journal committed"
                    f" more than {known}"
                )
                worst[group] = max(worst.get(group, (0, "")), (offset - known, text))
    for _, (by, text) in sorted(worst.items()):
        yield f"{node}: config/consumerOffset.json: {text}: it skips up to {by} messages when it continues"
