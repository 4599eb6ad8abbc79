"""Delayed messages that a broker stored in their own topic before they were due.

The rules are those of cluster/checks/duetimes.py.
"""

from collections.abc import Iterator
from typing import Final

from rmqlab.pipeline.audit.parts import divided, evidence_of, places
from rmqlab.pipeline.audit.previews import Preview
from rmqlab.pipeline.audit.relations import literal
from rmqlab.pipeline.audit.run import Rare, Run
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.store.offline.delaylevels import delay_millis
from rmqlab.verdict.catalogue import DELIVERED_EARLY
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.clocksteps import faulted_clocks
from rmqlab.verdict.duetimes import at_right_clocks, why_unknown, wrong_clocks
from rmqlab.verdict.findings import Finding, unknown
from rmqlab.verdict.nodesettings import read_settings

_NEVER: Final = 2**63 - 1
"""Time of an event that did not occur."""
TABLE: Final = "early_deliveries"
_PREVIEW: Final = Preview(TABLE, "brokers", ("stored_at", "message_id"))

EARLY: Final = f"""
with due as (
    select /*+ shuffle_hash(e) */ c.node, c.message_id, c.real_topic topic,
        min(greatest(e.tagsCode, c.stored_at + get({{delays}}, c.queue))) due_at,
        min(c.log_offset) log_offset
    from copies c join queue_entries e on c.node = e.node and c.log_offset = e.commitLogOffset
        and c.topic = e.topic and c.queue = e.queueId and c.offset = e.queueOffset
    where c.topic = '{SCHEDULE_TOPIC}' and c.content_crc is not null and c.tags_code is null
    group by all
), firsts as (
    select /*+ shuffle_hash(d) */ c.node, c.message_id, min(struct(c.stored_at, c.log_offset)) first, min(d.due_at) due_at,
        max(c.broker) broker
    from copies c join due d on c.node = d.node and c.message_id = d.message_id and c.topic = d.topic
        and c.log_offset > d.log_offset
    group by c.node, c.message_id, c.topic
), early as (
    select * from firsts where first.stored_at < due_at and first.stored_at < {{removed_at}}
)
select e.message_id, min(e.first.stored_at) stored_at,
    {places("e.node", "e.first.log_offset", "e.first.stored_at", "', ', e.due_at - e.first.stored_at, ' ms early'")},
    array_sort(collect_set(e.broker)) brokers
from early e
    left semi join (select s.message_id from sends s
        join (select message_id, max(seq) seq from sends where message_id is not null group by message_id
            having count(*) = 1) o on s.message_id = o.message_id
        left anti join (select seq from sends group by seq having count(*) > 1) b on s.seq = b.seq) s
        on e.message_id = s.message_id
    left anti join failures f on e.message_id = f.message_id
group by e.message_id
"""
_DELAYED = f"select distinct broker from copies where topic = '{SCHEDULE_TOPIC}'"


def _delays(run: Run) -> str:
    """Return an SQL expression of `copies`: the delays of levels at its node.

    In ms, and null if they are unknown.
    """
    known = {node: delay_millis(read_settings(run.directory, node)) for node in run.stores}
    cases = [
        f"when c.node = {literal(node)} then array({', '.join(f'{delay}L' for delay in delays)})"
        for node, delays in known.items()
        if delays
    ]
    return f"(case {' '.join(cases)} end)" if cases else "cast(null as array<bigint>)"


def judge(run: Run) -> Iterator[Finding]:
    """Write the table `early_deliveries`, and yield `delivered_early`."""
    metric, unit = DELIVERED_EARLY.name, DELIVERED_EARLY.unit
    removals = (one.at for one in run.cluster_events if one.kind in REMOVING_KINDS)
    text = EARLY.format(removed_at=min(removals, default=_NEVER), delays=_delays(run))
    run.write_rare(Rare(name=TABLE, text=text, suspicion=_DELAYED))
    sends, early = run.previews(Preview("sends"), _PREVIEW)
    if why := why_unknown(run.conditions, has_sends=bool(sends.found), has_stores=bool(run.stores)):
        yield unknown(metric, unit, why)
        return
    finding = Finding(metric=metric, unit=unit, value=0, is_at_least=bool(run.unread))
    faults = ((one.at, one.fields) for one in run.cluster_events if one.kind == "fault_applied")
    wrong = wrong_clocks(run.conditions, faulted_clocks(faults, run.roles), run.roles)
    delayed = [row.broker for row in run.rows(_DELAYED)] if wrong else []
    yield at_right_clocks(
        divided(finding, early, _PREVIEW.order, evidence_of("stored in its own topic before it was due")),
        wrong,
        delayed,
    )
