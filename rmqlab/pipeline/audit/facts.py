"""Facts of a run as tables: sends, deliveries, commits, records, cluster events.

They are read once from journals and commit logs, and kept as parquet in the run's directory: all queries use these
tables. Times are milliseconds of the cluster's clock; a message is identified by its unique id; `seq` orders events.

    sends       one row per message: message_id, node, topic, outcome, broker, queue, offset, began_at, ended_at;
                `is_first` of the messages of one batch; `place_topic` and `place_queue`, where `offset` counts:
                those of a system topic for delayed and half messages
    failures    attempts that failed     deliveries, commits    messages and offsets, as consumers reported them
    node_groups            the consumer group of each node
    copies      one row per readable record and node: node, broker, message_id, topic, queue, offset, log_offset, size,
                record_crc, content_crc, stored_at, and fields of its header
    damages     one row per unreadable record and node: in a hole of the log, or with a body that fails its CRC
    queue_entries, holes    entries of consume queues, and the bytes of logs that are not part of a record
    cluster_events  all other events, their fields as JSON: few enough for any process
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Row

from rmqlab.pipeline.audit.aggregates import in_memory
from rmqlab.pipeline.audit.coverage import (
    find_stores,
    log_states,
    read_run_facts,
    share_deletions,
)
from rmqlab.pipeline.audit.relations import Query, Relations, literal
from rmqlab.pipeline.audit.run import Run
from rmqlab.pipeline.audit.size import Scale
from rmqlab.pipeline.audit.sources import Reading, journal_tables, saved_offsets
from rmqlab.pipeline.audit.storefacts import read_stores
from rmqlab.pipeline.audit.watchers import ClusterEvent, Member
from rmqlab.pipeline.journals.journalsource import SURVEY_KIND, TORN_KIND
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalsurvey import join_surveys, survey_of_fields
from rmqlab.verdict.conditions import CONDITION_KINDS, Conditions, read_conditions
from rmqlab.verdict.logcover import EPOCH_KINDS, last_epochs
from rmqlab.verdict.outcomes import STORED
from rmqlab.verdict.roles import ROLE_KINDS, Roles
from rmqlab.verdict.runrecord import RunRecord, read_record
from rmqlab.verdict.straystores import stray_stores

STORED_SQL: Final = ", ".join(f"'{outcome}'" for outcome in STORED)
_FOLLOWED: Final = (
    *sorted(ROLE_KINDS), "node_spawned", "node_resumed", "node_paused", "command", "fault_applied", "fault_healed",
    "broker_registered", "broker_connection_lost", "broker_expired", "broker_unregistered", "route_believed",
    "topic_deleted", "group_deleted", "store_wiped", "file_deleted", "power_lost", "log_truncated", "log_dropped",
    "cluster_starting", "committing_to",
)  # fmt: skip
"""Kinds of the few events that this process follows one by one."""
_STOPPING: Final = "cluster_stopping"
_OF_FILES: Final = (TORN_KIND, SURVEY_KIND)
"""Kinds of rows about journals' files, not of events."""


def read_facts(relations: Relations, directory: Path, files: Reading | None) -> Run:
    """Make the facts of a run from its journals and stores.

    Raises OptionError if there is no journal.
    """
    journal_tables(relations, directory, files)
    *_, followed, event_times = relations.execute([*_FACTS, Query(_RAW_FOLLOWED), Query(_EVENT_TIMES)])
    raw = sorted(followed, key=_place_in_time)
    during = [row for row in event_times if row.is_during]
    stopping = next((index for index, row in enumerate(raw) if row.kind == _STOPPING), len(raw))
    cluster_events = tuple(_cluster_event(row) for row in raw[:stopping] if row.kind in _FOLLOWED)
    roles = Roles.of((one.at, one.node, one.kind, one.fields) for one in cluster_events)
    members = _members(cluster_events, roles)
    record = read_record(directory)
    stores, wiped = find_stores(directory, cluster_events)
    strays = stray_stores(stores, {row.node for row in event_times if row.kind not in _OF_FILES}, record)
    stores -= strays
    epochs = last_epochs((one.at, one.node, one.kind) for one in cluster_events if one.kind in EPOCH_KINDS)
    share_deletions(relations, cluster_events, members)
    offsets = saved_offsets(directory, files)
    ends = read_stores(relations, directory, files, members, epochs, strays)
    began_at = min((row.first_at for row in during), default=0)
    states = log_states(directory, stores - wiped, ends, epochs, read_run_facts(raw, ends, began_at))
    incomplete = {node: state.trouble for node, state in states.items() if state.trouble}
    missing = {one.name for one in members.values() if one.broker} - stores - wiped
    unread = {node: _why_missing(directory / node / "store") for node in missing} | incomplete
    return Run(
        relations=relations,
        directory=directory,
        cluster_events=cluster_events,
        members=members,
        roles=roles,
        stores=tuple(sorted(stores | wiped)),
        wiped=tuple(sorted(wiped)),
        strays=strays,
        unread=dict(sorted(unread.items())),
        incomplete=incomplete,
        log_states=states,
        offsets=offsets,
        latest_stored={node: one.latest for node, one in ends.items()},
        stopped={row.node: row.at for row in raw[stopping:] if row.kind == "node_stopped"},
        began_at=began_at,
        ended_at=max((row.last_at for row in during), default=0),
        conditions=_conditions(raw, record),
        event_times=tuple(event_times),
        longest_queues=_longest_queues(relations) if relations.scale is Scale.LARGE else {},
    )


def _why_missing(store: Path) -> str:
    return f"no store in {store}" if store.is_dir() else "its store was not given"


_RAW_FOLLOWED: Final = f"""
select seq, at, node, kind, fields from raw_events
where kind in ({", ".join(map(literal, (*_FOLLOWED, *CONDITION_KINDS, SURVEY_KIND, _STOPPING)))})
"""

# The stop of the cluster itself is not a failure of its nodes.
_CLUSTER_EVENTS: Final = f"""
select * from raw_events where kind not in ('{TORN_KIND}', '{SURVEY_KIND}')
    and not coalesce(seq >= (select min(seq) from raw_events where kind = '{_STOPPING}'), false)
"""

# Names may have line breaks: `$` would match before one.
_IS_QUEUE: Final = r"""
(held_in rlike r'^[^:]*:[0-9]+\z' and try_cast(substring_index(held_in, ':', -1) as int) is not null)
"""
_SENDS: Final = f"""
select *, coalesce(position, 0) = 0 is_first from (
    select seq, node, coalesce(topic, '') topic, outcome, nullif(broker, '') broker, queue, offset, crc, sys_flag,
        coalesce(if({_IS_QUEUE}, substring_index(held_in, ':', 1), topic), '') place_topic,
        if({_IS_QUEUE}, try_cast(substring_index(held_in, ':', -1) as int), queue) place_queue,
        posexplode_outer(split(nullif(message_id, ''), ',')) (position, message_id),
        coalesce(began_at, at) began_at, at ended_at, outcome in ({STORED_SQL}) acknowledged
    from message_events where kind = 'sent')
"""

_FAILURES: Final = """
select seq, node, coalesce(topic, '') topic, coalesce(broker, '') broker, message_id, outcome, error,
    at - cast(coalesce(took, 0) as bigint) began_at, at ended_at
from message_events where kind = 'attempt_failed'
"""

_CONSUMED: Final = """
select seq, node, at, coalesce(nullif(`group`, ''), node) `group`, coalesce(topic, '') topic, broker, queue,
    offset, {more}
from message_events where kind = '{kind}' and nullif(broker, '') is not null and queue is not null and offset is not null
"""


# `is_during`: before the cluster began to stop. Such events are in both of the first two relations. The order of
# messages' events is not needed: Spark sorts all rows to aggregate structs.
_EVENT_TIMES: Final = """
select node, kind, is_during, min(at) first_at, max(at) last_at, max(seq) last_seq from (
    select node, kind, at, seq, false is_during from raw_events
    union all select node, kind, at, seq, true from cluster_events)
group by node, kind, is_during
union all
select node, kind, true, min(at), max(at), null from message_events group by node, kind
"""


# The group that a node consumed or committed for last.
_NODE_GROUPS: Final = f"""
select node, max_by(`group`, seq) `group`, {in_memory("at")} from (
    select node, `group`, seq, at from deliveries union all select node, `group`, seq, at from commits) group by node
"""

_MESSAGE: Final = "coalesce(message_id, '') message_id, reconsume_times, from_broker_id"

_FACTS: Final = (
    Query(_CLUSTER_EVENTS, "cluster_events"),
    Query(_SENDS, "sends"),
    Query(_FAILURES, "failures"),
    Query(_CONSUMED.format(kind="delivered", more=_MESSAGE), "deliveries"),
    Query(_CONSUMED.format(kind="committed", more="broker_id"), "commits"),
    Query(_NODE_GROUPS, "node_groups"),
)


def _place_in_time(row: Row) -> list[tuple[bool, Any]]:
    """Return a value that orders events by `seq`, as SQL does.

    Surveys of files have no time, and are first. Spark does not keep the order of a query whose rows it collects from
    several tasks.
    """
    return [(one is not None, one) for one in row.seq]


def _cluster_event(row: Any) -> ClusterEvent:
    return ClusterEvent(row.at, row.node, row.kind, json.loads(row.fields))


def _conditions(raw: Sequence[Any], record: RunRecord) -> Conditions:
    """Return the conditions: from supervisor, journals' surveys and record."""
    surveys = [survey_of_fields(json.loads(row.fields)) for row in raw if row.kind == SURVEY_KIND]
    entries = [
        JournalEntry(row.at, row.node, row.kind, json.loads(row.fields)) for row in raw if row.kind in CONDITION_KINDS
    ]
    return read_conditions(entries, join_surveys(surveys), record)


def _members(cluster_events: Sequence[ClusterEvent], roles: Roles) -> dict[str, Member]:
    """Return each node's facts from its last `node_ready`, and its last broker id."""
    ready = {one.node: one.fields for one in cluster_events if one.kind == "node_ready"}
    return {
        node: Member(
            name=node,
            address=str(fields.get("address") or ""),
            broker=str(fields.get("broker_name") or ""),
            broker_id=roles.last_ids.get(node, fields.get("broker_id")),
        )
        for node, fields in ready.items()
    }


_LONGEST_QUEUES: Final = """
select source, max(found) found from (
    select 'copies' source, count(*) found from copies group by node, topic, queue
    union all select 'deliveries', count(*) from deliveries group by `group`, topic, broker, queue)
group by source
"""


def _longest_queues(relations: Relations) -> dict[str, int]:
    (rows,) = relations.execute([Query(_LONGEST_QUEUES)])
    return {row.source: row.found for row in rows}
