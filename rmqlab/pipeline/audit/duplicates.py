"""Questions about messages that a consumer group got more than once.

Metrics: duplicates, duplicates.CAUSE.
"""

from collections.abc import Iterator, Sequence

from pyspark.sql import Row

from rmqlab.pipeline.audit import holders, unstored
from rmqlab.pipeline.audit.parts import divided
from rmqlab.pipeline.audit.previews import Preview
from rmqlab.pipeline.audit.run import Run
from rmqlab.verdict.causes import DUPLICATE_CAUSES, RESET_MILLIS
from rmqlab.verdict.findings import Evidence, Finding, unknown, without_id

_DELIVERIES = "deliveries"


# Most messages are delivered once: only the others have to be sorted. `same` is the last delivery from the same place,
# of a redelivery the last one with the same reconsume times.
REPEATED = """
with several as (
    select `group`, message_id from deliveries where message_id != '' group by `group`, message_id having count(*) > 1
), numbered as (
    select *, row_number() over (partition by `group`, message_id order by seq) nth,
        lag(named_struct('seq', seq, 'at', at, 'node', node)) over (
            partition by `group`, message_id, topic, broker, queue, offset, tries order by seq) again,
        lag(named_struct('seq', seq, 'at', at, 'node', node)) over (
            partition by `group`, message_id, topic, broker, queue, offset order by seq) latest
    from (select /*+ shuffle_hash(t) */ d.*, greatest(coalesce(d.reconsume_times, 0), 0) tries
        from deliveries d left semi join several t on d.`group` = t.`group` and d.message_id = t.message_id)
)
select *, if(tries > 0, again, latest) same from numbered where nth > 1
"""
AGAIN = "select 1 from repeated where same is not null limit 1"
_NONE_AGAIN = "odd as (select seq pair from repeated where false), under_way as (select * from odd)"

_CAUSES = f"""
with places as (
    select *, explode(if(tries > 0, array(topic, {holders.RETRY_TOPIC}), array(topic))) of_topic
    from repeated where same is not null
), taken as (
    select node, seq, at, explode(from_json(get_json_object(fields, '$.added'), 'array<string>')) name
    from raw_events where kind = 'rebalanced'
), asked as (
    -- Of the assignments to the consumer between both deliveries, the last: of one process, `seq` orders events.
    select r.seq, max(t.at) taken_at from places r join taken t
        on r.node = t.node and t.name = concat(r.of_topic, '@', r.broker, ':', r.queue)
        and t.seq > r.same.seq and t.seq <= r.seq
    group by r.seq
), moved as (
    select distinct r.seq from places r join offset_moves m
        on r.`group` = m.`group` and r.of_topic = m.topic and r.broker = m.broker and r.queue = m.queue
        and m.at between r.same.at and r.at and m.after <= r.offset and r.offset < m.before
    union select distinct r.seq from places r join cluster_events e
        on e.kind = 'offset_reset' and r.`group` = get_json_object(e.fields, '$.group')
        and r.of_topic = get_json_object(e.fields, '$.topic')
        and e.at between least(r.same.at, r.at - {RESET_MILLIS}) and r.at
), committed as (
    -- A consumer that kept its queue does not query its offset again: a commit beyond it is no explanation there.
    select r.seq, max(c.offset) farthest
    from places r left join asked a on r.seq = a.seq join commits c
        on r.`group` = c.`group` and r.of_topic = c.topic and r.broker = c.broker and r.queue = c.queue
        and c.at <= coalesce(a.taken_at, r.at)
    where r.same.node != r.node or a.taken_at is not null group by r.seq
), {{holders}}
select r.seq, r.at, r.node, r.`group`, r.topic, r.broker, r.queue, r.offset, r.message_id, r.same.node before_node,
    case when r.same is null and r.tries > 0 then 'redelivery'
        when r.same is null then 'client_retry'
        when m.seq is not null then 'offset_rollback'
        when o.pair is not null and r.same.node != r.node then 'unexplained'
        when c.farthest > r.offset then 'offset_rollback'
        when r.same.node != r.node or a.taken_at is not null or w.pair is not null then 'rebalance'
        else 'unexplained' end cause,
    coalesce(r.same.node = r.node and r.same.at = r.at, false) is_entry_again
from repeated r left join moved m on r.seq = m.seq left join committed c on r.seq = c.seq
    left join asked a on r.seq = a.seq left join odd o on r.seq = o.pair
    left join under_way w on r.seq = w.pair
"""

_REPEATS = Preview("repeats", ("cause", "broker"), ("seq",))


def causes(run: Run, disturbances: Sequence[Row], *, is_any_again: bool) -> str:
    """Return the query of `repeats`.

    `disturbances` are the rows of `holders.DISTURBANCES`. `is_any_again` is True if `AGAIN` has a row.
    """
    if not is_any_again:
        return _CAUSES.format(holders=_NONE_AGAIN)
    holders.share(run, disturbances)
    return _CAUSES.format(holders=holders.ODD.format(slack=run.conditions.slack))


def judge(run: Run) -> Iterator[Finding]:
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
