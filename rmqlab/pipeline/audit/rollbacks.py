"""Questions about consumer offsets that moved back.

Metrics: offset_rollbacks, offset_rollbacks GROUP, rolled_back GROUP.
"""

from collections.abc import Iterator, Mapping

import attrs
from pyspark.sql import Row

from rmqlab.pipeline.audit.parts import brokers_of, divided
from rmqlab.pipeline.audit.previews import Preview
from rmqlab.pipeline.audit.queuenames import IS_QUEUE, QUEUE_BROKER, QUEUE_ID
from rmqlab.pipeline.audit.run import Run
from rmqlab.runtime.journals.schema import OFFSET_LIMIT
from rmqlab.verdict.catalogue import MESSAGES
from rmqlab.verdict.findings import Brokers, Evidence, Finding, unknown

_TIMES = "times"


_MOVES_TEMPLATE = r"""
with reported as (
    select h.seq, h.at, h.node, get_json_object(fields, '$.group') `group`, get_json_object(fields, '$.topic') topic,
        coalesce(b.broker, h.node) broker, cast(get_json_object(fields, '$.queue_id') as int) queue,
        cast(get_json_object(fields, '$.before') as bigint) before,
        cast(get_json_object(fields, '$.after') as bigint) after,
        'a commit' why
    from cluster_events h left join brokers_of_nodes b on h.node = b.node where kind = 'offset_moved_back'
), synced as (
    select seq, at, node, regexp_extract(key, r'(?s)^[^@]*@(.*)\z', 1) `group`, substring_index(key, '@', 1) topic, broker,
        try_cast(queue as int) queue, get(pair, 0) before, get(pair, 1) after, 'metadata sync' why
    from (select seq, at, node, key, broker, queue, from_json(text, 'array<bigint>') pair
        from (select h.seq, h.at, h.node, get_json_object(fields, '$.key') key, coalesce(b.broker, h.node) broker,
            explode(from_json(get_json_object(fields, '$.queues'), 'map<string,string>')) as (queue, text)
            from cluster_events h left join brokers_of_nodes b on h.node = b.node
            where kind = 'consumer_offsets_overwritten'))
    where queue rlike r'^[0-9]+\z' and try_cast(queue as int) is not null and size(pair) = 2
        and get(pair, 0) between -{offset_limit} and {offset_limit}
        and get(pair, 1) between -{offset_limit} and {offset_limit}
), corrected as (
    select seq, at, node, `group`, regexp_extract(name, '^([^@]*)@', 1) topic,
        {queue_broker} broker, {queue_id} queue,
        asked before, offered after, 'out of bounds' why
    from (select h.seq, h.at, h.node, coalesce(g.`group`, h.node) `group`, get_json_object(fields, '$.queue') name,
        cast(get_json_object(fields, '$.asked') as bigint) asked,
        cast(get_json_object(fields, '$.offered') as bigint) offered
        from cluster_events h left join node_groups g on h.node = g.node
        where kind = 'offset_illegal')
    where offered < asked and {is_queue}
), recorded as (
    select * from corrected union all select * from synced union all {reported_alone}
), falling as (
    select * from (select seq, at, node, `group`, topic, broker, queue,
        lag(offset) over (partition by `group`, topic, broker, queue order by seq) before, offset after,
        'a commit below the last one' why
        from commits) where after < before
), moved as (select * from recorded union all {falling_alone})
select m.* from moved m left anti join deleted_topics x on m.broker = x.broker and m.topic = x.topic
union all
select m.* from moved m left semi join new_commits c
    on m.`group` = c.`group` and m.topic = c.topic and m.broker = c.broker and m.queue = c.queue
        and m.before = c.offset and c.at <= m.at
"""

# Each report accounts for one move to its offset: the nth of `these` matches the nth of `reports`.
_ALONE = """
select seq, at, node, `group`, topic, broker, queue, before, after, why from (
    select *, row_number() over (partition by `group`, topic, broker, queue, after order by seq) nth from {these}) t
    left join (select `group` g, topic t, broker b, queue q, after a, count(*) reports from {reports} group by all)
        on `group` = g and topic = t and broker = b and queue = q and after = a
where nth > coalesce(reports, 0)
"""

MOVES = _MOVES_TEMPLATE.format(
    reported_alone=_ALONE.format(these="reported", reports="corrected"),
    falling_alone=_ALONE.format(these="falling", reports="recorded"),
    offset_limit=OFFSET_LIMIT - 1,
    queue_id=QUEUE_ID,
    queue_broker=QUEUE_BROKER,
    is_queue=IS_QUEUE,
)

_MOVES_OF_GROUPS = """
select `group`, m.broker broker, count(m.seq) moves, max(before - after) worst
from (select `group` from deliveries union select `group` from commits union select `group` from offset_moves)
    left join offset_moves m using (`group`)
group by `group`, m.broker
"""
_MOVED = Preview("offset_moves", "broker", ("seq", "topic", "broker", "queue", "before"))


def judge(run: Run) -> Iterator[Finding]:
    """Yield the findings of `offset_moves`."""
    of_groups = run.rows(_MOVES_OF_GROUPS)
    (moved,) = run.previews(_MOVED)
    if not of_groups:
        yield unknown("offset_rollbacks", _TIMES, "no consumer group consumed or committed anything")
        return
    total = Finding(metric="offset_rollbacks", unit=_TIMES, value=0)
    yield divided(total, moved, _MOVED.order, _describe_move)
    for group in sorted({row["group"] for row in of_groups}):
        own = [row for row in of_groups if row["group"] == group]
        moves = {brokers_of(row.broker): row.moves for row in own}
        worst = {brokers_of(row.broker): row.worst or 0 for row in own}
        yield _in_parts(f"offset_rollbacks {group}", _TIMES, sum(moves.values()), moves)
        yield _in_parts(f"rolled_back {group}", MESSAGES, max(worst.values()), worst)


def _describe_move(row: Row) -> Evidence:
    queue = f"{row.topic}@{row.broker}:{row.queue}"
    return Evidence(text=f"{row['group']}, {queue}: {row.why} at {row.node}, {row.before} to {row.after}")


def _in_parts(metric: str, unit: str, value: int, parts: Mapping[Brokers, int]) -> Finding:
    finding = Finding(metric=metric, unit=unit, value=value)
    return attrs.evolve(finding, parts={key: attrs.evolve(finding, value=one) for key, one in parts.items()})
