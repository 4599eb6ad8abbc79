"""Nodes whose clocks contradict those of others.

Tables: clock_bounds, misdated_records; metrics: clock_disagreement NODE, store_time_disagreement. A row of clock_bounds
is the largest difference by which events show one node's clock behind another's, without misdated records. Spark joins
the places of each message with its sends and deliveries, once each; this process receives one row per pair of nodes.
"""

import collections
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from rmqlab.pipeline.audit.aggregates import in_memory
from rmqlab.pipeline.audit.parts import evidence_of, places
from rmqlab.pipeline.audit.relations import Query
from rmqlab.pipeline.audit.run import Run, written
from rmqlab.runtime.journals.schema import EVENT_TYPES
from rmqlab.verdict.catalogue import SECONDS, STORE_TIME_DISAGREEMENT
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.clocksteps import faulted_clocks
from rmqlab.verdict.findings import EVIDENCE_LIMIT, Finding, line_evidence, unknown
from rmqlab.verdict.storetimes import why_unknown

_TOLERANCE = 1000
_SUPERVISOR = ""
"""The supervisor, which is never reported."""
_OWN = frozenset(name for name, kind in EVENT_TYPES.items() if kind.source not in ("supervisor", "any"))
"""Kinds of events that nodes report."""
_ENDS = ("node_killed", "node_stopped", "node_crashed")

# The record may be another than the one of this time: the broker lost records in between, and stored the message again.
_AGAIN = "({at} < {record}.stored_at and exists({record}.losses, lost -> lost between {at} and {record}.stored_at))"

_EVENTS = f"""
with agreed as (
    -- Logs that disagree about the time are altered, and show nothing of a clock. All that follows is by message: the
    -- rows are spread by it once.
    select message_id, broker, topic, queue, offset, min(stored_at) stored_at
    from (select /*+ repartition(message_id) */ message_id, broker, topic, queue, offset, stored_at from {{records}})
    group by message_id, broker, topic, queue, offset having min(stored_at) = max(stored_at)
), placed as (
    select /*+ shuffle_hash(m) */ c.message_id, m.node, c.broker, c.topic, c.queue, c.offset, c.stored_at, m.losses
    from agreed c join clock_masters m
        on c.broker = m.broker and c.stored_at >= m.at and c.stored_at < coalesce(m.until, c.stored_at + 1)
), firsts as (
    select *, stored_at = min(stored_at) over (partition by message_id) is_first from placed
), met as (
    select /*+ shuffle_hash(s) */ coalesce(f.message_id, s.message_id) message_id, f.node stored, s.node sent,
        s.began_at,
        f.topic, f.broker, f.queue, f.offset, f.stored_at, f.losses,
        if(s.acknowledged and f.is_first and s.place_topic = f.topic and s.broker = f.broker and s.place_queue = f.queue
            and s.offset = f.offset and not {_AGAIN.format(at="s.ended_at", record="f")},
            f.stored_at - s.ended_at, null) acknowledged
    from firsts f full join sends s on f.message_id = s.message_id
), events as (
    select /*+ shuffle_hash(d) */ m.message_id, m.stored, m.sent, d.node got, m.began_at - m.stored_at stored_by,
        m.acknowledged, m.began_at - d.at got_by,
        if(d.topic = m.topic and d.broker = m.broker and d.queue = m.queue and d.offset = m.offset
            and not {_AGAIN.format(at="d.at", record="m")}, m.stored_at - d.at, null) got_unstored
    from met m left join deliveries d on m.message_id = d.message_id
)
"""
_BOUNDS = f"""
{_EVENTS}, highest as (
    select stored, sent, got, max(struct(stored_by millis, message_id)) stored_by,
        max(struct(acknowledged millis, message_id)) acknowledged, max(struct(got_by millis, message_id)) got_by,
        max(struct(got_unstored millis, message_id)) got_unstored, {in_memory("coalesce(stored, sent)")}
    from events group by stored, sent, got
), pairs as (
    select behind, ahead, worst.millis, worst.message_id, how from (
        select stack(4,
            stored, sent, stored_by, 'stored before its send began',
            sent, stored, acknowledged, 'acknowledged before it was stored',
            got, sent, got_by, 'delivered before its send began',
            got, stored, got_unstored, 'delivered before it was stored') as (behind, ahead, worst, how)
        from highest where size(nulls) = 0)
    where worst.millis is not null
    union all
    select behind, ahead, millis, cast(null as string), how from clock_lives
)
select behind, ahead, worst.millis, struct(worst.message_id, worst.how) worst from (
    select behind, ahead, max(struct(millis, message_id, how)) worst, {in_memory("millis")} from pairs
    group by behind, ahead)
where size(nulls) = 0
"""


# Records whose store time is not between those of the records around them. The two ahead and the two behind are in
# order: which one is wrong is not certain otherwise.
_MISDATED = f"""
with around as (
    select node, broker, topic, queue, offset, log_offset, message_id, stored_at,
        lag(stored_at) over (partition by node order by log_offset) before,
        lead(stored_at) over (partition by node order by log_offset) after,
        lag(stored_at, 2) over (partition by node order by log_offset) earliest,
        lead(stored_at, 2) over (partition by node order by log_offset) latest
    from copies
)
select node, broker, topic, queue, offset, log_offset, message_id, stored_at, before, after from around
where before <= after and coalesce(earliest <= before, true) and coalesce(after <= latest, true)
    and (stored_at < before - {_TOLERANCE} or stored_at > after + {_TOLERANCE})
    and message_id in (
        {_EVENTS.format(records="copies")}
        select message_id from events where greatest(stored_by, acknowledged, got_unstored) > {_TOLERANCE})
"""
_MISDATED_MESSAGES = f"""
select *, count(*) over () found from (
    select message_id, min(stored_at) stored_at,
        {places("node", "log_offset", "stored_at", "")}
    from misdated_records group by message_id)
order by stored_at, message_id limit {EVIDENCE_LIMIT}
"""
_DATED = """(select c.* from copies c left anti join misdated_records m
    on c.broker = m.broker and c.topic = m.topic and c.queue = m.queue and c.offset = m.offset)"""


def judge(run: Run) -> Iterator[Finding]:
    """Write the tables, and yield a finding for each node that can be compared.

    Also `store_time_disagreement`.
    """
    losses: dict[str, list[int]] = {broker: [] for broker in run.roles.brokers}
    for one in run.cluster_events:
        if one.kind in REMOVING_KINDS and one.node in run.members:
            losses.setdefault(run.members[one.node].broker, []).append(one.at)
    masters = [
        {"broker": broker, "node": node, "at": at, "until": until, "losses": losses[broker]}
        for broker in run.roles.brokers
        for node, at, until in run.roles.masters_over_time(broker)
    ]
    times = {"at": "bigint", "until": "bigint", "losses": "array<bigint>"}
    run.relations.define_rows("clock_masters", masters, broker="string", node="string", **times)
    names = {"behind": "string", "ahead": "string"}
    run.relations.define_rows("clock_lives", list(_outside_lives(run)), **names, millis="bigint", how="string")
    rows = run.table("clock_bounds", _BOUNDS.format(records="copies"), is_bounded=True)
    is_suspected = any(row.worst.message_id and row.millis > _TOLERANCE for row in rows)
    if is_suspected and not run.conditions.has_clock_faults:
        run.table("misdated_records", _MISDATED, is_rare=True)
        bounds = written("clock_bounds", _BOUNDS.format(records=_DATED), is_bounded=True)
        rows, misdated = run.batch(bounds, Query(_MISDATED_MESSAGES))
    else:
        misdated = []
        run.write_empty("misdated_records")
    yield _judge_store_times(run, misdated, has_messages=_has_messages(run))
    rows = sorted(rows, key=lambda row: (row.behind, row.ahead))
    blamed = _blame(
        [row for row in rows if row.millis > _TOLERANCE],
        {one.name for one in run.members.values() if one.broker},
        faulted_clocks(((one.at, one.fields) for one in run.cluster_events if one.kind == "fault_applied"), run.roles),
    )
    for node in sorted({name for row in rows for name in (row.behind, row.ahead)} - {_SUPERVISOR}):
        worst = sorted(blamed.get(node, ()), key=lambda row: -row.millis)
        yield Finding(
            metric=f"clock_disagreement {node}",
            unit=SECONDS,
            value=worst[0].millis / 1000 if worst else 0.0,
            is_at_least=bool(worst),
            evidence=line_evidence(_describe(row) for row in worst),
        )


def _has_messages(run: Run) -> bool:
    return any(row.kind in ("sent", "delivered") for row in run.event_times)


def _judge_store_times(run: Run, misdated: Sequence[Any], *, has_messages: bool) -> Finding:
    metric, unit = STORE_TIME_DISAGREEMENT.name, STORE_TIME_DISAGREEMENT.unit
    faulted = run.conditions.has_clock_faults
    if why := why_unknown(has_messages=has_messages, has_stores=bool(run.stores), has_clock_faults=faulted):
        return unknown(metric, unit, why)
    evidence = tuple(map(evidence_of("its store time is not between those of the records around it"), misdated))
    found = misdated[0].found if misdated else 0
    return Finding(metric=metric, unit=unit, value=found, is_at_least=bool(run.unread), evidence=evidence)


def _outside_lives(run: Run) -> Iterator[dict[str, Any]]:
    """Yield how far nodes have events after their end or before the start.

    The supervisor records both.
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
            yield {"behind": _SUPERVISOR, "ahead": node, "millis": millis, "how": "an event after the end of its node"}
        if own and started is not None:
            millis = started - min(row.first_at for row in own)
            yield {
                "behind": node,
                "ahead": _SUPERVISOR,
                "millis": millis,
                "how": "an event before the start of the cluster",
            }


def _blame(wrong: Sequence[Any], brokers: Collection[str], faulted: Collection[str]) -> Mapping[str, list[Any]]:
    """Return the disagreements by node.

    A node whose clock a fault set wrong is wrong, else the one that disagrees with most others; its disagreements are
    not counted against the others.
    """
    blamed: dict[str, list[Any]] = {}
    open_rows = list(wrong)
    while open_rows:
        edges = {frozenset((row.behind, row.ahead)) for row in open_rows}
        degree = collections.Counter(node for edge in edges for node in edge if node != _SUPERVISOR)
        known = {node: count for node, count in degree.items() if node in faulted} or degree
        most = max(known.values())
        candidates = sorted(node for node, count in known.items() if count == most)
        worst = next((node for node in candidates if node not in brokers), candidates[0])
        blamed[worst] = [row for row in open_rows if worst in (row.behind, row.ahead)]
        open_rows = [row for row in open_rows if worst not in (row.behind, row.ahead)]
    return blamed


def _describe(row: Any) -> str:
    behind, ahead = (name or "the supervisor" for name in (row.behind, row.ahead))
    what = f"{row.worst.message_id}: {row.worst.how}" if row.worst.message_id else row.worst.how
    return f"{behind} is {row.millis / 1000:.2f} s or more behind {ahead}: {what}"
