"""Questions about outages: windows without a successful send or pull (RTO).

Metrics: write_unavailable and read_unavailable of a BROKER or a QUEUE, group_read_unavailable GROUP.
"""

from collections.abc import Iterator

from rmqlab.pipeline.audit.queuenames import IS_QUEUE, QUEUE_BROKER
from rmqlab.pipeline.audit.relations import Query
from rmqlab.pipeline.audit.run import Run
from rmqlab.verdict.catalogue import SECONDS
from rmqlab.verdict.findings import Finding, failed_attempts, line_evidence, unknown
from rmqlab.verdict.metrics import QUEUE_MARK

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
    from noted where {IS_QUEUE}
), tries as (
    select `group` consumer, broker, concat(topic, '@', broker, ':', queue) name, at began_at, at ended_at,
        true is_success
    from deliveries where coalesce(reconsume_times, 0) = 0
    union all select consumer, {QUEUE_BROKER}, name, began_at, ended_at, is_success from pulls
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


def judge(run: Run) -> Iterator[Finding]:
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
