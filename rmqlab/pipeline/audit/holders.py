"""Consumers that cannot have had the queue of a duplicate, or shared it too long.

The rules are those of cluster/checks/holders.py.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Row

from rmqlab.pipeline.audit.relations import literal
from rmqlab.pipeline.audit.run import Run
from rmqlab.remoting.names import RETRY_PREFIX
from rmqlab.runtime.journals.journalentry import OPENED
from rmqlab.verdict.calm import CALLS_AT_ONCE, DISTURBING_KINDS, calm_spans, settled_after

RETRY_TOPIC: Final = f"concat({literal(RETRY_PREFIX)}, `group`)"
_KINDS: Final = ", ".join(map(literal, DISTURBING_KINDS))

# Of many events of one kind and time, one is enough.
DISTURBANCES: Final = f"""
select min(seq) seq, at, node, kind, id from (
    select seq, at, node, kind, if(kind like 'fault\\_%', get_json_object(fields, '$.id'), null) id
    from raw_events where kind in ({_KINDS}))
group by at, node, kind, id
"""

# A consumer records a round when it has ended. Lists that were too long for a journal end in three points.
_ROUNDS: Final = """
select node, seq, topic, added, removed, exists(concat(added, removed), x -> startswith(x, '...')) is_cut
from (select node, seq, get_json_object(fields, '$.topic') topic,
    coalesce(from_json(get_json_object(fields, '$.added'), 'array<string>'), array()) added,
    coalesce(from_json(get_json_object(fields, '$.removed'), 'array<string>'), array()) removed
    from raw_events where kind = 'rebalanced')
"""

# The state of a queue at a delivery (2) and at the one before (1), from the rounds of the same start of the process.
ODD: Final = f"""
lives as (
    select node, seq began, lead(seq) over (partition by node order by seq) ended
    from raw_events where kind = '{OPENED}'
), rounds as ({_ROUNDS}), sides as (
    select seq pair, 2 side, seq, at, node, same.at first_at, `group`, topic, broker, queue, tries
    from repeated where same is not null
    union all
    select seq, 1, same.seq, same.at, same.node, same.at, `group`, topic, broker, queue, tries from repeated
    where same.node != node
), named as (
    select *, concat(of_topic, '@', broker, ':', queue) name
    from (select *, explode(if(tries > 0, array(topic, {RETRY_TOPIC}), array(topic))) of_topic from sides)
), states as (
    select n.pair, n.side, n.of_topic, n.seq, n.at, n.node, n.first_at, n.topic, n.broker, n.queue, n.tries,
        l.ended is not null is_followed, count(r.seq) rounds,
        count_if(r.seq <= n.seq and array_contains(r.added, n.name)) adds, coalesce(bool_or(r.is_cut), false) is_cut,
        max(named_struct('seq', r.seq, 'adds', array_contains(r.added, n.name))) filter (
            where r.seq <= n.seq and (array_contains(r.added, n.name) or array_contains(r.removed, n.name))) change,
        min(named_struct('seq', r.seq, 'adds', array_contains(r.added, n.name))) filter (
            where r.seq > n.seq) following
    from named n join lives l on n.node = l.node and n.seq >= l.began and (l.ended is null or n.seq < l.ended)
        left join rounds r on n.node = r.node and n.of_topic = r.topic
            and r.seq >= l.began and (l.ended is null or r.seq < l.ended)
    group by all
), calls as (
    select s.pair, s.of_topic, count(d.seq) received from states s join deliveries d
        on s.node = d.node and s.topic = d.topic and s.broker = d.broker and s.queue = d.queue
        and d.seq > s.change.seq and d.seq <= s.seq
    where s.side = 2 and not s.change.adds group by s.pair, s.of_topic
), unheld as (
    select s.pair from states s left join calls c on s.pair = c.pair and s.of_topic = c.of_topic
        left join last_events e on s.node = e.node
    where s.side = 2 group by s.pair
    having every(s.rounds > 0 and not s.is_cut) and not bool_or(
        coalesce(s.change.adds, false) or coalesce(s.following.adds, s.is_followed or e.at - s.at <= {{slack}})
        or coalesce(s.change is not null and c.received <= {CALLS_AT_ONCE}, false))
), both_held as (
    select s.pair from states s
        join calm_spans m on s.first_at between m.since and m.until
    where s.change.adds and not s.is_cut and not coalesce(s.following.adds, false)
    group by s.pair having count(distinct s.side, s.of_topic) = max(if(s.tries > 0, 4, 2))
), under_way as (
    -- A call that began before the queue was assigned again ends after that.
    select distinct pair from (
        select s.pair, s.of_topic from states s join repeated r on s.pair = r.seq join deliveries d
            on s.node = d.node and s.topic = d.topic and s.broker = d.broker and s.queue = d.queue
            and d.seq > s.change.seq and d.seq <= r.same.seq
        where r.same.node = s.node and s.change.adds and s.adds > 1 and not s.is_cut
        group by s.pair, s.of_topic having count(*) <= {CALLS_AT_ONCE})
), odd as (select pair from unheld union select pair from both_held)
"""


def share(run: Run, disturbances: Sequence[Row]) -> None:
    """Define `calm_spans` and `last_events`, which `ODD` needs."""
    rows = sorted(disturbances, key=lambda row: row.seq)
    events = ((row.at, row.node, row.kind, {"id": row.id}) for row in rows)
    spans = calm_spans(events, run.ended_at, settled_after(run.conditions.slack))
    calm = [{"since": since, "until": until} for since, until in spans]
    run.relations.define_rows("calm_spans", calm, since="bigint", until="bigint")
    last: dict[str, int] = {}
    for row in run.event_times:
        if row.last_at is not None:  # as surveys of files
            last[row.node] = max(last.get(row.node, row.last_at), row.last_at)
    ends = [{"node": node, "at": at} for node, at in last.items()]
    run.relations.define_rows("last_events", ends, node="string", at="bigint")
