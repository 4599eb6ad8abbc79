"""Journals and stores of a run as tables, which all facts are made of.

    message_events  events of single messages: their fields as columns
    raw_events      all other events, also bytes that are no event and surveys of files: their fields as JSON
    queue_entries   entries of consume queues
    raw_records     records of commit logs, and bytes that are not records

All are read once, and written as parquet without the JVM. Below MEDIUM_BYTES this process does that (`reading`): it
begins before a JVM starts, and takes less time than Spark's workers need to start. Of larger runs each of Spark's tasks
reads a range of a file, and writes a file of each table: rows that pass through the JVM cost as much again. The readers
are the same.
"""

import contextlib
import functools
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from rmqlab.pipeline.audit.relations import ONLY_FILE, Relations
from rmqlab.pipeline.audit.size import Scale
from rmqlab.pipeline.columns import struct_type
from rmqlab.pipeline.journals.journalsource import JournalReader, JournalSource, read_together
from rmqlab.pipeline.stores.commitlogs import NoStoreError, find_logs
from rmqlab.pipeline.stores.queuesource import QueueSource
from rmqlab.pipeline.stores.storesource import StoreSource
from rmqlab.remoting.bodies.offset import ConsumerOffsets, DelayOffsets
from rmqlab.runtime.journals.journalfiles import SUPERVISOR
from rmqlab.store.files.configfile import read_config_file
from rmqlab.store.files.fileimage import FileImage

Columns = Mapping[str, str]
"""SQL types by column."""
Schemas = Mapping[str, pa.Schema]
"""Schemas by table."""

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


class JudgedStores(StoreSource):
    """Reads with system calls: no change of a file may end a judge."""

    image = FileImage


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
        _Source("raw_records", JudgedStores, _RECORD_COLUMNS, path),
    ]


def _has_logs(directory: Path) -> bool:
    with contextlib.suppress(NoStoreError):
        find_logs(directory)
        return True
    return False


# ---- tables for queries ----------------------------------------------------------------------------------


def journal_tables(relations: Relations, directory: Path, files: "Reading | None") -> None:
    """Define the tables of the journals.

    Waits until they are read, and raises the errors of that. Raises OptionError if there is no journal.
    """
    schemas = _written_by_tasks(relations, [_journal_ranges(directory)]) if files is None else files.journals.result()
    _define(relations, schemas)


def store_tables(relations: Relations, directory: Path, files: "Reading | None") -> None:
    """Do for the stores what `journal_tables` does for the journals."""
    schemas = _written_by_tasks(relations, _store_ranges(directory)) if files is None else files.stores.result()
    _define(relations, schemas)


def saved_offsets(directory: Path, files: "Reading | None") -> "SavedOffsets":
    """Return the offsets in the stores' tables. To be called before `store_tables`."""
    return SavedOffsets.read(directory) if files is None else files.offsets.result()


def _define(relations: Relations, schemas: Schemas) -> None:
    for table, schema in schemas.items():
        relations.define_files(table, schema)


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


# ---- ranges of files -------------------------------------------------------------------------------------

Rows = Iterator[tuple[str, pa.RecordBatch]]
"""Rows with the name of their table."""


@attrs.frozen
class _Ranges:
    """Ranges of files, which are read independently, and the tables of their rows."""

    schemas: Schemas
    parts: Sequence[InputPartition]
    read: Callable[[InputPartition], Rows]
    """Reads one of the parts; Spark's tasks get a copy."""


def _journal_ranges(directory: Path) -> _Ranges:
    """Return the journals, which are read once for both tables.

    Raises OptionError if there is no journal.
    """
    readers = {source.table: source.reader() for source in _journals(directory)}
    schemas = {
        table: _ordered(pa.RecordBatch.from_pylist([], reader.schema)).schema for table, reader in readers.items()
    }
    parts = next(iter(readers.values())).partitions()
    return _Ranges(schemas, parts, functools.partial(_read_journals, readers))


def _store_ranges(directory: Path) -> Iterator[_Ranges]:
    """Yield the ranges of each table of the stores; to be read in this order."""
    has_logs = _has_logs(directory)
    for source in _stores(directory):
        schemas = {source.table: source.schema}
        if has_logs:
            reader = source.reader()
            yield _Ranges(schemas, reader.partitions(), functools.partial(_read_store, source.table, reader))
        else:
            yield _Ranges(schemas, (), lambda _: iter(()))


def _read_journals(readers: Mapping[str, JournalReader], part: InputPartition) -> Rows:
    tables = {reader: table for table, reader in readers.items()}
    for reader, batch in read_together(list(tables), part):
        yield tables[reader], _ordered(batch)


def _read_store(table: str, reader: DataSourceReader, part: InputPartition) -> Rows:
    for batch in reader.read(part):
        yield table, batch


def _ordered(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a journal with `seq`, and time as milliseconds.

    Events of one millisecond are ordered by process, the supervisor last, then by their place in its journal.
    """
    at = batch["at"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    parts = {"at": at, "last": pc.equal(batch["process"], SUPERVISOR)}
    parts |= {name: batch[name] for name in ("process", "place")}
    columns = {name: batch[name] for name in batch.schema.names if name != "at"}
    columns |= {"seq": pa.StructArray.from_arrays(list(parts.values()), names=list(parts)), "at": at}
    return pa.RecordBatch.from_pydict(columns)


# ---- this process reads ----------------------------------------------------------------------------------


@attrs.frozen
class Reading:
    """Tables that a thread writes: their schemas, once they are complete."""

    journals: Future[Schemas]
    offsets: Future[SavedOffsets]
    """Read before all logs."""
    stores: Future[Schemas]


@contextlib.contextmanager
def reading(directory: Path, out: Path, scale: Scale) -> Iterator[Reading | None]:
    """Read a run in a thread, until the end of the block.

    None if workers are to read it. Raises OptionError if there is no journal.
    """
    if scale is Scale.LARGE:
        yield None
        return
    ranges = _journal_ranges(directory)
    threads = ThreadPoolExecutor(1)
    try:
        journals = threads.submit(_write, ranges, out)
        offsets = threads.submit(SavedOffsets.read, directory)
        yield Reading(journals, offsets, threads.submit(_write_stores, directory, out))
    finally:
        threads.shutdown(cancel_futures=True)


def _write(ranges: _Ranges, out: Path) -> Schemas:
    """Write all rows, one file for each table. Returns the tables' schemas."""
    _clear(ranges, out)
    _write_files(ranges, ranges.parts, out, ONLY_FILE)
    return ranges.schemas


def _write_stores(directory: Path, out: Path) -> Schemas:
    schemas: dict[str, pa.Schema] = {}
    for ranges in _store_ranges(directory):
        schemas |= _write(ranges, out)
    return schemas


# ---- Spark's tasks read ----------------------------------------------------------------------------------


def _written_by_tasks(relations: Relations, several: Iterable[_Ranges]) -> Schemas:
    """Let each task write the rows of one part, and return the tables' schemas."""
    context, out = relations.spark.sparkContext, relations.out
    schemas: dict[str, pa.Schema] = {}
    for ranges in several:
        if ranges.parts:
            _clear(ranges, out)
            write = functools.partial(_write_part, attrs.evolve(ranges, parts=()), out)
            context.parallelize(list(enumerate(ranges.parts)), len(ranges.parts)).foreach(write)
            schemas |= ranges.schemas
        else:
            schemas |= _write(ranges, out)
    return schemas


def _write_part(ranges: _Ranges, out: Path, numbered: tuple[int, InputPartition]) -> None:
    number, part = numbered
    _write_files(ranges, [part], out, f"part-{number:05}.parquet")


# ---- files of tables -------------------------------------------------------------------------------------


def _clear(ranges: _Ranges, out: Path) -> None:
    """Delete the rows of an earlier audit."""
    for table in ranges.schemas:
        shutil.rmtree(out / table, ignore_errors=True)
        (out / table).mkdir(parents=True)


def _write_files(ranges: _Ranges, parts: Iterable[InputPartition], out: Path, name: str) -> None:
    """Write the rows of some parts, one file of this name for each table."""
    with contextlib.ExitStack() as files:
        add = {
            table: files.enter_context(_table_file(out / table / name, schema))
            for table, schema in ranges.schemas.items()
        }
        for part in parts:
            for table, batch in ranges.read(part):
                add[table](batch)


@contextlib.contextmanager
def _table_file(path: Path, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Provide a function that adds rows to a parquet file.

    The file exists once it is complete. Spark ignores files whose names begin with a dot: a task may fail, and its next
    attempt begins again.
    """
    incomplete = path.with_name(f".{path.name}")
    waiting: list[pa.RecordBatch] = []

    def write() -> None:
        file.write_table(pa.Table.from_batches(waiting, schema))
        waiting.clear()

    def add(batch: pa.RecordBatch) -> None:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= _ROW_GROUP:
            write()

    with pq.ParquetWriter(incomplete, schema) as file:
        yield add
        write()
    incomplete.replace(path)
