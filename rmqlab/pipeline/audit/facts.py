"""Facts of a run as tables: sends, deliveries, commits, records, cluster events.

They are read once from journals and commit logs, and kept as parquet in the run's directory: all queries use these
tables. Times are milliseconds of the cluster's clock; a message is identified by its unique id; `seq` orders events.

    sends       one row per message: message_id, node, topic, outcome, broker, queue, offset, began_at, ended_at;
                `is_first` of the messages of one batch
    failures    attempts that failed     deliveries, commits    messages and offsets, as consumers reported them
    copies      one row per readable record and node: node, broker, message_id, topic, queue, offset, log_offset, size,
                record_crc, stored_at
    damages     one row per unreadable record and node: in a hole of the log, or with a body that fails its CRC
    queue_entries, holes    entries of consume queues, and the bytes of logs that are not part of a record
    happenings  all other events, their fields as JSON: few enough for any process
"""

import contextlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rmqlab.pipeline.audit.watchers import Happening, Member
from rmqlab.pipeline.commitlogs import NoStoreError, find_logs
from rmqlab.pipeline.journalsource import SURVEY_KIND, TORN_KIND, JournalSource
from rmqlab.pipeline.queuesource import QueueSource
from rmqlab.pipeline.storesource import StoreSource
from rmqlab.runtime.journal import JournalEntry
from rmqlab.runtime.journalsurvey import join_surveys, survey_of_fields
from rmqlab.verdict.judgement import CONDITION_KINDS, Conditions, read_conditions
from rmqlab.verdict.outcomes import STORED
from rmqlab.verdict.roles import Roles

STORED_SQL: Final = ", ".join(f"'{outcome}'" for outcome in STORED)
_MESSAGE_KINDS: Final = "sent,attempt_failed,delivered,committed"
_MESSAGE_SCHEMA: Final = (
    "process string, place bigint, at timestamp, node string, kind string, message_id string, topic string,"
    " `group` string, outcome string, broker string, queue string, offset bigint, began_at bigint, took double,"
    " reconsume_times int, from_broker_id int, broker_id int, error string, attempt int, code int"
)

# Events of one millisecond are ordered by process, the supervisor last, then by their place in its journal.
_SEQ: Final = "named_struct('at', unix_millis(at), 'last', process = 'cluster', 'process', process, 'place', place)"


_FOLLOWED: Final = (
    "node_ready", "node_resumed", "node_killed", "node_stopped", "node_crashed", "node_paused", "command",
    "fault_applied", "fault_healed", "broker_registered", "broker_connection_lost", "broker_expired",
    "broker_unregistered", "route_believed", "store_wiped", "file_deleted", "power_lost", "log_truncated", "log_dropped",
    "cluster_starting",
)  # fmt: skip
"""Kinds of the few events that this process follows one by one."""


@attrs.frozen(kw_only=True)
class Run:
    """A run: its facts as tables of this Spark session, and the facts about nodes."""

    spark: SparkSession
    directory: Path
    out: Path
    happenings: tuple[Happening, ...]
    """Events about the presence of nodes and the beliefs of watchers, in order."""
    members: Mapping[str, Member]
    roles: Roles
    stores: tuple[str, ...]
    """Nodes whose store was read, or was wiped."""
    wiped: tuple[str, ...]
    """The nodes of `stores` without a store now."""
    unread: Mapping[str, str]
    """Brokers whose store is missing, with the reason."""
    stopped: Mapping[str, int]
    """Times at which nodes shut down cleanly with the whole cluster; these events are not in `happenings`."""
    began_at: int
    ended_at: int
    conditions: Conditions
    """The run's role and profile, and the gaps in its journals."""
    is_small: bool = False
    """True: each table has one partition, and this process holds it in memory."""

    def sql(self, text: str) -> DataFrame:
        return self.spark.sql(text)

    def table(self, name: str, frame: DataFrame) -> None:
        """Write a table as parquet, and register it as a view."""
        if self.is_small:
            content = frame.toArrow()
            self.keep(name, content)
            self._know(name, content)
        else:
            path = str(self.out / name)
            frame.write.mode("overwrite").parquet(path)
            self.spark.read.schema(frame.schema).parquet(path).createOrReplaceTempView(name)

    def fact(self, name: str, frame: DataFrame) -> None:
        """Register part of a table as a view, which a small run evaluates only once.

        The queries of a small run mostly cost planning time, which grows with each nested view.
        """
        if self.is_small:
            self._know(name, frame.toArrow())
        else:
            frame.createOrReplaceTempView(name)

    def small(self, name: str, rows: list[dict[str, Any]], **columns: pa.DataType) -> None:
        """Register rows of this process as a view."""
        self._know(name, pa.Table.from_pylist(rows, schema=pa.schema(list(columns.items()))))

    def keep(self, name: str, content: pa.Table) -> None:
        """Write a table of this process as parquet.

        Without Spark, which starts two processes per written file.
        """
        path = self.out / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        pq.write_table(content, path / "all.parquet")

    def _know(self, name: str, content: pa.Table) -> None:
        # Arrow data needs no Python worker to read, and a single partition needs no shuffle.
        relaxed = pa.schema([field.with_type(_relaxed(field.type)).with_nullable(True) for field in content.schema])
        # A table without rows may have no chunks, and createDataFrame fails on columns without chunks.
        content = content.cast(relaxed) if content.num_rows else relaxed.empty_table()
        self.spark.createDataFrame(content).coalesce(1).createOrReplaceTempView(name)

    def read(self, source: type[DataSource], schema: str, **options: str) -> DataFrame:
        """Return a data source's rows, which this process reads in a small run.

        The readers are the same. Spark would start four Python processes before its first row.
        """
        if not self.is_small:
            return self.spark.read.format(source.name()).schema(schema).options(**options).load()
        reader = source(options).reader(StructType.fromDDL(schema))
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        content = pa.Table.from_batches(batches, reader.schema) if batches else reader.schema.empty_table()
        return self.spark.createDataFrame(content)  # from_batches([]) would have no chunks

    def rows(self, text: str, limit: int | None = None) -> list[Any]:
        """Return a few rows as Python objects: for summaries only."""
        frame = self.sql(text)
        return list((frame.limit(limit) if limit else frame).collect())

    def brokers(self) -> list[str]:
        return sorted({member.broker for member in self.members.values() if member.broker})

    def unread_of(self, broker: str) -> list[str]:
        """Return why messages of this broker name are uncertain.

        Returns an empty list if all its logs were read.
        """
        return [f"{node}: {why}" for node, why in self.unread.items() if self.members[node].broker == broker]


def _relaxed(kind: pa.DataType) -> pa.DataType:
    """Return the same type with all nested fields nullable.

    A window's struct is null before the first row.
    """
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_relaxed(field.type)).with_nullable(True) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_relaxed(kind.value_type)).with_nullable(True))
    return kind


def literal(text: str) -> str:
    """Return a text as an SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def read_facts(spark: SparkSession, directory: Path, out: Path, *, is_small: bool = False) -> Run:
    """Read a run's journals and stores into tables below `out`.

    Raises AnalysisException or OptionError if there is no journal.
    """
    draft = Run(
        spark=spark,
        directory=directory,
        out=out,
        happenings=(),
        members={},
        roles=Roles.of(()),
        stores=(),
        wiped=(),
        unread={},
        stopped={},
        began_at=0,
        ended_at=0,
        conditions=Conditions(),
        is_small=is_small,
    )
    _read_happenings(draft)
    _read_messages(draft)
    happenings = _follow(draft)
    roles = Roles.of((one.at, one.node, one.kind, one.fields) for one in happenings)
    members = _members(happenings, roles)
    bounds = draft.rows(
        "select min(at) began, max(at) ended from (select at from happenings union all select at from message_events)"
    )[0]
    stores, wiped = _stores(directory, happenings)
    run = attrs.evolve(
        draft,
        happenings=happenings,
        members=members,
        roles=roles,
        stores=tuple(sorted(stores | wiped)),
        wiped=tuple(sorted(wiped)),
        unread={
            member.name: "its store was not given"
            for member in members.values()
            if member.broker and member.name not in stores | wiped
        },
        stopped=_stopped(draft),
        began_at=bounds.began or 0,
        ended_at=bounds.ended or 0,
        conditions=_conditions(draft),
    )
    _read_stores(run)
    return run


def _read_happenings(run: Run) -> None:
    schema = "process string, place bigint, at timestamp, node string, kind string, fields string"
    run.read(
        JournalSource, schema, path=str(run.directory), notKinds=_MESSAGE_KINDS, withSurveys="true"
    ).createOrReplaceTempView("raw")
    run.table(
        "raw_happenings", run.sql(f"select process, place, node, kind, fields, {_SEQ} seq, unix_millis(at) at from raw")
    )
    # The stop of the cluster itself is not a failure of its nodes.
    during = run.sql(
        f"select * from raw_happenings where kind not in ('{TORN_KIND}', '{SURVEY_KIND}') and not coalesce(seq >= "
        "(select min(seq) from raw_happenings where kind = 'cluster_stopping'), false)"
    )
    run.fact("happenings", during)


def _conditions(run: Run) -> Conditions:
    """Return the run's conditions, from its supervisor and its journals' surveys."""
    kinds = ", ".join(map(literal, (*CONDITION_KINDS, SURVEY_KIND)))
    rows = run.rows(f"select at, node, kind, fields from raw_happenings where kind in ({kinds}) order by seq")
    surveys = [survey_of_fields(json.loads(row.fields)) for row in rows if row.kind == SURVEY_KIND]
    entries = [
        JournalEntry(row.at, row.node, row.kind, json.loads(row.fields)) for row in rows if row.kind != SURVEY_KIND
    ]
    return read_conditions(entries, join_surveys(surveys))


def _follow(run: Run) -> tuple[Happening, ...]:
    kinds = ", ".join(f"'{kind}'" for kind in _FOLLOWED)
    rows = run.rows(f"select at, node, kind, fields from happenings where kind in ({kinds}) order by seq")
    return tuple(Happening(row.at, row.node, row.kind, json.loads(row.fields)) for row in rows)


def _stopped(run: Run) -> dict[str, int]:
    rows = run.rows(
        "select node, max(at) at from raw_happenings where kind = 'node_stopped' and seq >= "
        "(select min(seq) from raw_happenings where kind = 'cluster_stopping') group by node"
    )
    return {row.node: row.at for row in rows}


def _read_messages(run: Run) -> None:
    run.read(JournalSource, _MESSAGE_SCHEMA, path=str(run.directory), kinds=_MESSAGE_KINDS).createOrReplaceTempView(
        "raw"
    )
    columns = ", ".join(part.split()[0] for part in _MESSAGE_SCHEMA.split(", ") if not part.startswith("at "))
    run.table("message_events", run.sql(f"select {columns}, {_SEQ} seq, unix_millis(at) at from raw"))
    sends = run.sql(
        "select *, coalesce(position, 0) = 0 is_first from (select seq, node, coalesce(topic, '') topic, outcome, broker,"
        " cast(queue as int) queue, offset, posexplode_outer(split(nullif(message_id, ''), ',')) (position, message_id),"
        f" coalesce(began_at, at) began_at, at ended_at, outcome in ({STORED_SQL}) acknowledged"
        " from message_events where kind = 'sent')"
    )
    run.fact("sends", sends)
    failures = run.sql(
        "select seq, node, coalesce(topic, '') topic, coalesce(broker, '') broker, message_id, outcome, error,"
        " at - cast(coalesce(took, 0) as bigint) began_at, at ended_at from message_events where kind = 'attempt_failed'"
    )
    run.fact("failures", failures)
    consumed = (
        "select seq, node, at, coalesce(`group`, node) `group`, coalesce(topic, '') topic, broker,"
        " cast(queue as int) queue, offset, {more} from message_events where kind = '{kind}'"
        " and broker is not null and queue is not null and offset is not null"
    )
    more = "coalesce(message_id, '') message_id, coalesce(reconsume_times, 0) reconsume_times, from_broker_id"
    run.fact("deliveries", run.sql(consumed.format(kind="delivered", more=more)))
    run.fact("commits", run.sql(consumed.format(kind="committed", more="broker_id")))


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


def _stores(directory: Path, happenings: Sequence[Happening]) -> tuple[set[str], set[str]]:
    """Return the nodes with a store, and those whose store was wiped last.

    A node that never stored a message has no log.
    """
    found = {path.parent.parent.name for path in directory.glob("*/store/lock")}
    with contextlib.suppress(NoStoreError):
        found |= {log.node for log in find_logs(directory)}
    last = {one.node: one.kind for one in happenings if one.kind in ("store_wiped", "node_ready")}
    return found, {node for node, kind in last.items() if kind == "store_wiped"} - found


def _read_stores(run: Run) -> None:
    """Read records and consume queues.

    Queues are read first: the records they refer to were written before.
    """
    names = [{"node": name, "broker": member.broker or name} for name, member in run.members.items()]
    run.small("brokers_of_nodes", names, node=pa.string(), broker=pa.string())
    run.table("queue_entries", _of_stores(run, QueueSource, _ENTRY_SCHEMA))
    run.table("raw_records", _of_stores(run, StoreSource, _RECORD_SCHEMA))
    run.fact("whole_records", run.sql(_WHOLE))
    run.fact("copies", run.sql("select * from whole_records where state = 'ok'"))
    run.fact("holes", run.sql(_HOLES))
    run.fact("damages", run.sql(_DAMAGES))
    # A delayed or half message: its broker stores it in its topic later, without another send.
    run.fact(
        "deferred", run.sql("select distinct message_id, real_topic topic from copies where real_topic is not null")
    )


def _of_stores(run: Run, source: type[DataSource], schema: str) -> DataFrame:
    try:
        find_logs(run.directory)
    except NoStoreError:
        empty = to_arrow_schema(StructType.fromDDL(schema), timezone="UTC").empty_table()
        return run.spark.createDataFrame(empty)
    return run.read(source, schema, path=str(run.directory))


_ENTRY_SCHEMA: Final = (
    "node string, topic string, queueId int, queueOffset bigint, commitLogOffset bigint, storeSize int"
)
_RECORD_SCHEMA: Final = (
    "node string, state string, commitLogOffset bigint, storeSize int, topic string, queueId int, queueOffset bigint,"
    " uniqKey string, storeHost string, storeTimestamp timestamp, recordCrc bigint, realTopic string"
)

_WHOLE: Final = """
select /*+ broadcast(b) */ r.node, coalesce(b.broker, r.node) broker, r.topic, r.queueId queue, r.queueOffset offset,
    r.commitLogOffset log_offset, r.storeSize size, r.recordCrc record_crc, r.realTopic real_topic,
    coalesce(r.uniqKey, concat(r.storeHost, '/', r.commitLogOffset)) message_id, r.uniqKey is not null has_unique_id,
    unix_millis(r.storeTimestamp) stored_at, r.state
from raw_records r left join brokers_of_nodes b on r.node = b.node where r.state != 'torn'
"""

# Bytes that are not a record are the end of the log, or a hole if records follow.
_HOLES: Final = """
with ends as (select node, max(log_offset) last_record from whole_records group by node)
select r.node, r.commitLogOffset log_offset, r.commitLogOffset + r.storeSize until
from raw_records r join ends e on r.node = e.node
where r.state = 'torn' and r.commitLogOffset < e.last_record
"""

_DAMAGES: Final = """
with acknowledged as (
    select topic, broker, queue, offset + coalesce(position, 0) offset, max_by(message_id, seq) message_id
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
