"""Nodes whose clocks contradict those of others.

Table: clock_bounds; metric: clock_disagreement NODE. A row of the table is the largest difference by which events show
one node's clock behind another's. Spark joins sends, deliveries and copies by message id; this process receives only
one row per pair of nodes.
"""

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rmqlab.pipeline.audit.facts import Run
from rmqlab.pipeline.audit.relations import in_memory
from rmqlab.runtime.journal_schema import EVENT_TYPES
from rmqlab.verdict.catalogue import SECONDS
from rmqlab.verdict.findings import Finding, seen

_TOLERANCE = 1000
_NOBODY = ""
"""Stands for the supervisor, which is never reported."""
_OWN = frozenset(name for name, kind in EVENT_TYPES.items() if kind.source not in ("supervisor", "any"))
"""Kinds of events that nodes report."""
_ENDS = ("node_killed", "node_stopped", "node_crashed")

_BOUNDS = f"""
with stored as (
    select /*+ shuffle_hash(m) */ c.message_id, c.broker, c.topic, c.queue, c.offset, c.stored_at, m.node
    from copies c join clock_masters m
        on c.broker = m.broker and c.stored_at >= m.at and c.stored_at < coalesce(m.until, c.stored_at + 1)
), firsts as (
    select message_id, min(stored_at) first_stored from stored group by message_id
), pairs as (
    select /*+ shuffle_hash(s) */ c.node behind, s.node ahead, s.began_at - c.stored_at millis, c.message_id,
        'stored before its send began' how
    from sends s join stored c on s.message_id = c.message_id
    union all
    select /*+ shuffle_hash(s) */ s.node, c.node, c.stored_at - s.ended_at, c.message_id, 'acknowledged before it was stored'
    from (select /*+ shuffle_hash(f) */ c.* from stored c join firsts f
            on c.message_id = f.message_id and c.stored_at = f.first_stored) c
        join sends s on s.message_id = c.message_id and s.place_topic = c.topic and s.broker = c.broker
            and s.place_queue = c.queue and s.offset = c.offset
    where s.acknowledged
    union all
    select /*+ shuffle_hash(s) */ d.node, s.node, s.began_at - d.at, d.message_id, 'delivered before its send began'
    from deliveries d join sends s on d.message_id = s.message_id
    union all
    select /*+ shuffle_hash(c) */ d.node, c.node, c.stored_at - d.at, d.message_id, 'delivered before it was stored'
    from deliveries d join stored c on d.message_id = c.message_id and d.topic = c.topic and d.broker = c.broker
        and d.queue = c.queue and d.offset = c.offset
    union all
    select behind, ahead, millis, cast(null as string), how from clock_lives
)
select behind, ahead, worst.millis, struct(worst.message_id, worst.how) worst from (
    select behind, ahead, max(struct(millis, message_id, how)) worst, {in_memory("millis")} from pairs group by behind, ahead)
where size(nulls) = 0
"""


def judge(run: Run) -> Iterator[Finding]:
    """Write the table, and yield a finding for each node that can be compared."""
    masters = [
        {"broker": broker, "node": node, "at": at, "until": until}
        for broker in run.roles.brokers
        for node, at, until in run.roles.masters_over_time(broker)
    ]
    times = {"at": "bigint", "until": "bigint"}
    run.relations.define_rows("clock_masters", masters, broker="string", node="string", **times)
    names = {"behind": "string", "ahead": "string"}
    run.relations.define_rows("clock_lives", list(_outside_lives(run)), **names, millis="bigint", how="string")
    rows = sorted(run.table("clock_bounds", _BOUNDS, is_bounded=True), key=lambda row: (row.behind, row.ahead))
    blamed = _blame(
        [row for row in rows if row.millis > _TOLERANCE], {one.name for one in run.members.values() if one.broker}
    )
    for node in sorted({name for row in rows for name in (row.behind, row.ahead)} - {_NOBODY}):
        worst = sorted(blamed.get(node, ()), key=lambda row: -row.millis)
        yield Finding(
            metric=f"clock_disagreement {node}",
            unit=SECONDS,
            value=worst[0].millis / 1000 if worst else 0.0,
            is_at_least=bool(worst),
            evidence=seen(_tell(row) for row in worst),
        )


def _outside_lives(run: Run) -> Iterator[dict[str, Any]]:
    """Yield how far nodes have events outside of their life.

    After their end, or before the cluster's start.
    """
    by_node: dict[str, list[Any]] = collections.defaultdict(list)
    for row in run.event_times:
        by_node[row.node].append(row)
    started = min((row.first_at for row in run.event_times if row.kind == "cluster_starting"), default=None)
    for node, rows in by_node.items():
        own = [row for row in rows if row.kind in _OWN]
        changes = [row for row in rows if row.kind in (*_ENDS, "node_spawned", "node_ready")]
        if own and changes and max(changes, key=lambda row: row.last_seq).kind in _ENDS:
            millis = max(row.last_at for row in own) - max(row.last_at for row in changes if row.kind in _ENDS)
            yield {"behind": _NOBODY, "ahead": node, "millis": millis, "how": "an event after the end of its node"}
        if own and started is not None:
            millis = started - min(row.first_at for row in own)
            yield {
                "behind": node,
                "ahead": _NOBODY,
                "millis": millis,
                "how": "an event before the start of the cluster",
            }


def _blame(wrong: Sequence[Any], brokers: set[str]) -> Mapping[str, list[Any]]:
    """Return the disagreements by node.

    The node that disagrees with most others is wrong; its disagreements are not counted against the others.
    """
    blamed: dict[str, list[Any]] = {}
    open_rows = list(wrong)
    while open_rows:
        edges = {frozenset((row.behind, row.ahead)) for row in open_rows}
        degree = collections.Counter(node for edge in edges for node in edge if node != _NOBODY)
        most = max(degree.values())
        candidates = sorted(node for node, count in degree.items() if count == most)
        worst = next((node for node in candidates if node not in brokers), candidates[0])
        blamed[worst] = [row for row in open_rows if worst in (row.behind, row.ahead)]
        open_rows = [row for row in open_rows if worst not in (row.behind, row.ahead)]
    return blamed


def _tell(row: Any) -> str:
    behind, ahead = (name or "the supervisor" for name in (row.behind, row.ahead))
    what = f"{row.worst.message_id}: {row.worst.how}" if row.worst.message_id else row.worst.how
    return f"{behind} is {row.millis / 1000:.2f} s or more behind {ahead}: {what}"
