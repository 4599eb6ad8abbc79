"""Messages that were delivered and are in no store. Metric: delivered_unstored.

An anti-join of deliveries and copies, if a fate suspects such a message; the rules are those of
cluster/checks/unstored.py.
"""

from collections.abc import Iterator

from pyspark.sql import Row

from rmqlab.pipeline.audit import possiblebrokers
from rmqlab.pipeline.audit.parts import divided
from rmqlab.pipeline.audit.previews import Preview
from rmqlab.pipeline.audit.run import Run
from rmqlab.verdict.catalogue import DELIVERED_UNSTORED
from rmqlab.verdict.clocksteps import TOLERANCE
from rmqlab.verdict.expiry import are_clocks_right
from rmqlab.verdict.findings import Evidence, Finding, unknown, without_id

TABLE = "unstored"
_PREVIEW = Preview(TABLE, "brokers", ("at", "message_id"))
SUSPECTED = "deliveries > 0 and not is_stored"
"""SQL condition of a row of `fates`, for all messages of the table; it also holds for some that expired."""
NAMELESS = Preview("deliveries", empty="message_id")
"""Deliveries without an id, whose message is unknown."""
_UNSTORED = f"""
with firsts as (
    select node, topic, queue, min(offset) first from copies where node in (select node from deleting)
    group by node, topic, queue
), kept as (
    select node, min(stored_at) first_stored_at from copies where node in (select node from deleting) group by node
), created as (
    select message_id, min(began_at) at from sends group by message_id
), expired as (
    select d.seq from deliveries d join deleting x on d.broker = x.broker
        left join firsts f on f.node = x.node and f.topic = d.topic and f.queue = d.queue
        left join kept k on k.node = x.node
        left join created s on s.message_id = d.message_id
    where d.offset < coalesce(f.first, d.offset + 1)
        and not coalesce({{are_clocks_right}} and s.at > k.first_stored_at + {TOLERANCE}, false)
)
select d.message_id, min(d.at) at, min_by(concat(d.topic, '@', d.broker, ':', d.queue), d.seq) queue,
    min_by(d.broker, d.seq) broker, min_by(d.offset, d.seq) offset, min_by(d.node, d.seq) node,
    first(p.brokers) brokers
from (select /*+ shuffle_hash(c) */ d.* from deliveries d left anti join copies c on d.message_id = c.message_id
        where d.message_id != '') d
    left anti join expired e on d.seq = e.seq
    left join {possiblebrokers.TABLE} p on d.message_id = p.message_id
group by d.message_id
"""


def judge(run: Run, *, is_suspected: bool) -> Iterator[Finding]:
    """Write the table `unstored`, and yield the finding."""
    metric, unit = DELIVERED_UNSTORED.name, DELIVERED_UNSTORED.unit
    if is_suspected:
        _write_table(run)
    else:
        run.write_empty(TABLE)
    delivered, nameless, unstored = run.previews(Preview("deliveries"), NAMELESS, _PREVIEW)
    if not delivered:
        yield unknown(metric, unit, "nothing was delivered to a workload of the journal")
        return
    found = divided(Finding(metric=metric, unit=unit, value=0), unstored, _PREVIEW.order, _describe)
    unread = run.unread_of(found.brokers)
    if unstored and not run.stores:
        yield unknown(metric, unit, "no store was given")
    elif unread:
        yield found.without(run.unread_brokers) or unknown(metric, unit, "; ".join(unread))
    else:
        yield found.as_floor(without_id(nameless.found)) if nameless else found


def _write_table(run: Run) -> None:
    deleting = {one.node for one in run.cluster_events if one.kind == "file_deleted" and one.node in run.stores}
    rows = [{"node": node, "broker": run.broker_of(node)} for node in deleting]
    run.relations.define_rows("deleting", rows, node="string", broker="string")
    is_right = are_clocks_right(one.fields for one in run.cluster_events if one.kind == "fault_applied")
    run.table(TABLE, _UNSTORED.format(are_clocks_right=str(is_right).lower()), is_rare=True)


def _describe(row: Row) -> Evidence:
    return Evidence(
        text=f"{row.message_id}: {row.node} received it from {row.queue} offset {row.offset}, and no store has it",
        at_millis=row.at,
        message_ids=(row.message_id,),
    )
