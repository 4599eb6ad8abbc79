"""Ends of logs as brokers recorded them, and deletions on request.

Log files that are missing although no event removed them make a store incomplete (`rmqlab.verdict.logcover`). Topics
and consumer groups that were deleted are relations: questions leave out what may be from before.
"""

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
from pyspark.sql import Row

from rmqlab.pipeline.audit.relations import Relations, literal
from rmqlab.pipeline.audit.watchers import ClusterEvent, Member
from rmqlab.pipeline.stores.commitlogs import NoStoreError, find_logs
from rmqlab.store.log.logheads import lost_tail, read_heads, stray_tail
from rmqlab.store.log.loglayout import log_begin, log_directory, log_extents
from rmqlab.verdict.logcover import LogEpoch, LogState, Samples, log_state
from rmqlab.verdict.misplaced import RUN_FACT_KINDS, RunFacts, misplaced_files, run_facts_of

# Events that certainly followed the last deletion, as in cluster/checks/deletions.py. Empty in a run without deletions.
_AFTER_DELETIONS: Final = {
    "new_deliveries": """
        select d.* from deliveries d left semi join (
            select s.broker, s.topic, s.message_id from sends s join deleted_topics x
                on s.broker = x.broker and s.topic = x.topic and s.began_at > x.at) n
            on d.broker = n.broker and d.topic = n.topic and d.message_id = n.message_id
    """,
    "new_commits": """
        select c.* from commits c join (
            select node, `group`, topic, broker, queue, min(seq) first from new_deliveries group by all) n
            on c.node = n.node and c.`group` = n.`group` and c.topic = n.topic and c.broker = n.broker
                and c.queue = n.queue and c.seq > n.first
    """,
    "deliveries_to_new_groups": """
        select d.* from deliveries d left semi join (
            select s.broker, x.`group`, s.message_id from sends s join deleted_groups x
                on s.broker = x.broker and s.began_at > x.at) n
            on d.broker = n.broker and d.`group` = n.`group` and d.message_id = n.message_id
    """,
}


def share_deletions(relations: Relations, events: Iterable[ClusterEvent], members: Mapping[str, Member]) -> None:
    """Register the topics and consumer groups that brokers deleted, and when.

    Also the events that certainly followed that.
    """
    for table, kind, field in (
        ("deleted_topics", "topic_deleted", "topic"),
        ("deleted_groups", "group_deleted", "group"),
    ):
        last = {
            (members[one.node].broker if one.node in members else one.node, str(one.fields[field])): one.at
            for one in events  # by time
            if one.kind == kind
        }
        rows = [{"broker": broker, field: name, "at": at} for (broker, name), at in sorted(last.items())]
        relations.define_rows(table, rows, **{"broker": "string", field: "string", "at": "bigint"})
    for name, text in _AFTER_DELETIONS.items():
        relations.define(name, text)


def find_stores(directory: Path, events: Sequence[ClusterEvent]) -> tuple[set[str], set[str]]:
    """Return the nodes with a store, and those whose store was wiped last.

    A node that never stored a message has no log.
    """
    found = {path.parent.parent.name for path in directory.glob("*/store/lock")}
    with contextlib.suppress(NoStoreError):
        found |= {log.node for log in find_logs(directory)}
    last = {one.node: one.kind for one in events if one.kind in ("store_wiped", "node_ready")}
    return found, {node for node, kind in last.items() if kind == "store_wiped"} - found


@attrs.frozen(kw_only=True)
class LogEnds:
    """The end of a node's log, as the node recorded it and as it is."""

    samples: Samples | None
    """The value of its last epoch; None without epochs."""
    first: int | None
    """The end that it recorded first."""
    record_end: int | None
    """Where its last record ends; None without one."""
    latest: int | None = None
    """Highest store time of its records, in ms; None without one."""


def log_ends(epochs: Mapping[str, LogEpoch]) -> str:
    """Return the query of the rows of `read_ends`."""
    during = (
        " or ".join(f"(node = {literal(node)} and at > {epoch.since})" for node, epoch in epochs.items()) or "false"
    )
    return (
        "select node, min(nullif(log_end, 0)) filter (where is_last) lowest,"
        " max(log_end) filter (where is_last) highest,"
        " min_by(log_end, at) filter (where at is not null) first, max(record_end) record_end,"
        " max(stored_at) latest from ("
        "select node, at, cast(get_json_object(fields, '$.max_offset') as bigint) log_end,"
        f" {during} is_last, cast(null as bigint) record_end,"
        " cast(null as bigint) stored_at from raw_events where kind = 'log_sampled'"
        " union all select node, cast(null as bigint), cast(null as bigint), false, log_offset + size, stored_at"
        " from whole_records)"
        " group by node"
    )


def read_ends(rows: Iterable[Row]) -> dict[str, LogEnds]:
    """Return the ends of logs by node."""
    return {
        row.node: LogEnds(
            samples=None if row.highest is None else Samples(lowest=row.lowest, highest=row.highest),
            first=row.first,
            record_end=row.record_end,
            latest=row.latest,
        )
        for row in rows
    }


def read_run_facts(raw: Sequence[Row], ends: Mapping[str, LogEnds], began_at: int) -> RunFacts:
    """Return the facts of a run from its followed events and the first ends of logs."""
    events = [(row.at, row.node, row.kind, json.loads(row.fields)) for row in raw if row.kind in RUN_FACT_KINDS]
    sampled = (
        (0, node, "log_sampled", {"max_offset": own.first}) for node, own in ends.items() if own.first is not None
    )
    return run_facts_of([*sampled, *events], began_at)


def log_states(
    directory: Path,
    stores: Iterable[str],
    ends: Mapping[str, LogEnds],
    epochs: Mapping[str, LogEpoch],
    facts: RunFacts,
) -> dict[str, LogState]:
    """Return the state of each node's log."""
    states = {}
    for node in sorted(stores):
        root = directory / node / "store"
        own = ends.get(node, LogEnds(samples=None, first=None, record_end=None))
        record_end = log_begin(root) if own.record_end is None else own.record_end
        states[node] = log_state(
            f"store/{log_directory(root).relative_to(root)}",
            log_extents(root),
            own.samples,
            epochs.get(node),
            misplaced=misplaced_files(node, read_heads(root), facts),
            tail=lost_tail(root, record_end, own.samples.highest) if own.samples else None,
            stray=stray_tail(root, record_end),
            has_recorded=own.first is not None,
        )
    return states
