"""What a plot needs, in some hundred points: throughput and latency of sends, offsets of consumer groups, deliveries."""

from pipeline.audit.facts import Run

_POINTS = 300

_SENDS = """
select {start} + cast((ended_at - {start}) / {step} as bigint) * {step} at, outcome, count(distinct seq) sends,
    percentile_approx(ended_at - began_at, array(0.5, 0.99, 1.0)) latency
from sends group by 1, 2
"""
_DELIVERED = """
select {start} + cast((at - {start}) / {step} as bigint) * {step} at, `group`, coalesce(from_broker_id, 0) broker_id,
    count(*) deliveries
from deliveries group by 1, 2, 3
"""
_COMMITTED = """
select at, `group`, sum(offset) offset from (
    select s.at, c.`group`, c.topic, c.broker, c.queue, max_by(c.offset, c.seq) offset
    from (select explode(sequence({start}, {end}, {step})) at) s
    join (select `group`, topic, broker, queue, offset, seq, at,
        lead(at) over (partition by `group`, topic, broker, queue order by seq) until from commits) c
    on c.at <= s.at and (c.until is null or c.until > s.at)
    group by s.at, c.`group`, c.topic, c.broker, c.queue)
group by at, `group`
"""


def make(run: Run) -> None:
    """Make the tables `send_bins`, `delivery_bins`, `offset_points`."""
    step = max(100, (run.ended_at - run.began_at) // _POINTS)
    bounds = {"start": run.began_at, "end": max(run.began_at, run.ended_at), "step": step}
    run.table("send_bins", run.sql(_SENDS.format(**bounds)))
    run.table("delivery_bins", run.sql(_DELIVERED.format(**bounds)))
    run.table("offset_points", run.sql(_COMMITTED.format(**bounds)))
