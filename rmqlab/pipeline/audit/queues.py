"""Questions about queues: outages (RTO), rolled back offsets, repeats.

Windows by queue and group. Metrics: write_unavailable and read_unavailable of a BROKER or a QUEUE,
group_read_unavailable GROUP, offset_rollbacks, offset_rollbacks GROUP, rolled_back GROUP, own_offsets_overwritten
SLAVE, duplicates, duplicates.CAUSE.
"""

from collections.abc import Iterator, Mapping

import attrs
from pyspark.sql import Row

from rmqlab.pipeline.audit import offsetfiles, ownoffsets, unstored
from rmqlab.pipeline.audit.parts import brokers_of, divided
from rmqlab.pipeline.audit.previews import Preview
from rmqlab.pipeline.audit.relations import Query
from rmqlab.pipeline.audit.run import Run, written
from rmqlab.runtime.journals.schema import OFFSET_LIMIT
from rmqlab.verdict.catalogue import MESSAGES, SECONDS
from rmqlab.verdict.causes import DUPLICATE_CAUSES, RESET_MILLIS
from rmqlab.verdict.findings import Brokers, Evidence, Finding, failed_attempts, line_evidence, unknown, without_id
from rmqlab.verdict.metrics import QUEUE_MARK

_DELIVERIES = "deliveries"
_TIMES = "times"

# ---- outages ---------------------------------------------------------------------------------------------

_WRITES = """
with stored as (
    select broker, concat(topic, '@', broker, ':', queue) name, topic, began_at, ended_at
    from sends where acknowledged and is_first and broker is not null and queue is not null
), known as (select distinct topic, broker, name from stored
), failed as (
    select f.topic, coalesce(nullif(f.broker, ''), k.broker) broker, f.message_id, f.began_at, f.ended_at
    from failures f left join (select distinct topic, broker from known) k on f.broker = '' and f.topic = k.topic
    where f.broker != '' or k.broker is not null
)
select 'write' operation, '' broker, stored.broker target, began_at, ended_at, true is_success from stored
union all select 'write', '', name, began_at, ended_at, true from stored
union all select 'write', '', broker, began_at, ended_at, false from failed
union all select 'write', '', k.name, f.began_at, f.ended_at, false
    from failed f join known k on f.topic = k.topic and f.broker = k.broker
"""

# A queue's name, `topic@broker:queue id`, is of any text: a dot must match line breaks, and `$` matches before one.
_QUEUE_ID = r"try_cast(regexp_extract(name, r':([0-9]+)\z', 1) as int)"
_QUEUE_BROKER = r"regexp_extract(name, r'(?s)@(.*):[0-9]+\z', 1)"
_IS_QUEUE = rf"name rlike r'(?s)@.*:[0-9]+\z' and {_QUEUE_ID} is not null"

_READS = f"""
with noted as (
    select p.at, p.kind = 'pull_resumed' is_success, get_json_object(p.fields, '$.queue') name,
        coalesce(g.`group`, p.node) consumer,
        cast(coalesce(get_json_object(p.fields, '$.took'), 0) as bigint) took,
        cast(coalesce(get_json_object(p.fields, '$.held'), 0) as bigint) held,
        -- Time since which a message was available, from the next response of the queue.
        first(if(p.kind = 'pull_resumed',
                coalesce(cast(get_json_object(p.fields, '$.stored_at') as bigint), p.at), null), true)
            over (partition by p.node, get_json_object(p.fields, '$.queue') order by p.seq
                rows between current row and unbounded following) waiting_since
    from cluster_events p left join node_groups g on p.node = g.node where p.kind in ('pull_failed', 'pull_resumed')
), pulls as (
    -- A broker that holds a pull because there are no messages is readable: from the start of the hold if the
    -- pull got a response, and until the connection was cut if it did not.
    select consumer, name, is_success, case when is_success then at - held when held > 0 then
            least(at, greatest(at - took, coalesce(waiting_since, at))) else at - took end began_at,
        if(is_success, at - held, at) ended_at
    from noted where {_IS_QUEUE}
), tries as (
    select `group` consumer, broker, concat(topic, '@', broker, ':', queue) name, at began_at, at ended_at,
        true is_success
    from deliveries where coalesce(reconsume_times, 0) = 0
    union all select consumer, {_QUEUE_BROKER}, name, began_at, ended_at, is_success from pulls
)
select 'read' operation, '' broker, tries.broker target, began_at, ended_at, is_success from tries
union all select 'read', '', name, began_at, ended_at, is_success from tries
union all select 'group_read', broker, consumer, began_at, ended_at, is_success from tries
"""

# Only successes next to a failure matter. Of a second without failures of the target, the first and the last success
# are kept, so that one task does not have to sort the events of a whole run.
_NEAR_FAILURES = """
with failing as (
    select distinct operation, broker, target, ended_at div 1000 second from every_attempt where not is_success
), successes as (
    select operation, broker, target, ended_at, ended_at div 1000 second from every_attempt where is_success
), bounds as (
    select /*+ shuffle_hash(f) */ s.operation, s.broker, s.target, min(s.ended_at) first, max(s.ended_at) last
    from successes s left join failing f
        on s.operation = f.operation and s.broker = f.broker and s.target = f.target and s.second = f.second
    group by s.operation, s.broker, s.target, s.second, if(f.second is null, null, s.ended_at)
)
select operation, broker, target, began_at, ended_at, is_success from every_attempt where not is_success
union all
select operation, broker, target, cast(null as bigint),
    explode(if(first = last, array(first), array(first, last))), true
from bounds
"""

# Each success starts an island; the failures after it, up to the next success, are the window.
_OUTAGES = """
with islands as (
    select *, sum(int(is_success)) over (partition by operation, broker, target order by ended_at, is_success desc
        rows between unbounded preceding and current row) island
    from attempts
), windows as (
    select operation, broker, target, island, max(ended_at) filter (where is_success) success,
        count_if(not is_success) failures,
        min(began_at) filter (where not is_success) first_failed,
        max(ended_at) filter (where not is_success) last_failed
    from islands group by operation, broker, target, island
), followed as (
    select *, lead(success) over (partition by operation, broker, target order by island) next_success from windows
)
select operation, broker, target, failures, next_success is null is_open, first_failed, last_failed,
    if(operation != 'write', greatest(coalesce(success, first_failed), first_failed),
        coalesce(success, first_failed)) began_at,
    coalesce(next_success, last_failed) ended_at
from followed where failures > 0
"""

_LONGEST = """
select operation, target, count(began_at) windows, max(named_struct('millis', ended_at - began_at, 'is_open', is_open,
    'failures', failures)) longest
from (select distinct operation, target from attempts) left join outages using (operation, target)
group by operation, target
"""


def judge_outages(run: Run) -> Iterator[Finding]:
    """Write the tables `attempts` and `outages`; yield each target's longest outage."""
    run.batch(Query(f"select * from ({_WRITES}) union all select * from ({_READS})", "every_attempt"))
    run.table("attempts", _NEAR_FAILURES)
    run.table("outages", _OUTAGES, is_rare=True)
    found = {(row.operation, row.target): row for row in run.rows(_LONGEST)}
    named = {target for operation, target in found if operation != "group_read" and target}
    brokers = sorted({target for target in named if QUEUE_MARK not in target} | run.roles.all_names)
    for operation, tried in (("write", "sent anything to"), ("read", "read anything from")):
        for broker in brokers:
            if (operation, broker) not in found:
                yield unknown(f"{operation}_unavailable {broker}", SECONDS, f"no workload {tried} {broker}")
    for (operation, target), row in sorted(found.items()):
        metric = f"{operation}_unavailable {target}"
        if not row.windows:
            yield Finding(metric=metric, unit=SECONDS, value=0.0)
            continue
        seconds = row.longest.millis / 1000
        yield Finding(
            metric=metric,
            unit=SECONDS,
            value=seconds,
            is_at_least=row.longest.is_open,
            evidence=line_evidence([failed_attempts(row.longest.failures, seconds, row.windows)]),
        )


# ---- offsets that moved back -----------------------------------------------------------------------------

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

_MOVES = _MOVES_TEMPLATE.format(
    reported_alone=_ALONE.format(these="reported", reports="corrected"),
    falling_alone=_ALONE.format(these="falling", reports="recorded"),
    offset_limit=OFFSET_LIMIT - 1,
    queue_id=_QUEUE_ID,
    queue_broker=_QUEUE_BROKER,
    is_queue=_IS_QUEUE,
)

_MOVES_OF_GROUPS = """
select `group`, m.broker broker, count(m.seq) moves, max(before - after) worst
from (select `group` from deliveries union select `group` from commits union select `group` from offset_moves)
    left join offset_moves m using (`group`)
group by `group`, m.broker
"""
_MOVED = Preview("offset_moves", "broker", ("seq", "topic", "broker", "queue", "before"))
_REPEATS = Preview("repeats", ("cause", "broker"), ("seq",))


def judge_consumers(run: Run) -> Iterator[Finding]:
    """Yield findings about rolled back offsets, and the duplicates they explain.

    Writes the tables `offset_moves`, `offset_floors` and `repeats`.
    """
    offsets = offsetfiles.read(run)
    run.batch(written("offset_moves", _MOVES, is_rare=True), Query(_REPEATED, "repeated"))
    floors, _ = run.batch(written("offset_floors", offsetfiles.FLOORS, is_bounded=True), written("repeats", _CAUSES))
    yield from judge_rollbacks(run)
    yield from ownoffsets.judge(run)
    yield from offsetfiles.judge(run, offsets, floors)
    yield from judge_duplicates(run)


def judge_rollbacks(run: Run) -> Iterator[Finding]:
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


# ---- duplicates ------------------------------------------------------------------------------------------

# Most messages are delivered once: only the others have to be sorted.
_REPEATED = """
with several as (
    select `group`, message_id from deliveries where message_id != '' group by `group`, message_id having count(*) > 1
), numbered as (
    select *, row_number() over (partition by `group`, message_id order by seq) nth,
        lag(named_struct('seq', seq, 'at', at, 'node', node)) over (
            partition by `group`, message_id, topic, broker, queue, offset order by seq) same
    from (select /*+ shuffle_hash(t) */ d.* from deliveries d left semi join several t
            on d.`group` = t.`group` and d.message_id = t.message_id)
)
select * from numbered where nth > 1
"""

_CAUSES = f"""
with taken as (
    select node, seq, at, explode(from_json(get_json_object(fields, '$.added'), 'array<string>')) name
    from cluster_events where kind = 'rebalanced'
), asked as (
    -- Of the assignments to the consumer between both deliveries, the last: of one process, `seq` orders events.
    select r.seq, max(t.at) taken_at from repeated r join taken t
        on r.node = t.node and t.name = concat(r.topic, '@', r.broker, ':', r.queue)
        and t.seq > r.same.seq and t.seq <= r.seq
    group by r.seq
), moved as (
    select distinct r.seq from repeated r join offset_moves m
        on r.`group` = m.`group` and r.topic = m.topic and r.broker = m.broker and r.queue = m.queue
        and m.at between r.same.at and r.at and m.after <= r.offset and r.offset < m.before
    union select distinct r.seq from repeated r join cluster_events e
        on e.kind = 'offset_reset' and r.`group` = get_json_object(e.fields, '$.group')
        and r.topic = get_json_object(e.fields, '$.topic') and e.at between least(r.same.at, r.at - {RESET_MILLIS}) and r.at
), committed as (
    -- A consumer that kept its queue does not query its offset again: a commit beyond it is no explanation there.
    select r.seq, max(c.offset) farthest
    from repeated r left join asked a on r.seq = a.seq join commits c
        on r.`group` = c.`group` and r.topic = c.topic and r.broker = c.broker and r.queue = c.queue
        and c.at <= coalesce(a.taken_at, r.at)
    where r.same is not null and (r.same.node != r.node or a.taken_at is not null) group by r.seq
)
select r.seq, r.at, r.node, r.`group`, r.topic, r.broker, r.queue, r.offset, r.message_id, r.same.node before_node,
    case when r.reconsume_times > 0 then 'redelivery'
        when r.same is null then 'client_retry'
        when m.seq is not null or c.farthest > r.offset then 'offset_rollback'
        when r.same.node != r.node or a.taken_at is not null then 'rebalance'
        else 'unexplained' end cause,
    coalesce(r.same.node = r.node and r.same.at = r.at, false) is_entry_again
from repeated r left join moved m on r.seq = m.seq left join committed c on r.seq = c.seq
    left join asked a on r.seq = a.seq
"""


def judge_duplicates(run: Run) -> Iterator[Finding]:
    """Yield the findings of `repeats`."""
    delivered, nameless, repeats = run.previews(Preview("deliveries"), unstored.NAMELESS, _REPEATS)
    if not delivered:
        for cause in ("", *DUPLICATE_CAUSES):
            metric = f"duplicates.{cause}" if cause else "duplicates"
            yield unknown(metric, _DELIVERIES, "nothing was delivered to a workload of the journal")
        return
    total = Finding(metric="duplicates", unit=_DELIVERIES, value=repeats.found)
    yield total.as_floor(without_id(nameless.found)) if nameless else total
    for cause in DUPLICATE_CAUSES:
        finding = Finding(metric=f"duplicates.{cause}", unit=_DELIVERIES, value=0)
        found = divided(finding, repeats.within(cause), _REPEATS.order, _describe_repeat)
        yield found.as_floor(without_id(nameless.found)) if nameless else found


def _describe_repeat(row: Row) -> Evidence:
    text = (
        f"{row.message_id}: {row['group']} got {row.topic}@{row.broker}:{row.queue} offset {row.offset} again,"
        f" at {row.node}{'; the journal has this entry twice' if row.is_entry_again else ''}"
    )
    return Evidence(text=text)
