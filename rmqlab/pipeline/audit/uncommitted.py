"""Half messages that a broker stored for consumers without a commit.

The rules are those of cluster/checks/uncommitted.py.
"""

from collections.abc import Iterator
from typing import Final

from rmqlab.pipeline.audit.parts import divided, evidence_of, places
from rmqlab.pipeline.audit.previews import Preview
from rmqlab.pipeline.audit.relations import literal
from rmqlab.pipeline.audit.run import Rare, Run
from rmqlab.remoting.names import SCHEDULE_TOPIC
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
)
select c.message_id, min(c.stored_at) stored_at,
    {places("c.node", "c.log_offset", "c.stored_at", "concat(', ', c.topic, '@', c.broker, ':', c.queue, ' offset ', c.offset)")},
    array_sort(collect_set(c.broker)) brokers
from copies c join ended e on c.message_id = e.message_id
    and if(c.topic = {literal(SCHEDULE_TOPIC)}, c.real_topic, c.topic) = e.topic
group by c.message_id
"""
_SUSPICION: Final = f"select * from raw_events where {_ENDED}"


def judge(run: Run) -> Iterator[Finding]:
    """Write the table `uncommitted_messages`, and yield `stored_uncommitted`."""
    metric, unit = STORED_UNCOMMITTED.name, STORED_UNCOMMITTED.unit
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
