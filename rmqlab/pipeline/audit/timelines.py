"""A few hundred points per plot: throughput, latency, offsets, deliveries."""

from collections.abc import Iterator

from rmqlab.pipeline.audit.run import Run, written
from rmqlab.verdict.findings import Finding

_POINTS = 300

_SENDS = """
select {start} + cast((ended_at - {start}) / {step} as bigint) * {step} at, outcome, count(*) sends,
    percentile_approx(ended_at - began_at, array(0.5, 0.99, 1.0)) latency
from sends where is_first group by 1, 2
"""
_DELIVERED = """
select {start} + cast((at - {start}) / {step} as bigint) * {step} at, `group`, coalesce(from_broker_id, 0) broker_id,
    count(*) deliveries
from deliveries group by 1, 2, 3
"""

# A commit is valid until the next one of its queue: it counts at each point of time between the two.
_COMMITTED = """
with spans as (
    select `group`, offset, ceil((at - {start}) / {step}) first,
        ceil((coalesce(lead(at) over (partition by `group`, topic, broker, queue order by seq), {end} + 1) - {start})
            / {step}) - 1 last
    from commits
), points as (
    select `group`, offset, explode(sequence(first, last)) nth from spans where first <= last
)
select {start} + nth * {step} at, `group`, sum(offset) offset from points group by nth, `group`
"""


def judge(run: Run) -> Iterator[Finding]:
    """Write the tables `send_bins`, `delivery_bins`, `offset_points`.

    Yields no findings.
    """
    step = max(100, (run.ended_at - run.began_at) // _POINTS)
    bounds = {"start": run.began_at, "end": max(run.began_at, run.ended_at), "step": step}
    bins = {"send_bins": _SENDS, "delivery_bins": _DELIVERED, "offset_points": _COMMITTED}
    run.batch(*(written(name, text.format(**bounds), is_bounded=True) for name, text in bins.items()))
    yield from ()
