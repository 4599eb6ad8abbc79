"""Half messages that a broker stored for consumers without a commit.

The rules are those of cluster/checks/uncommitted.py.
"""

from collections.abc import Iterator
from typing import Final

from rmqlab.pipeline.audit.parts import divided, evidence_of, places
from rmqlab.pipeline.audit.previews import Preview
from rmqlab.pipeline.audit.relations import literal
from rmqlab.pipeline.audit.run import Rare, Run
from rmqlab.remoting.names import HALF_TOPIC, SCHEDULE_TOPIC
from rmqlab.verdict.catalogue import STORED_UNCOMMITTED
from rmqlab.verdict.findings import Finding, unknown

TABLE: Final = "uncommitted_messages"
_PREVIEW: Final = Preview(TABLE, "brokers", ("stored_at", "message_id"))
_ENDED: Final = "kind = 'transaction_not_committed'"

# Events while the cluster stops count, too: brokers and producers end one after the other.
_UNCOMMITTED: Final = f"""
with ended as (
    select get_json_object(fields, '$.message_id') message_id,
        coalesce(max_by(get_json_object(fields, '$.topic'), seq) filter (where {_ENDED}), '') topic
    from raw_events where {_ENDED} or kind = 'transaction_asked'
    group by 1 having every({_ENDED})
), checked as (
    -- A broker stores a half message again before it checks it with any producer of the group.
    select h.message_id from raw_events e
        join silent_producers s on get_json_object(e.fields, '$.group') = s.`group`
        left join brokers_of_nodes b on e.node = b.node
        join copies h on h.topic = {literal(HALF_TOPIC)} and h.queue = 0 and h.broker = coalesce(b.broker, e.node)
            and h.offset = cast(get_json_object(e.fields, '$.queue_offset') as bigint)
    where e.kind = 'transaction_checked' and get_json_object(e.fields, '$.asked') = 'true'
)
select c.message_id, min(c.stored_at) stored_at,
    {places("c.node", "c.log_offset", "c.stored_at", "concat(', ', c.topic, '@', c.broker, ':', c.queue, ' offset ', c.offset)")},
    array_sort(collect_set(c.broker)) brokers
from copies c join ended e on c.message_id = e.message_id
    and if(c.topic = {literal(SCHEDULE_TOPIC)}, c.real_topic, c.topic) = e.topic
    left anti join checked k on c.message_id = k.message_id
group by c.message_id
"""
_SUSPICION: Final = f"select * from raw_events where {_ENDED}"


def judge(run: Run) -> Iterator[Finding]:
    """Write the table `uncommitted_messages`, and yield `stored_uncommitted`."""
    metric, unit = STORED_UNCOMMITTED.name, STORED_UNCOMMITTED.unit
    silent = [{"group": group} for group in sorted(run.conditions.silent_producers)]
    run.relations.define_rows("silent_producers", silent, group="string")
    run.write_rare(Rare(name=TABLE, text=_UNCOMMITTED, suspicion=_SUSPICION))
    sends, uncommitted = run.previews(Preview("sends"), _PREVIEW)
    if not sends.found:
        yield unknown(metric, unit, "no workload of the journal sent anything")
        return
    if not run.stores:
        yield unknown(metric, unit, "no store was given")
        return
    finding = Finding(metric=metric, unit=unit, value=0, is_at_least=bool(run.unread))
    yield divided(finding, uncommitted, _PREVIEW.order, evidence_of("its producer did not commit it"))
