"""Compare small tables of brokers with logs and journals.

Metrics: groups_missing NODE, delay_offset_behind NODE. This process reads the files; Spark finds the groups that
consumed and the messages that were delivered. The rules are those of cluster/checks/tablefiles.py.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from rmqlab.pipeline.audit.records import ended_in_good_order
from rmqlab.pipeline.audit.relations import Query, literal
from rmqlab.pipeline.audit.run import Run
from rmqlab.pipeline.audit.watchers import Member
from rmqlab.remoting.bodies.group import SubscriptionGroupWrapper
from rmqlab.remoting.bodies.offset import DelayOffsets
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.store.files.configfile import read_config_file
from rmqlab.verdict.catalogue import DELAY_OFFSET_BEHIND, GROUPS_MISSING, TABLE_FILES
from rmqlab.verdict.duetimes import may_repeat
from rmqlab.verdict.findings import Finding, line_evidence, unknown
from rmqlab.verdict.roles import CONTESTED

T = TypeVar("T")

# Deliveries while a node was the acting master, since it was last ready.
_SERVED = """
select /*+ shuffle_hash(m) */ distinct m.node, d.`group` from (
    select * from deliveries d left anti join deleted_groups x on d.broker = x.broker and d.`group` = x.`group`
    union all select * from deliveries_to_new_groups) d
    join master_spans m on d.broker = m.broker and d.at >= m.at and d.at < coalesce(m.until, d.at + 1)
where coalesce(d.from_broker_id, 0) = 0
"""

# Records of a message in one delay level are delivered in their order, once they are due; those in several levels have no
# order. `found` are its records under its own topic: of each level, so many are delivered for certain as the records in
# other levels leave. A broker of {repeating} may have delivered one record several times.
_DELIVERED = f"""
with waiting as (
    select /*+ shuffle_hash(e) */ c.node, c.queue, c.offset, c.log_offset, c.message_id, c.real_topic,
        coalesce(e.tagsCode, 0) due_at,
        min(c.log_offset) over (partition by c.node, c.message_id, c.real_topic) first
    from copies c left join queue_entries e on c.node = e.node and c.log_offset = e.commitLogOffset
        and c.topic = e.topic and c.queue = e.queueId and c.offset = e.queueOffset
    where c.topic = '{SCHEDULE_TOPIC}' and c.real_topic is not null
), followed as (
    select /*+ shuffle_hash(w) */ w.node, w.message_id, w.real_topic, w.queue, w.offset, w.log_offset, w.due_at,
        count(*) found, max(c.log_offset) last, max(c.stored_at) latest
    from copies c join waiting w on w.node = c.node and w.message_id = c.message_id and w.real_topic = c.topic
        and c.log_offset > w.first
    group by all
), due as (
    select node, queue, offset, if(node in ({{repeating}}), 1, found) found,
        row_number() over (partition by node, message_id, real_topic, queue order by log_offset) nth,
        count(*) over (partition by node, message_id, real_topic, queue) of_level,
        count(*) over (partition by node, message_id, real_topic) of_all
    from followed where log_offset < last and due_at <= latest
)
select node, queue + 1 level, max(offset) + 1 until from due
where nth <= found - (of_all - of_level) group by node, queue
"""


def judge(run: Run) -> Iterator[Finding]:
    """Yield the findings of every master that was ready."""
    _share_master_spans(run)
    repeating = ", ".join(map(literal, _repeating(run))) or "''"
    served, delivered = run.batch(Query(_SERVED), Query(_DELIVERED.format(repeating=repeating)))
    for member in run.members.values():
        if not member.broker or member.broker_id:
            continue
        if why := _why_unknown(run, member.name):
            for metric in TABLE_FILES:
                yield unknown(f"{metric.name} {member.name}", metric.unit, why)
        else:
            yield _judge_groups(run, member, {row["group"] for row in served if row.node == member.name})
            yield _judge_delays(run, member, {row.level: row.until for row in delivered if row.node == member.name})


def _repeating(run: Run) -> list[str]:
    """Return the nodes whose broker name may have delivered messages twice."""
    started = [one.node for one in run.cluster_events if one.kind == "node_ready"]
    repeats = {broker for broker in run.roles.brokers if may_repeat(broker, started, run.roles)}
    return [member.name for member in run.members.values() if member.broker in repeats]


def _share_master_spans(run: Run) -> None:
    """Register the times of acting masters since they were last ready as a relation."""
    ready_at = {one.node: one.at for one in run.cluster_events if one.kind == "node_ready"}
    spans = [
        {"broker": broker, "node": node, "at": max(at, ready_at[node]), "until": until}
        for broker in run.roles.brokers
        for node, at, until in run.roles.masters_over_time(broker)
    ]
    columns = {"broker": "string", "node": "string", "at": "bigint", "until": "bigint"}
    run.relations.define_rows("master_spans", spans, **columns)


def _why_unknown(run: Run, node: str) -> str:
    if node not in run.stores:
        return "its store was not given"
    kinds = (one.kind for one in run.cluster_events if one.node == node)
    last = [kind for kind in kinds if kind in ("node_ready", "power_lost", "store_wiped")][-1:]
    return "" if last == ["node_ready"] else "the node lost power, or its store"


def _read(run: Run, node: str, name: str, decode: Callable[[bytes], T], never_written: T | None = None) -> T | None:
    return read_config_file(run.directory / node / "store" / "config" / name, decode, never_written)


def _judge_groups(run: Run, member: Member, groups: set[str]) -> Finding:
    metric, unit = f"{GROUPS_MISSING.name} {member.name}", GROUPS_MISSING.unit
    empty = SubscriptionGroupWrapper()
    table = _read(run, member.name, "subscriptionGroup.json", SubscriptionGroupWrapper.decode, empty)
    if table is None:
        return unknown(metric, unit, "subscriptionGroup.json could not be read")
    if member.broker in run.roles.contested:
        return unknown(metric, unit, CONTESTED)
    missing = sorted(groups - table.subscription_group_table.keys())
    evidence = line_evidence(f"{group} consumed from {member.name}, and is not in its table" for group in missing)
    return Finding(metric=metric, unit=unit, value=len(missing), evidence=evidence)


def _judge_delays(run: Run, member: Member, delivered: Mapping[int, int]) -> Finding:
    metric, unit = f"{DELAY_OFFSET_BEHIND.name} {member.name}", DELAY_OFFSET_BEHIND.unit
    if not ended_in_good_order(run, member.name):
        return unknown(metric, unit, "the node was not stopped in good order")
    table = _read(run, member.name, "delayOffset.json", DelayOffsets.decode)
    if table is None and delivered:
        return unknown(metric, unit, "delayOffset.json could not be read")
    stored = table.offset_table if table else {}
    behind = {
        level: until - stored.get(level, 0)
        for level, until in sorted(delivered.items())
        if until > stored.get(level, 0)
    }
    lines = (f"level {level}: {by} delivered messages are beyond the stored offset" for level, by in behind.items())
    return Finding(metric=metric, unit=unit, value=max(behind.values(), default=0), evidence=line_evidence(lines))
