"""Facts of a run as tables: sends, deliveries, commits, records, cluster events.

They are read once from journals and commit logs, and kept as parquet in the run's directory: all queries use these
tables. Times are milliseconds of the cluster's clock; a message is identified by its unique id; `seq` orders events.

    sends       one row per message: message_id, node, topic, outcome, broker, queue, offset, began_at, ended_at;
                `is_first` of the messages of one batch; `place_topic` and `place_queue`, where `offset` counts:
                those of a system topic for delayed and half messages
    failures    attempts that failed     deliveries, commits    messages and offsets, as consumers reported them
    node_groups            the consumer group of each node
    copies      one row per readable record and node: node, broker, message_id, topic, queue, offset, log_offset, size,
                record_crc, stored_at
    damages     one row per unreadable record and node: in a hole of the log, or with a body that fails its CRC
    queue_entries, holes    entries of consume queues, and the bytes of logs that are not part of a record
    happenings  all other events, their fields as JSON: few enough for any process
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from pyspark.sql import Row

from rmqlab.pipeline.audit.coverage import (
    LogEnds,
    find_stores,
    log_ends,
    log_states,
    read_ends,
    read_setting,
    share_deletions,
)
from rmqlab.pipeline.audit.heads import Groups, Head, join_groups
from rmqlab.pipeline.audit.relations import Query, Relations, in_memory, literal
from rmqlab.pipeline.audit.rounds import Rounds
from rmqlab.pipeline.audit.size import Scale
from rmqlab.pipeline.audit.sources import Reading, SavedOffsets, journal_tables, saved_offsets, store_tables
from rmqlab.pipeline.audit.watchers import Happening, Member
from rmqlab.pipeline.journalsource import SURVEY_KIND, TORN_KIND
from rmqlab.pipeline.storesource import OK
from rmqlab.runtime.journal import JournalEntry
from rmqlab.runtime.journalsurvey import join_surveys, survey_of_fields
from rmqlab.store.logplaces import log_begin
from rmqlab.store.readableend import readable_end
from rmqlab.verdict.judgement import CONDITION_KINDS, Conditions, read_conditions
from rmqlab.verdict.logcover import LIFE_KINDS, Life, LogState, last_lives
from rmqlab.verdict.outcomes import STORED
from rmqlab.verdict.roles import ROLE_KINDS, Roles
from rmqlab.verdict.runid import recorded_run

STORED_SQL: Final = ", ".join(f"'{outcome}'" for outcome in STORED)
_FOLLOWED: Final = (
    *sorted(ROLE_KINDS), "node_resumed", "node_paused", "command", "fault_applied", "fault_healed",
    "broker_registered", "broker_connection_lost", "broker_expired", "broker_unregistered", "route_believed",
    "topic_deleted", "group_deleted", "store_wiped", "file_deleted", "power_lost", "log_truncated", "log_dropped", "cluster_starting",
)  # fmt: skip
"""Kinds of the few events that this process follows one by one."""
_STOPPING: Final = "cluster_stopping"


@attrs.frozen(kw_only=True)
class Run:
    """A run: its facts as tables of this Spark session, and the facts about nodes."""

    relations: Relations
    directory: Path
    happenings: tuple[Happening, ...]
    """Events about the presence of nodes and the beliefs of watchers, in order."""
    members: Mapping[str, Member]
    roles: Roles
    stores: tuple[str, ...]
    """Nodes whose store was read, or was wiped."""
    wiped: tuple[str, ...]
    """The nodes of `stores` without a store now."""
    unread: Mapping[str, str]
    """Brokers whose store is missing, or lacks files of its log, with the reason."""
    incomplete: Mapping[str, str]
    """The part of `unread` that lacks files, or has files of others: what is left of these stores was read."""
    log_states: Mapping[str, LogState]
    """What is wrong with the files of each log."""
    offsets: SavedOffsets
    latest_stored: Mapping[str, int | None]
    """Highest store time of the records of each log, in ms; None without records."""
    stopped: Mapping[str, int]
    """Times at which nodes shut down cleanly with the whole cluster; these events are not in `happenings`."""
    began_at: int
    ended_at: int
    conditions: Conditions
    """The run's role and profile, and the gaps in its journals."""
    event_times: tuple[Row, ...]
    """First and last event of each node and kind; see `_EVENT_TIMES`."""
    longest_queues: Mapping[str, int]
    """Rows of the longest queue in `copies` and in `deliveries`; empty unless the run is large."""
    rounds: Rounds[Sequence[Query], list[Sequence[Row]]] | None = None
    """Joins the batches of concurrent questions; None: each batch is executed at once."""

    def log_begin(self, node: str) -> int:
        """Return the commit log offset at which the first file of a store's log begins."""
        return log_begin(self.directory / node / "store")

    def batch(self, *queries: Query) -> list[Sequence[Row]]:
        """Return the rows of each query, executed together; see `Relations.execute`."""
        return self.rounds.ask(queries) if self.rounds else self.relations.execute(queries)

    def table(self, name: str, text: str, *, is_bounded: bool = False) -> Sequence[Row]:
        """Write a table as parquet, and define it as a relation.

        Returns its rows if they are few.
        """
        (rows,) = self.batch(written(name, text, is_bounded=is_bounded))
        return rows

    def rows(self, text: str) -> Sequence[Row]:
        """Return a few rows as Python objects: for summaries only."""
        (rows,) = self.batch(Query(text))
        return rows

    def heads(self, *heads: Head) -> list[Groups]:
        """Return the groups of each head.

        Without Spark if this process holds their tables.
        """
        held = self.relations.held
        asked = [head for head in heads if head.table not in held]
        queries = [Query(text) for head in asked for text in head.queries]
        rows = iter(self.batch(*queries) if queries else ())
        found = {head: join_groups(*itertools.islice(rows, len(head.queries))) for head in asked}
        return [found[head] if head in found else head.of_table(held[head.table]) for head in heads]

    def brokers(self) -> list[str]:
        return sorted({member.broker for member in self.members.values() if member.broker})

    def unread_of(self, broker: str) -> list[str]:
        """Return why messages of a broker name are uncertain; empty if they are not."""
        return [f"{node}: {why}" for node, why in self.unread.items() if self.members[node].broker == broker]


def written(name: str, text: str, *, is_bounded: bool = False) -> Query:
    """Return the query of a table that is written as parquet."""
    return Query(text, name, is_written=True, is_bounded=is_bounded)


def read_facts(relations: Relations, directory: Path, files: Reading | None) -> Run:
    """Make the facts of a run from its journals and stores.

    Raises AnalysisException or OptionError if there is no journal.
    """
    tables = journal_tables(relations, directory, files)
    *_, followed, event_times = relations.execute([*tables, *_FACTS, Query(_RAW_FOLLOWED), Query(_EVENT_TIMES)])
    raw = sorted(followed, key=_place_in_time)
    during = [row for row in event_times if row.is_during]
    stopping = next((index for index, row in enumerate(raw) if row.kind == _STOPPING), len(raw))
    happenings = tuple(_happening(row) for row in raw[:stopping] if row.kind in _FOLLOWED)
    roles = Roles.of((one.at, one.node, one.kind, one.fields) for one in happenings)
    members = _members(happenings, roles)
    stores, wiped = find_stores(directory, happenings)
    lives = last_lives((one.at, one.node, one.kind) for one in happenings if one.kind in LIFE_KINDS)
    share_deletions(relations, happenings, members)
    offsets = saved_offsets(directory, files)
    ends = _read_stores(relations, directory, files, members, lives)
    began_at = min((row.first_at for row in during), default=0)
    states = log_states(directory, stores - wiped, ends, lives, read_setting(raw, ends, began_at))
    incomplete = {node: state.trouble for node, state in states.items() if state.trouble}
    return Run(
        relations=relations,
        directory=directory,
        happenings=happenings,
        members=members,
        roles=roles,
        stores=tuple(sorted(stores | wiped)),
        wiped=tuple(sorted(wiped)),
        unread={
            member.name: "its store was not given"
            for member in members.values()
            if member.broker and member.name not in stores | wiped
        }
        | incomplete,
        incomplete=incomplete,
        log_states=states,
        offsets=offsets,
        latest_stored={node: one.latest for node, one in ends.items()},
        stopped={row.node: row.at for row in raw[stopping:] if row.kind == "node_stopped"},
        began_at=began_at,
        ended_at=max((row.last_at for row in during), default=0),
        conditions=_conditions(raw, directory),
        event_times=tuple(event_times),
        longest_queues=_longest_queues(relations) if relations.scale is Scale.LARGE else {},
    )


_RAW_FOLLOWED: Final = f"""
select seq, at, node, kind, fields from raw_happenings
where kind in ({", ".join(map(literal, (*_FOLLOWED, *CONDITION_KINDS, SURVEY_KIND, _STOPPING)))})
"""

# The stop of the cluster itself is not a failure of its nodes.
_HAPPENINGS: Final = f"""
select * from raw_happenings where kind not in ('{TORN_KIND}', '{SURVEY_KIND}')
    and not coalesce(seq >= (select min(seq) from raw_happenings where kind = '{_STOPPING}'), false)
"""

_SENDS: Final = f"""
select *, coalesce(position, 0) = 0 is_first from (
    select seq, node, coalesce(topic, '') topic, outcome, broker, queue, offset,
        coalesce(substring_index(held_in, ':', 1), topic, '') place_topic,
        coalesce(try_cast(substring_index(held_in, ':', -1) as int), queue) place_queue,
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
select seq, node, at, coalesce(`group`, node) `group`, coalesce(topic, '') topic, broker, queue,
    offset, {more}
from message_events where kind = '{kind}' and broker is not null and queue is not null and offset is not null
"""


# `is_during`: before the cluster began to stop. Such events are in both of the first two relations. The order of
# messages' events is not needed: Spark sorts all rows to aggregate structs.
_EVENT_TIMES: Final = """
select node, kind, is_during, min(at) first_at, max(at) last_at, max(seq) last_seq from (
    select node, kind, at, seq, false is_during from raw_happenings
    union all select node, kind, at, seq, true from happenings)
group by node, kind, is_during
union all
select node, kind, true, min(at), max(at), null from message_events group by node, kind
"""


# The group that a node consumed or committed for last.
_NODE_GROUPS: Final = f"""
select node, max_by(`group`, seq) `group`, {in_memory("at")} from (
    select node, `group`, seq, at from deliveries union all select node, `group`, seq, at from commits) group by node
"""

_MESSAGE: Final = "coalesce(message_id, '') message_id, coalesce(reconsume_times, 0) reconsume_times, from_broker_id"

_FACTS: Final = (
    Query(_HAPPENINGS, "happenings"),
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


def _happening(row: Any) -> Happening:
    return Happening(row.at, row.node, row.kind, json.loads(row.fields))


def _conditions(raw: Sequence[Any], directory: Path) -> Conditions:
    """Return the conditions: from supervisor, journals' surveys and record."""
    surveys = [survey_of_fields(json.loads(row.fields)) for row in raw if row.kind == SURVEY_KIND]
    entries = [
        JournalEntry(row.at, row.node, row.kind, json.loads(row.fields)) for row in raw if row.kind in CONDITION_KINDS
    ]
    return read_conditions(entries, join_surveys(surveys), recorded_run(directory))


def _members(happenings: Sequence[Happening], roles: Roles) -> dict[str, Member]:
    """Return each node's facts from its last `node_ready`, and its last broker id."""
    told = {one.node: one.fields for one in happenings if one.kind == "node_ready"}
    return {
        node: Member(
            name=node,
            address=str(fields.get("address") or ""),
            broker=str(fields.get("broker_name") or ""),
            broker_id=roles.last_ids.get(node, fields.get("broker_id")),
        )
        for node, fields in told.items()
    }


def _read_stores(
    relations: Relations,
    directory: Path,
    files: Reading | None,
    members: Mapping[str, Member],
    lives: Mapping[str, Life],
) -> Mapping[str, LogEnds]:
    """Read records and queues; return the ends of logs, recorded and found."""
    names = [{"node": name, "broker": member.broker or name} for name, member in members.items()]
    relations.define_rows("brokers_of_nodes", names, node="string", broker="string")
    *_, states, found = relations.execute(
        [
            *store_tables(relations, directory, files),
            Query(_WHOLE, "whole_records"),
            Query(_HOLES, "holes"),
            Query(_DEFERRED, "deferred"),
            Query("select distinct state from raw_records"),
            Query(log_ends(lives)),
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


_LONGEST_QUEUES: Final = """
select source, max(found) found from (
    select 'copies' source, count(*) found from copies group by node, topic, queue
    union all select 'deliveries', count(*) from deliveries group by `group`, topic, broker, queue)
group by source
"""


def _longest_queues(relations: Relations) -> dict[str, int]:
    (rows,) = relations.execute([Query(_LONGEST_QUEUES)])
    return {row.source: row.found for row in rows}


_WHOLE: Final = """
select /*+ broadcast(b) */ r.node, coalesce(b.broker, r.node) broker, r.topic, r.queueId queue, r.queueOffset offset,
    r.commitLogOffset log_offset, r.storeSize size, r.recordCrc record_crc, r.realTopic real_topic,
    r.tagsCode tags_code,
    coalesce(r.uniqKey, concat(r.storeHost, '/', r.commitLogOffset)) message_id, r.uniqKey is not null has_unique_id,
    unix_millis(r.storeTimestamp) stored_at, r.state
from raw_records r left join brokers_of_nodes b on r.node = b.node where r.state != 'torn'
"""

# Of a member of a DLedger group, what it knows to be committed: its queues have no more.
_READABLE: Final = """
select /*+ shuffle_hash(r) */ c.* from copies c left join readable_ends r on c.node = r.node where r.until is null or c.log_offset < r.until
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
select w.node, w.broker, w.topic, w.queue, w.offset, w.log_offset, a.message_id, w.why from within w left join acknowledged a
    on w.topic = a.topic and w.broker = a.broker and w.queue = a.queue and w.offset = a.offset
"""
