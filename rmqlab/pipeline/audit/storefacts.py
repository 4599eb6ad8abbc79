"""Relations of all stores: copies, damages and holes. The others are in facts.py."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from rmqlab.pipeline.audit.coverage import LogEnds, log_ends, read_ends
from rmqlab.pipeline.audit.relations import Query, Relations, literal
from rmqlab.pipeline.audit.sources import Reading, store_tables
from rmqlab.pipeline.audit.watchers import Member
from rmqlab.pipeline.stores.storesource import OK
from rmqlab.remoting.names import NO_SEND_TOPICS, RESENT_PREFIXES, SCHEDULE_TOPIC
from rmqlab.store.log.readableend import readable_end
from rmqlab.verdict.logcover import LogEpoch


def read_stores(
    relations: Relations,
    directory: Path,
    files: Reading | None,
    members: Mapping[str, Member],
    epochs: Mapping[str, LogEpoch],
    strays: Collection[str] = (),
) -> Mapping[str, LogEnds]:
    """Read records and queues; return the ends of logs, recorded and found.

    `strays` are nodes whose stores are left out.
    """
    names = [{"node": name, "broker": member.broker or name} for name, member in members.items()]
    relations.define_rows("brokers_of_nodes", names, node="string", broker="string")
    store_tables(relations, directory, files)
    if strays:
        for table in ("raw_records", "queue_entries"):
            relations.leave_out(table, "node", strays)
    *_, states, found = relations.execute(
        [
            Query(_WHOLE, "whole_records"),
            Query(_HOLES, "holes"),
            Query(_DEFERRED, "deferred"),
            Query("select distinct state from raw_records"),
            Query(log_ends(epochs)),
        ]
    )
    if {row.state for row in states} <= {OK}:
        relations.define_rows("damages", [], **_DAMAGE_COLUMNS)
    else:
        relations.execute([Query(_DAMAGES, "damages")])
    relations.define("copies", "select * from whole_records where state = 'ok'")
    ends = [{"node": name, "until": readable_end(directory / name / "store")} for name in members]
    relations.define_rows("readable_ends", ends, node="string", until="bigint")
    relations.define("readable_copies", _READABLE)
    return read_ends(found)


# Equivalent to `rmqlab.remoting.contentcrc.keeps_content`.
_FINAL_TOPIC: Final = f"if(r.topic = {literal(SCHEDULE_TOPIC)}, coalesce(r.realTopic, ''), r.topic)"
KEEPS_CONTENT: Final = " and ".join(
    (
        *(f"not startswith({_FINAL_TOPIC}, {literal(prefix)})" for prefix in RESENT_PREFIXES),
        f"{_FINAL_TOPIC} not in ({', '.join(map(literal, sorted(NO_SEND_TOPICS)))})",
    )
)

_WHOLE: Final = f"""
select /*+ broadcast(b) */ r.node, coalesce(b.broker, r.node) broker, r.topic, r.queueId queue, r.queueOffset offset,
    r.commitLogOffset log_offset, r.storeSize size, r.recordCrc record_crc,
    if({KEEPS_CONTENT}, r.contentCrc, null) content_crc,
    r.realTopic real_topic, r.tagsCode tags_code,
    coalesce(r.uniqKey, concat(r.storeHost, '/', r.commitLogOffset)) message_id, r.uniqKey is not null has_unique_id,
    unix_millis(r.bornTimestamp) born_at, substring_index(r.bornHost, ':', 1) born_host,
    unix_millis(r.storeTimestamp) stored_at, r.state,
    r.sysFlag sys_flag, r.storeHost store_host, r.reconsumeTimes reconsume_times, r.preparedTransactionOffset prepared_at
from raw_records r left join brokers_of_nodes b on r.node = b.node where r.state != 'torn'
"""

# For a member of a DLedger group, the entries that it has as committed: its queues contain no others.
_READABLE: Final = """
select /*+ shuffle_hash(r) */ c.* from copies c left join readable_ends r on c.node = r.node
where r.until is null or c.log_offset < r.until
"""

# Bytes that are not a record are the end of the log, or a hole if records follow.
_HOLES: Final = """
with ends as (select node, max(log_offset) last_record from whole_records group by node)
select r.node, r.commitLogOffset log_offset, r.commitLogOffset + r.storeSize until
from raw_records r join ends e on r.node = e.node
where r.state = 'torn' and r.commitLogOffset < e.last_record
"""

# A delayed or half message: its broker stores it in its topic later, without another send.
_DEFERRED: Final = (
    "select distinct message_id, real_topic topic from whole_records where state = 'ok' and real_topic is not null"
)

_DAMAGE_COLUMNS: Final = {
    "node": "string", "broker": "string", "topic": "string", "queue": "int", "offset": "bigint", "log_offset": "bigint",
    "message_id": "string", "why": "string",
}  # fmt: skip
_DAMAGES: Final = """
with acknowledged as (
    select place_topic topic, broker, place_queue queue, offset + coalesce(position, 0) offset,
        max_by(message_id, seq) message_id
    from sends where acknowledged and offset is not null group by all
), within as (
    select e.node, coalesce(b.broker, e.node) broker, e.topic, e.queueId queue, e.queueOffset offset,
        e.commitLogOffset log_offset, concat('bytes ', h.log_offset, ' to ', h.until, ' are no record') why
    from queue_entries e join holes h
        on e.node = h.node and e.commitLogOffset >= h.log_offset and e.commitLogOffset < h.until
        left join brokers_of_nodes b on e.node = b.node
)
select node, broker, topic, queue, offset, log_offset, message_id, 'its body fails its CRC' why
from whole_records where state = 'badCrc'
union all
select w.node, w.broker, w.topic, w.queue, w.offset, w.log_offset, a.message_id, w.why
from within w left join acknowledged a
    on w.topic = a.topic and w.broker = a.broker and w.queue = a.queue and w.offset = a.offset
"""
