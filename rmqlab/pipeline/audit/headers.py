"""Messages whose records have headers that contradict journals or other records.

The rules are those of cluster/checks/headers.py. `fates` has what is needed to suspect a message; only then are
records and deliveries compared one by one.
"""

from collections.abc import Iterator
from typing import Final

from rmqlab.pipeline.audit.parts import BROKERS, divided, evidence_of, places
from rmqlab.pipeline.audit.previews import Preview
from rmqlab.pipeline.audit.relations import literal
from rmqlab.pipeline.audit.run import Run
from rmqlab.remoting.message import STORE_HOST_IPV6, TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_PREPARED
from rmqlab.remoting.names import HALF_TOPIC, RETRY_PREFIX
from rmqlab.verdict.catalogue import HEADER_DISAGREEMENT
from rmqlab.verdict.causes import REMOVING_KINDS
from rmqlab.verdict.findings import Finding, unknown
from rmqlab.verdict.headers import (
    HOST_KINDS,
    SENT_BITS,
    UNCOMMITTED_TOPICS,
    broker_hosts,
    has_all_deliveries,
    why_unknown,
)

_NEVER: Final = 2**63 - 1
"""Time of an event that did not occur."""

TABLE: Final = "altered_headers"
_PREVIEW: Final = Preview(TABLE, "brokers", ("stored_at", "message_id"))
_IS_HALF: Final = f"topic in ({', '.join(map(literal, UNCOMMITTED_TOPICS))})"
_IS_RETRY: Final = f"startswith(topic, {literal(RETRY_PREFIX)})"
_IS_COMMITTED: Final = f"sys_flag & {TRANSACTION_MASK} = {TRANSACTION_COMMIT}"
_WAS_HALF: Final = f"{{sent}} & {TRANSACTION_MASK} = {TRANSACTION_PREPARED}"
_EXPECTED_BITS: Final = f"{{sent}} & {SENT_BITS} | if({_WAS_HALF} and not {{is_half}}, {TRANSACTION_COMMIT}, 0)"

# The fields of `fates` about headers. A place of a retry topic has the reconsume times of its record, in `retries`, and
# of its deliveries, in `retried`. A committed message has the place of its half message in `prepared`.
COLUMNS: Final = """
    coalesce(max(header.is_odd), false) has_odd_header,
    collect_set(header.bits) filter (where header.bits is not null) header_bits,
    collect_set(header.prepared) filter (where header.prepared is not null) prepared,
    collect_set(header.half) filter (where header.half is not null) halves,
    collect_set(header.retry) filter (where header.retry is not null) retries,
    collect_set(retried) filter (where retried is not null) retried
"""
_RETRY: Final = """named_struct('topic', topic, 'broker', broker, 'queue', queue, 'offset', offset,
    'times', reconsume_times)"""
RETRIED: Final = f"if({_IS_RETRY} and reconsume_times is not null, {_RETRY}, null)"
_HEADER: Final = f"""named_struct(
    'is_odd', {{is_judged}} and ({{is_of_other_broker}} or
        ({_IS_HALF} or content_crc is not null) and reconsume_times != 0
        or not (content_crc is not null and {_IS_COMMITTED}) and prepared_at != 0),
    'bits', if({{is_judged}} and ({_IS_HALF} or content_crc is not null),
        named_struct('is_half', {_IS_HALF}, 'sys_flag', sys_flag & {SENT_BITS | TRANSACTION_MASK}), null),
    'prepared', if({{is_judged}} and content_crc is not null and {_IS_COMMITTED},
        named_struct('node', node, 'at', prepared_at), null),
    'half', if(topic = {literal(HALF_TOPIC)}, named_struct('node', node, 'at', log_offset), null),
    'retry', if({{is_judged}} and {_IS_RETRY}, {_RETRY}, null))"""
SUSPECTED: Final = f"""sends = 1 and (has_odd_header or size(array_except(prepared, halves)) > 0
    or size(retries) > 0 and size(array_union(array_except(retried, retries), array_except(retries, retried))) > 0
    or send.sys_flag is not null and exists(header_bits, one -> one.sys_flag !=
        {_EXPECTED_BITS.format(sent="send.sys_flag", is_half="one.is_half")}))"""
"""SQL condition of a row of `fates`, for all messages of the table; it also holds for some others."""

_ALTERED: Final = f"""
with batches as (
    select node, ended_at, seq from sends group by all having count(*) > 1
), single as (
    select message_id, max(sys_flag) sent, max(seq) seq, max(topic) sent_topic, max(broker) sent_to
    from sends where message_id is not null group by message_id having count(*) = 1
), least as (
    select message_id, topic, broker, queue, offset, min(reconsume_times) times
    from deliveries where {_IS_RETRY} and reconsume_times is not null group by all
), halves as (
    select distinct message_id, node, log_offset from copies where topic = {literal(HALF_TOPIC)}
), lost as (
    select node, log_offset, log_offset + 1 until from whole_records where state = 'badCrc'
    union all select node, log_offset, until from holes
    union all select node, 0, begin from header_begins
), excused as (
    -- A place is in a lost part if one that begins before it, or at it, ends behind it.
    select node, log_offset from (
        select node, log_offset, place, max(until) over (partition by node order by place, is_copy
            rows between unbounded preceding and current row) reach, is_copy
        from (
            select node, cast(null as bigint) log_offset, log_offset place, until, false is_copy from lost
            union all select node, log_offset, prepared_at, null, true from copies
            where content_crc is not null and {_IS_COMMITTED}))
    where is_copy and reach > place
), compared as (
    select c.*, s.sent, s.sent_to, l.times, {_IS_HALF.replace("topic", "c.topic")} is_half,
        c.content_crc is not null and coalesce(nullif(c.real_topic, ''), c.topic) = s.sent_topic is_kept,
        c.content_crc is not null and coalesce(nullif(c.real_topic, ''), c.topic) != s.sent_topic is_elsewhere,
        coalesce(h.node, x.node) is not null is_prepared
    from copies c join single s on c.message_id = s.message_id
        left anti join batches b on s.seq = b.seq
        left join least l on c.message_id = l.message_id and c.topic = l.topic and c.broker = l.broker
            and c.queue = l.queue and c.offset = l.offset
        left join halves h on c.message_id = h.message_id and c.node = h.node and c.prepared_at = h.log_offset
        left join excused x on c.node = x.node and c.log_offset = x.log_offset
    where {{is_judged}}
), found as (
    select message_id, node, broker, sent_to, log_offset, stored_at, array_compact(array(
        if((is_kept or is_half) and reconsume_times != 0, concat('reconsume times ', reconsume_times), null),
        if((is_kept or is_half) and sent is not null and sys_flag & {SENT_BITS | TRANSACTION_MASK} !=
            {_EXPECTED_BITS.format(sent="sent", is_half="is_half")}, concat('sysFlag ', sys_flag), null),
        if({{is_of_other_broker}}, concat('store host ', store_host), null),
        if(not is_elsewhere and if(is_kept and {_IS_COMMITTED}, not is_prepared, prepared_at != 0),
            concat('prepared transaction offset ', prepared_at), null),
        if(times is not null and (reconsume_times > times or reconsume_times < times and {{has_all_deliveries}}),
            concat('reconsume times ', reconsume_times, ', and was delivered with ', times), null))) faults
    from compared
)
select message_id, min(stored_at) stored_at,
    {places("node", "log_offset", "stored_at", "' has ', array_join(faults, ', ')")},
    {BROKERS}
from found where size(faults) > 0 group by message_id
"""


def header(run: Run) -> str:
    """Return an SQL expression of `copies`: a struct for `COLUMNS`."""
    return _HEADER.format(is_judged=_is_judged(run), is_of_other_broker=_is_of_other_broker(run))


def _is_of_other_broker(run: Run) -> str:
    """Return an SQL condition of `copies`: its store host is of another broker name."""
    named = (one.fields for one in run.cluster_events if one.kind in HOST_KINDS)
    known = [
        f"(broker = {literal(name)} and store_host not in ({', '.join(map(literal, sorted(hosts)))}))"
        for name, hosts in broker_hosts(named, run.conditions, run.roles.renamed).items()
    ]
    return f"(sys_flag & {STORE_HOST_IPV6} = 0 and ({' or '.join(known) or 'false'}))"


def _is_judged(run: Run) -> str:
    removals = (one.at for one in run.cluster_events if one.kind in REMOVING_KINDS)
    return f"stored_at < {min(removals, default=_NEVER)}"


def judge(run: Run, *, is_suspected: bool) -> Iterator[Finding]:
    """Write the table `altered_headers`, and yield `header_disagreement`."""
    metric, unit = HEADER_DISAGREEMENT.name, HEADER_DISAGREEMENT.unit
    if is_suspected:
        begins = [{"node": node, "begin": run.log_begin(node)} for node in run.stores]
        run.relations.define_rows("header_begins", begins, node="string", begin="bigint")
        text = _ALTERED.format(
            is_judged=_is_judged(run),
            is_of_other_broker=_is_of_other_broker(run),
            has_all_deliveries=str(has_all_deliveries(run.conditions)).lower(),
        )
        run.table(TABLE, text, is_rare=True)
    else:
        run.write_empty(TABLE)
    sends, altered = run.previews(Preview("sends"), _PREVIEW)
    if why := why_unknown(has_sends=bool(sends.found), has_stores=bool(run.stores)):
        yield unknown(metric, unit, why)
        return
    finding = Finding(metric=metric, unit=unit, value=0, is_at_least=bool(run.unread))
    yield divided(
        finding, altered, _PREVIEW.order, evidence_of("the header of its record is not what its broker stored")
    )
