"""The facts of a run as tables: what was sent, given out, committed, stored, and what happened to the cluster.

Read once from journals and commit logs, and kept as parquet beside the run: everything else is asked of these. Times are
milliseconds of the cluster's clock; a message is known by its unique id; `seq` orders events as they are told.

    sends       one row a message: message_id, node, topic, outcome, broker, queue, offset, began_at, ended_at
    failures    attempts that failed     deliveries, commits    what consumers were given, and wrote down
    copies      one row a record and node: node, broker, message_id, topic, queue, offset, log_offset, size, record_crc, stored_at
    happenings  everything else, its fields as JSON: few, and small enough for any process
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from pipeline.commitlogs import NoStoreError, find_logs

STORED: Final = ("SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
"""Outcomes that say: the message is stored."""
OUTCOMES: Final = (*STORED, "indeterminate", "refused")
STORED_SQL: Final = ", ".join(f"'{outcome}'" for outcome in STORED)
_MESSAGE_KINDS: Final = "sent,attempt_failed,delivered,committed"
_MESSAGE_SCHEMA: Final = (
    "process string, place bigint, at timestamp, node string, kind string, message_id string, topic string,"
    " `group` string, outcome string, broker string, queue string, offset bigint, began_at bigint, took double,"
    " reconsume_times int, from_broker_id int, broker_id int, error string, attempt int, code int"
)

# Events of one millisecond are told by process, the supervisor last, and in the order of its journal.
_SEQ: Final = "named_struct('at', unix_millis(at), 'last', process = 'cluster', 'process', process, 'place', place)"


@attrs.frozen(kw_only=True)
class Member:
    """A node of the cluster, as it told of itself."""

    name: str
    address: str = ""
    broker: str = ""
    broker_id: int | None = None


@attrs.frozen(kw_only=True)
class Run:
    """A run whose facts are tables of this session, by the names above; and what is known of its nodes."""

    spark: SparkSession
    directory: Path
    out: Path
    members: Mapping[str, Member]
    stores: tuple[str, ...]
    """Nodes whose store was read, or is known to be wiped."""
    unread: Mapping[str, str]
    """Brokers whose store is missing, and why."""
    began_at: int
    ended_at: int
    torn_journals: tuple[str, ...]
    is_small: bool = False
    """True: a table is at home in one partition, and passes through this process."""

    def sql(self, text: str) -> DataFrame:
        return self.spark.sql(text)

    def table(self, name: str, frame: DataFrame) -> DataFrame:
        """Keep a table as parquet, and know it by name from then on.

        Spark starts a process for each file it writes, and another one for that file's checksum: in a small run that
        takes longer than all else. And what lies in one partition needs no shuffle.
        """
        path = self.out / name
        if self.is_small:
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
            pq.write_table(frame.toArrow(), path / "all.parquet")
        else:
            frame.write.mode("overwrite").parquet(str(path))
        kept = self.spark.read.schema(frame.schema).parquet(str(path))
        kept = kept.coalesce(1) if self.is_small else kept
        kept.createOrReplaceTempView(name)
        return kept

    def fact(self, name: str, frame: DataFrame) -> None:
        """Know a part of a table by a name: worked out by each question, or once for all in a small run.

        There every question costs what its plan costs, and a plan grows with each view in it.
        """
        if self.is_small:
            self.table(name, frame)
        else:
            frame.createOrReplaceTempView(name)

    def small(self, name: str, rows: list[dict[str, Any]], **columns: pa.DataType) -> DataFrame:
        """A table of rows that this process has. As Arrow, for then no Python worker is needed to read it."""
        frame = self.spark.createDataFrame(pa.Table.from_pylist(rows, schema=pa.schema(list(columns.items()))))
        frame.createOrReplaceTempView(name)
        return frame

    def rows(self, text: str, limit: int | None = None) -> list[Any]:
        """A few rows, in this process: for summaries only."""
        frame = self.sql(text)
        return list((frame.limit(limit) if limit else frame).collect())

    def brokers(self) -> list[str]:
        return sorted({member.broker for member in self.members.values() if member.broker})

    def unread_of(self, broker: str) -> list[str]:
        """Why nothing certain can be said of messages of this broker name; empty where all its logs were read."""
        return [f"{node}: {why}" for node, why in self.unread.items() if self.members[node].broker == broker]


def literal(text: str) -> str:
    """A text as SQL writes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def read_facts(spark: SparkSession, directory: Path, out: Path, *, is_small: bool = False) -> Run:
    """Read a run's journals and stores into tables below `out`. AnalysisException where there is no journal."""
    draft = Run(
        spark=spark,
        directory=directory,
        out=out,
        members={},
        stores=(),
        unread={},
        began_at=0,
        ended_at=0,
        torn_journals=(),
        is_small=is_small,
    )
    _read_happenings(draft)
    _read_messages(draft)
    members = _members(draft)
    bounds = draft.rows(
        "select min(at) began, max(at) ended from (select at from happenings union all"
        " select ended_at at from sends union all select ended_at from failures"
        " union all select at from deliveries union all select at from commits)"
    )[0]
    stores, unread = _stores(draft, members)
    torn = draft.rows("select distinct process from torn_journals")
    run = attrs.evolve(
        draft,
        members=members,
        stores=stores,
        unread=unread,
        began_at=bounds.began or 0,
        ended_at=bounds.ended or 0,
        torn_journals=tuple(sorted(row.process for row in torn)),
    )
    _read_copies(run)
    return run


def _journal(run: Run, schema: str, **options: str) -> DataFrame:
    reader = run.spark.read.format("rmqlab-journal").schema(schema).options(**options)
    return reader.load(str(run.directory / "journal"))


def _read_happenings(run: Run) -> None:
    frame = _journal(run, "process string, place bigint, at timestamp, node string, kind string, fields string",
                     notKinds=_MESSAGE_KINDS)  # fmt: skip
    frame.createOrReplaceTempView("raw_happenings")
    everything = run.sql(f"select *, {_SEQ} seq, unix_millis(at) millis from raw_happenings")
    run.table("raw_happenings", everything.drop("at").withColumnRenamed("millis", "at"))
    run.sql("select * from raw_happenings where kind = 'journal_torn'").createOrReplaceTempView("torn_journals")
    # How the cluster itself was stopped is no failure of its nodes.
    during = run.sql(
        "select * from raw_happenings where kind != 'journal_torn' and not coalesce(seq >= "
        "(select min(seq) from raw_happenings where kind = 'cluster_stopping'), false)"
    )
    run.fact("happenings", during)


def _read_messages(run: Run) -> None:
    raw = _journal(run, _MESSAGE_SCHEMA, kinds=_MESSAGE_KINDS)
    raw.createOrReplaceTempView("raw_messages")
    events = run.sql(f"select *, {_SEQ} seq, unix_millis(at) millis from raw_messages")
    run.table("message_events", events.drop("at").withColumnRenamed("millis", "at"))
    sends = run.sql(
        "select seq, node, coalesce(topic, '') topic, outcome, broker, cast(queue as int) queue, offset,"
        " explode_outer(split(nullif(message_id, ''), ',')) message_id, coalesce(began_at, at) began_at, at ended_at,"
        f" outcome in ({STORED_SQL}) acknowledged from message_events where kind = 'sent'"
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


def _members(run: Run) -> dict[str, Member]:
    rows = run.rows(
        "select node, get_json_object(fields, '$.address') address, get_json_object(fields, '$.broker_name') broker,"
        " cast(get_json_object(fields, '$.broker_id') as int) broker_id from happenings where kind = 'node_ready'"
        " order by seq"
    )
    return {
        row.node: Member(name=row.node, address=row.address or "", broker=row.broker or "", broker_id=row.broker_id)
        for row in rows
    }


def _stores(run: Run, members: Mapping[str, Member]) -> tuple[tuple[str, ...], dict[str, str]]:
    try:
        found = {log.node for log in find_logs(run.directory)}
    except NoStoreError:
        found = set()
    last = run.rows(
        "select node, max_by(kind, seq) kind from happenings where kind in ('store_wiped', 'node_ready') group by node"
    )
    wiped = {row.node for row in last if row.kind == "store_wiped"} - found
    read = tuple(sorted(found | wiped))
    return read, {
        member.name: "its store was not given"
        for member in members.values()
        if member.broker and member.name not in read
    }


def _read_copies(run: Run) -> None:
    """Records up to where each log is torn: what lies beyond, a broker that starts would cut off."""
    spark = run.spark
    names = [{"node": name, "broker": member.broker or name} for name, member in run.members.items()]
    run.small("brokers_of_nodes", names, node=pa.string(), broker=pa.string())
    schema = (
        "node string, commitLogOffset bigint, storeSize int, topic string, queueId int, queueOffset bigint, uniqKey string,"
        " storeHost string, storeTimestamp timestamp, recordCrc bigint, realTopic string"
    )
    reader = spark.read.format("rocketmq-store").schema(schema)
    try:
        find_logs(run.directory)
        reader.load(str(run.directory)).createOrReplaceTempView("raw_records")
    except NoStoreError:
        spark.sql("select 1").limit(0).selectExpr(*_no_columns(schema)).createOrReplaceTempView("raw_records")
    records = run.table("raw_records", spark.table("raw_records"))
    records.filter("topic is null").groupBy("node").agg({"commitLogOffset": "min"}).withColumnRenamed(
        "min(commitLogOffset)", "torn_at"
    ).createOrReplaceTempView("tears")
    copies = run.sql(
        "select /*+ broadcast(t, b) */ r.node, coalesce(b.broker, r.node) broker, r.topic, r.queueId queue,"
        " r.queueOffset offset, r.commitLogOffset log_offset, r.storeSize size, r.recordCrc record_crc, r.realTopic real_topic,"
        " coalesce(r.uniqKey, concat(r.storeHost, '/', r.commitLogOffset)) message_id,"
        " unix_millis(r.storeTimestamp) stored_at"
        " from raw_records r left join tears t on r.node = t.node left join brokers_of_nodes b on r.node = b.node"
        " where r.topic is not null and (t.torn_at is null or r.commitLogOffset < t.torn_at)"
    )
    run.fact("copies", copies)
    # A delayed or half message: its broker stores it in its topic later, by itself.
    run.fact(
        "deferred", run.sql("select distinct message_id, real_topic topic from copies where real_topic is not null")
    )


def _no_columns(schema: str) -> list[str]:
    """Columns of these names and types, for a table without rows."""
    return [f"cast(null as {kind}) {name}" for name, kind in (part.split() for part in schema.split(","))]
