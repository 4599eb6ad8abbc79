"""Unreadable records, and records and queue entries that do not match.

Metrics: corrupt NODE, dangling NODE, unqueued NODE. Joins of logs and queues by commit log offset; the rules are those
of cluster/checks/records.py.
"""

from collections.abc import Iterator
from typing import Any

from rmqlab.pipeline.audit.fingerprints import differing_groups, fingerprint
from rmqlab.pipeline.audit.previews import Groups, Preview
from rmqlab.pipeline.audit.run import Rare, Run
from rmqlab.store.offline.irregularfiles import why_unreadable
from rmqlab.verdict.catalogue import ENTRIES, RECORDS
from rmqlab.verdict.findings import Evidence, Finding, unknown

_DANGLING = """
with firsts as (
    select node, min(log_offset) first_offset
    from (select node, log_offset from whole_records union all select node, log_offset from holes) group by node
)
select /*+ shuffle_hash(r, f, l, h, b) */ e.node, coalesce(b.broker, e.node) broker, e.topic, e.queueId queue,
    e.queueOffset offset, e.commitLogOffset log_offset, r.message_id, r.tags_code,
    if(r.topic = e.topic and r.queue = e.queueId and r.offset = e.queueOffset and r.size = e.storeSize,
        e.tagsCode, null) wrong_code
from queue_entries e
    left join whole_records r on e.node = r.node and e.commitLogOffset = r.log_offset
    left join firsts f on e.node = f.node
    left join log_begins l on e.node = l.node
    left join holes h on e.node = h.node and e.commitLogOffset >= h.log_offset and e.commitLogOffset < h.until
    left join brokers_of_nodes b on e.node = b.node
where if(r.node is null,
    h.node is null and (e.commitLogOffset >= coalesce(f.first_offset, l.begin, 0) or e.storeSize = 0),
    r.topic != e.topic or r.queue != e.queueId or r.offset != e.queueOffset or r.size != e.storeSize
        or r.state = 'ok' and coalesce(e.tagsCode != r.tags_code, e.tagsCode < r.stored_at))
"""

_UNQUEUED = """
select /*+ shuffle_hash(e) */ c.node, c.broker, c.topic, c.queue, c.offset, c.log_offset, c.message_id
from readable_copies c left anti join queue_entries e
    on c.node = e.node and c.log_offset = e.commitLogOffset and c.topic = e.topic and c.queue = e.queueId
        and c.offset = e.queueOffset
    left anti join deleted_topics x on c.broker = x.broker and c.topic = x.topic and c.stored_at <= x.at
"""

# Each readable record has one entry, and each entry such a record. Delayed messages have no tags code to compare, and a
# log may have records without entries for good reasons: then, too, the rows are joined.
_IN_LOGS = fingerprint("node", "log_offset", "topic", "queue", "offset", "size", "tags_code")
_IN_QUEUES = fingerprint("node", "commitLogOffset", "topic", "queueId", "queueOffset", "storeSize", "tagsCode")
_MISMATCH = differing_groups(f"""
select {_IN_LOGS} rows_of_side from readable_copies group by true
union all select {_IN_QUEUES} from queue_entries group by true
""")

_ORDER = ("log_offset", "topic", "queue", "offset")
_PREVIEWS = (
    *(Preview(table, "node", _ORDER) for table in ("damages", "dangling_entries", "unqueued_records")),
    *(Preview(table, "node") for table in ("queue_entries", "whole_records")),
)


def judge(run: Run) -> Iterator[Finding]:
    """Write `dangling_entries` and `unqueued_records`; yield each store's findings."""
    begins = [{"node": node, "begin": run.log_begin(node)} for node in run.stores]
    run.relations.define_rows("log_begins", begins, node="string", begin="bigint")
    run.write_rare(
        Rare(name="unqueued_records", text=_UNQUEUED, suspicion=_MISMATCH),
        Rare(name="dangling_entries", text=_DANGLING, suspicion=_MISMATCH),
    )
    damages, dangling, unqueued, entries, records = run.previews(*_PREVIEWS)
    for node in run.stores:
        yield Finding(
            metric=f"corrupt {node}",
            unit=RECORDS,
            value=damages[node].found,
            evidence=tuple(_describe(row, row.why) for row in damages[node].first),
        )
        missing = _why_unknown(run, node, is_without_queues=node in records and node not in entries)
        if missing:
            yield unknown(f"dangling {node}", ENTRIES, missing)
        else:
            evidence = tuple(_describe(row, _entry_fault(row)) for row in dangling[node].first)
            yield Finding(metric=f"dangling {node}", unit=ENTRIES, value=dangling[node].found, evidence=evidence)
    yield from _judge_unqueued(run, unqueued)


def _entry_fault(row: Any) -> str:
    if row.wrong_code is None:
        return f"the entry points at {row.message_id or 'no record'}"
    expected = "the time that it was stored, or later" if row.tags_code is None else row.tags_code
    return f"the entry has tags code {row.wrong_code}, expected {expected}"


def _judge_unqueued(run: Run, unqueued: Groups) -> Iterator[Finding]:
    for node in run.stores:
        metric, evidence = f"unqueued {node}", tuple(_describe(row, "no entry") for row in unqueued[node].first)
        if ended_in_good_order(run, node) and (why := _unread_queues(run, node)):
            yield unknown(metric, RECORDS, why)
        elif ended_in_good_order(run, node):
            yield Finding(metric=metric, unit=RECORDS, value=unqueued[node].found, evidence=evidence)
        else:
            yield unknown(metric, RECORDS, "the node was not stopped in good order")


def _unread_queues(run: Run, node: str) -> str:
    return why_unreadable(run.directory / node / "store" / "consumequeue")


def ended_in_good_order(run: Run, node: str) -> bool:
    """Return True if a node's last end was clean, alone or with the cluster."""
    kinds = [one.kind for one in run.cluster_events if one.node == node and one.kind in _CHANGES]
    return node in run.stopped or kinds[-1:] == ["node_stopped"]


_CHANGES = ("node_spawned", "node_ready", "node_killed", "node_crashed", "node_stopped", "power_lost", "store_wiped")


def _describe(row: Any, text: str) -> Evidence:
    return Evidence(text=f"{_place(row)}: {text}", message_ids=(row.message_id,) if row.message_id else ())


def _place(row: Any) -> str:
    return f"{row.node}, commit log offset {row.log_offset}, {row.topic}@{row.broker}:{row.queue} offset {row.offset}"


def _why_unknown(run: Run, node: str, *, is_without_queues: bool) -> str:
    kinds = [one.kind for one in run.cluster_events if one.node == node and one.kind in ("node_ready", "power_lost")]
    if kinds[-1:] == ["power_lost"]:
        return "the node lost power, and did not start again"
    if why := _unread_queues(run, node):
        return why
    return "the store has no consume queues" if is_without_queues else ""
