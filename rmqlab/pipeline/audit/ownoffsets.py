"""Consumer offsets that a slave had to keep, and replaced by older ones.

The rules are those of cluster/checks/ownoffsets.py.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rmqlab.pipeline.audit.relations import literal
from rmqlab.pipeline.audit.run import Run
from rmqlab.verdict.catalogue import TIMES
from rmqlab.verdict.findings import Finding, line_evidence, unknown
from rmqlab.verdict.nodesettings import keeps_newer_offsets, read_settings
from rmqlab.verdict.ownoffsets import NO_RECEIVER, OwnOffsetRule, why_unknown

if TYPE_CHECKING:
    from pyspark.sql import Row

# Replaced offsets whose last commit had the replaced value, and that no commit to another broker moved back.
_REPLACED = """
with followed as (
    select h.node, h.at, coalesce(b.broker, h.node) broker, get_json_object(fields, '$.group') `group`,
        get_json_object(fields, '$.topic') topic, cast(get_json_object(fields, '$.queue_id') as int) queue
    from cluster_events h left join brokers_of_nodes b on h.node = b.node where kind = 'offset_moved_back'
), candidates as (
    select m.* from offset_moves m
        left anti join deleted_topics x on m.broker = x.broker and m.topic = x.topic
        left anti join deleted_groups y on m.broker = y.broker and m.`group` = y.`group`
        left anti join followed f on m.`group` = f.`group` and m.topic = f.topic and m.broker = f.broker
            and m.queue = f.queue and m.node != f.node and f.at <= m.at
    where m.why = 'metadata sync' and m.node in ({slaves})
), latest as (
    select m.seq, m.at, m.node, m.`group`, m.topic, m.broker, m.queue, m.before, m.after,
        max_by(named_struct('at', c.at, 'node', c.node, 'offset', c.offset, 'broker_id', c.broker_id), c.seq) last
    from candidates m join commits c
        on m.`group` = c.`group` and m.topic = c.topic and m.broker = c.broker and m.queue = c.queue and c.at <= m.at
    group by all
)
select * from latest where last.offset = before order by seq, `group`, topic, queue
"""


def judge(run: Run) -> Iterator[Finding]:
    """Yield `own_offsets_overwritten SLAVE` from the table `offset_moves`."""
    slaves = sorted({span.node for span in run.roles.spans if not span.is_master} & set(run.stores))
    settings = {slave: read_settings(run.directory, slave) for slave in slaves}
    judged = [slave for slave, own in settings.items() if own is None or keeps_newer_offsets(own)]
    found = list(_broken(run, judged)) if judged else []
    for slave in judged:
        own = [row for row in found if row.node == slave]
        certain = [row for row in own if row["last"].broker_id is not None]
        metric = f"own_offsets_overwritten {slave}"
        why = why_unknown(settings[slave], run.conditions)
        if not why or (not own and settings[slave] is not None):
            evidence = line_evidence(map(_line, certain))
            finding = Finding(metric=metric, unit=TIMES, value=len(certain), evidence=evidence)
            yield finding if certain == own else finding.as_floor(NO_RECEIVER)
        elif own:
            yield unknown(metric, TIMES, why)


def _broken(run: Run, slaves: Iterable[str]) -> Iterator["Row"]:
    """Yield each offset that its slave had to keep."""
    rule = OwnOffsetRule.of(run.roles, ((one.at, one.node, one.kind) for one in run.cluster_events))
    for row in run.rows(_REPLACED.format(slaves=", ".join(map(literal, slaves)))):
        if row["group"] not in run.conditions.reset_groups and rule.applies(
            row.node, receiver=row["last"].broker_id, committed_at=row["last"].at, replaced_at=row.at
        ):
            yield row


def _line(row: "Row") -> str:
    return (
        f"{row['group']}, {row.topic}@{row.broker}:{row.queue}: {row['last'].node} committed {row['last'].offset} to"
        f" {row.node}, whose metadata sync replaced it by {row.after}"
    )
