"""Journals and stores of a run as tables, which all facts are made of.

    message_events  events of single messages: their fields as columns
    raw_events      all other events, also bytes that are no event and surveys of files: their fields as JSON
    queue_entries   entries of consume queues
    raw_records     records of commit logs, and bytes that are not records

Below MEDIUM_BYTES this process reads them once and writes parquet (`reading`). That needs no JVM, so it begins before
one starts, and takes less time than Spark's workers need to start and to pass on rows. Larger runs are read by Spark's
workers. The readers are the same.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.pandas.types import to_arrow_schema

from rmqlab.pipeline.audit.relations import ONLY_FILE, Query, Relations, literal
from rmqlab.pipeline.audit.size import Scale
from rmqlab.pipeline.columns import ddl, struct_type
from rmqlab.pipeline.journals.journalsource import JournalSource, read_together
from rmqlab.pipeline.stores.commitlogs import NoStoreError, find_logs
from rmqlab.pipeline.stores.queuesource import QueueSource
from rmqlab.pipeline.stores.storesource import StoreSource
from rmqlab.remoting.bodies.offset import ConsumerOffsets, DelayOffsets
from rmqlab.runtime.journals.journal import SUPERVISOR
from rmqlab.store.files.configfile import read_config_file

Columns = Mapping[str, str]
"""SQL types by column."""

_MESSAGE_KINDS: Final = "sent,attempt_failed,delivered,committed"
_EVENT: Final = {"process": "string", "place": "bigint", "at": "timestamp", "node": "string", "kind": "string"}
_MESSAGE_COLUMNS: Final = _EVENT | {
    "message_id": "string", "topic": "string", "group": "string", "outcome": "string", "broker": "string",
    "queue": "int", "offset": "bigint", "began_at": "bigint", "took": "double", "reconsume_times": "int",
    "from_broker_id": "int", "broker_id": "int", "error": "string", "attempt": "int", "code": "int",
    "held_in": "string", "crc": "bigint", "sys_flag": "int",
}  # fmt: skip
_EVENT_COLUMNS: Final = _EVENT | {"fields": "string"}
_ENTRY_COLUMNS: Final = {
    "node": "string", "topic": "string", "queueId": "int", "queueOffset": "bigint", "commitLogOffset": "bigint",
    "storeSize": "int", "tagsCode": "bigint",
}  # fmt: skip
_RECORD_COLUMNS: Final = {
    "node": "string", "state": "string", "commitLogOffset": "bigint", "storeSize": "int", "topic": "string",
    "queueId": "int", "queueOffset": "bigint", "uniqKey": "string", "storeHost": "string",
    "bornTimestamp": "timestamp", "bornHost": "string", "storeTimestamp": "timestamp", "recordCrc": "bigint",
    "contentCrc": "bigint", "realTopic": "string", "tagsCode": "bigint", "sysFlag": "int", "reconsumeTimes": "int",
    "preparedTransactionOffset": "bigint",
}  # fmt: skip
_ROW_GROUP: Final = 2**16
"""Rows that this process holds before it writes them."""


@attrs.frozen
class _Source:
    """The data source of a table, with its columns and options."""

    table: str
    kind: type[DataSource]
    columns: Columns
    options: Mapping[str, str]

    def reader(self) -> DataSourceReader:
        """Return the reader of this process. OptionError if there is nothing to read."""
        return self.kind(dict(self.options)).reader(struct_type(self.columns))

    @property
    def schema(self) -> pa.Schema:
        return to_arrow_schema(struct_type(self.columns), timezone="UTC")


def _journals(directory: Path) -> list[_Source]:
    path = {"path": str(directory)}
    others = path | {"notKinds": _MESSAGE_KINDS, "withSurveys": "true"}
    return [
        _Source("message_events", JournalSource, _MESSAGE_COLUMNS, path | {"kinds": _MESSAGE_KINDS}),
        _Source("raw_events", JournalSource, _EVENT_COLUMNS, others),
    ]


def _stores(directory: Path) -> list[_Source]:
    """Return the sources of stores.

    Queues are first: the records that they refer to were written before.
    """
    path = {"path": str(directory)}
    return [
        _Source("queue_entries", QueueSource, _ENTRY_COLUMNS, path),
        _Source("raw_records", StoreSource, _RECORD_COLUMNS, path),
    ]


def _has_logs(directory: Path) -> bool:
    with contextlib.suppress(NoStoreError):
        find_logs(directory)
        return True
    return False


# ---- tables for queries ----------------------------------------------------------------------------------


def journal_tables(relations: Relations, directory: Path, files: "Reading | None") -> list[Query]:
    """Define the tables of the journals, or return the queries that do.

    Waits until this process has read them, and raises its errors.
    """
    if files is not None:
        return _define(relations, files.journals)
    return [_by_workers(relations, source, _ordered_sql(source)) for source in _journals(directory)]


def store_tables(relations: Relations, directory: Path, files: "Reading | None") -> list[Query]:
    """Do for the stores what `journal_tables` does for the journals."""
    if files is not None:
        return _define(relations, files.stores)
    if _has_logs(directory):
        return [_by_workers(relations, source, "select *") for source in _stores(directory)]
    for source in _stores(directory):
        relations.define_rows(source.table, [], **source.columns)
    return []


def saved_offsets(directory: Path, files: "Reading | None") -> "SavedOffsets":
    """Return the offsets in the stores' tables. To be called before `store_tables`."""
    return SavedOffsets.read(directory) if files is None else files.offsets.result()


def _define(relations: Relations, written: "Future[Mapping[str, pa.Schema]]") -> list[Query]:
    for table, schema in written.result().items():
        relations.define_files(table, schema)
    return []


def _by_workers(relations: Relations, source: _Source, select: str) -> Query:
    view = f"read_{source.table}"
    frame = relations.spark.read.format(source.kind.name()).schema(ddl(source.columns)).options(**source.options).load()
    frame.createOrReplaceTempView(view)
    return Query(f"{select} from {view}", source.table, is_written=True)


# Events of one millisecond are ordered by process, the supervisor last, then by their place in its journal. So both
# processes and workers add `seq`, and time as milliseconds.


def _ordered_sql(source: _Source) -> str:
    """Return the begin of a query: the columns of a journal, and `seq`."""
    others = ", ".join(f"`{name}`" for name in source.columns if name != "at")
    last = f"process = {literal(SUPERVISOR)}"
    seq = f"named_struct('at', unix_millis(at), 'last', {last}, 'process', process, 'place', place)"
    return f"select {others}, {seq} seq, unix_millis(at) at"


def _ordered(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return what `_ordered_sql` selects of a batch."""
    at = batch["at"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    parts = {"at": at, "last": pc.equal(batch["process"], SUPERVISOR)}
    parts |= {name: batch[name] for name in ("process", "place")}
    columns = {name: batch[name] for name in batch.schema.names if name != "at"}
    columns |= {"seq": pa.StructArray.from_arrays(list(parts.values()), names=list(parts)), "at": at}
    return pa.RecordBatch.from_pydict(columns)


# ---- this process reads ----------------------------------------------------------------------------------


@attrs.frozen
class SavedOffsets:
    """The offsets in tables of stores, by node.

    Nodes without a readable table are absent. A broker that runs may append to its log, and save larger offsets, so
    they are read before all logs.
    """

    consumers: Mapping[str, Mapping[str, Mapping[int, int]]]
    """Offsets by `topic@group` and queue id."""
    delays: Mapping[str, Mapping[int, int]]
    """Offsets by delay level."""

    @classmethod
    def read(cls, directory: Path) -> Self:
        configs = {path.parent.parent.name: path for path in sorted(directory.glob("*/store/config"))}
        consumers, delays = {}, {}
        for node, path in configs.items():
            if (groups := read_config_file(path / "consumerOffset.json", ConsumerOffsets.decode)) is not None:
                consumers[node] = groups.offset_table
            if (levels := read_config_file(path / "delayOffset.json", DelayOffsets.decode)) is not None:
                delays[node] = levels.offset_table
        return cls(consumers, delays)


@attrs.frozen
class Reading:
    """Tables that a thread writes: their schemas, once they are complete."""

    journals: Future[Mapping[str, pa.Schema]]
    offsets: Future[SavedOffsets]
    """Read before all logs."""
    stores: Future[Mapping[str, pa.Schema]]


@contextlib.contextmanager
def reading(directory: Path, out: Path, scale: Scale) -> Iterator[Reading | None]:
    """Read a run in a thread, until the end of the block.

    None if workers are to read it. Raises OptionError if there is no journal.
    """
    if scale is Scale.LARGE:
        yield None
        return
    readers = {source.table: source.reader() for source in _journals(directory)}
    threads = ThreadPoolExecutor(1)
    try:
        journals = threads.submit(_write_journals, readers, out)
        offsets = threads.submit(SavedOffsets.read, directory)
        yield Reading(journals, offsets, threads.submit(_write_stores, directory, out))
    finally:
        threads.shutdown(cancel_futures=True)


def _write_journals(readers: Mapping[str, DataSourceReader], out: Path) -> Mapping[str, pa.Schema]:
    """Read the journals once, for all readers."""
    schemas = {
        table: _ordered(pa.RecordBatch.from_pylist([], reader.schema)).schema for table, reader in readers.items()
    }
    with contextlib.ExitStack() as files:
        add = {
            reader: files.enter_context(_table_file(out / table, schemas[table])) for table, reader in readers.items()
        }
        for part in next(iter(readers.values())).partitions():
            for reader, batch in read_together(list(readers.values()), part):
                add[reader](_ordered(batch))
    return schemas


def _write_stores(directory: Path, out: Path) -> Mapping[str, pa.Schema]:
    sources = _stores(directory)
    has_logs = _has_logs(directory)
    for source in sources:
        with _table_file(out / source.table, source.schema) as add:
            for batch in _batches(source.reader()) if has_logs else ():
                add(batch)
    return {source.table: source.schema for source in sources}


def _batches(reader: DataSourceReader) -> Iterator[pa.RecordBatch]:
    for part in reader.partitions():
        yield from reader.read(part)


@contextlib.contextmanager
def _table_file(path: Path, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Provide a function that adds rows to a new parquet table.

    The table replaces the one at this path.
    """
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    waiting: list[pa.RecordBatch] = []

    def write() -> None:
        file.write_table(pa.Table.from_batches(waiting, schema))
        waiting.clear()

    def add(batch: pa.RecordBatch) -> None:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= _ROW_GROUP:
            write()

    with pq.ParquetWriter(path / ONLY_FILE, schema) as file:
        yield add
        write()
