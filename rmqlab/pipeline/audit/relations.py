"""Named relations of an audit, and batches of queries on them.

A relation is the text of a query, which becomes a common table expression of the queries that use it, or a table that
was computed once. Tables get a view when a query uses them, and short ones share it: Spark executes a command for each
view.

The queries of a batch are collected together: each is a scalar subquery of one row, with its rows as an array. Spark
plans subqueries one by one, so the time to plan a batch is the sum of theirs. In a union it grows with their square.
Below the large size, two executions with half of the queries each are planned at the same time.
"""

import enum
import json
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from rmqlab.pipeline.audit.previews import rows_of
from rmqlab.pipeline.audit.size import Scale
from rmqlab.pipeline.columns import ddl

_SHORT = 500
"""Rows below which a table shares its view with others, and this process holds it at any size of the run."""
_AT_ONCE = 2
"""Queries to analyze at once, tables to write at once, and executions that collect a batch."""
_WORTH_SPLITTING = 6
"""Queries of a batch from which on several executions collect it: each plans its queries one by one."""

ONLY_FILE = "all.parquet"
"""The file of a table that this process has written."""

_HASH_JOIN = re.compile(r"/\*\+ shuffle_hash\([\w, ]+\) \*/ ")
"""The hint to hold one side of a join in memory as a hash table. Without it Spark sorts both sides.

Such a table must fit into a task's memory, so a large run ignores the hint."""

_REFERENCE = re.compile(r"\b(?:from|join)\s+(\w+)")
"""A relation that a query reads; unused definitions would be analyzed, too."""


@attrs.frozen
class Query:
    """A query of a batch, which other queries of the batch can use by its name."""

    text: str
    name: str = ""
    """The relation to define; empty if only the rows are needed."""
    is_written: bool = False
    """True: a parquet table of this name below `out`."""
    is_bounded: bool = False
    """True: at most some thousand rows at any size of the run, so that this process can hold them."""
    is_rare: bool = False
    """True: a row for each violation, so usually empty."""


class QueriesCancelledError(Exception):
    """No further query is made."""


class _Strategy(enum.Enum):
    """How the rows of a query are computed."""

    COLLECTED = enum.auto()
    """This process receives them."""
    TRIED = enum.auto()
    """This process receives the first ones. If there are more, Spark writes all."""
    WRITTEN = enum.auto()
    """Spark writes them as parquet."""
    CACHED = enum.auto()
    """Spark holds them, and this process receives them if they are few."""
    DEFINED = enum.auto()
    """Each query that uses them computes them."""


@attrs.define
class Relations:
    """The relations of one audit."""

    spark: SparkSession
    out: Path
    scale: Scale
    _texts: dict[str, str] = attrs.field(factory=dict, init=False)
    """Definitions by name, each after those that it uses."""
    held: dict[str, pa.Table] = attrs.field(factory=dict, init=False)
    """Tables of this process."""
    _new: set[str] = attrs.field(factory=set, init=False)
    """Tables of this process that no query has used yet."""
    _computed: list[DataFrame] = attrs.field(factory=list, init=False)
    """Frames that Spark holds. Their plans have the counters of tasks: Java would collect them before the last task."""
    _is_cancelled: bool = attrs.field(default=False, init=False)
    _shared: int = attrs.field(default=0, init=False)
    """Number of shared views."""

    @property
    def tasks(self) -> int:
        """Number of partitions of a shuffle, before Spark joins small ones."""
        return int(str(self.spark.conf.get("spark.sql.shuffle.partitions")))

    def define(self, name: str, text: str) -> None:
        """Define a relation, which each query that uses it computes."""
        self._texts[name] = self._hinted(text)

    def define_rows(self, name: str, rows: Sequence[Mapping[str, object]], /, **columns: str) -> None:
        """Define a relation of a few rows of this process, with SQL types by column."""
        if not rows:
            self.held[name] = pa.table({column: pa.nulls(0) for column in columns})
            self.define(name, _no_rows(columns))
            return
        fields = ",".join(f"`{column}`:{kind}" for column, kind in columns.items())
        self.define(name, f"select inline(from_json({literal(json.dumps(rows))}, 'array<struct<{fields}>>'))")

    def write_empty(self, name: str, columns: Mapping[str, str]) -> None:
        """Write a table without rows, and define it; `columns` are SQL types by name."""
        content = to_arrow_schema(StructType.fromDDL(ddl(columns)), timezone="UTC").empty_table()
        self._hold(name, content)
        self.keep(name, content)

    def define_files(self, name: str, schema: pa.Schema) -> None:
        """Define a relation by the parquet table that this process has written."""
        path = self.out / name
        if self.scale is Scale.SMALL:
            self._hold(name, pq.ParquetFile(path / ONLY_FILE).read())
        else:
            frame = self.spark.read.schema(from_arrow_schema(schema)).parquet(str(path))
            self._hold_short(name, frame)

    def leave_out(self, name: str, column: str, values: Collection[str]) -> None:
        """Leave out rows of a table that no query has used yet; its files keep them."""
        if (content := self.held.get(name)) is not None:
            self._hold(name, content.filter(pc.invert(pc.is_in(content[column], pa.array(values, pa.string())))))
        else:
            frame = self.spark.table(name)
            self._view(name, frame.where(~frame[column].isin(*values)))

    def execute(self, queries: Sequence[Query]) -> list[Sequence[Row]]:
        """Return the rows of each query that has no name or is bounded.

        No rows for the others.

        Queries with a name define it. In a large run only written tables are computed once: each is written by its own
        execution if it is not bounded, and collected otherwise. Smaller runs compute all of them once, except a rare
        table with _SHORT rows or more: Spark computes it again to write it.

        A table with less than _SHORT rows is held by this process, so that plans do not contain its query. Most tables
        of evidence are empty, and Spark removes from a plan what depends on an empty table.
        """
        for query in queries:
            if query.name:
                self.define(query.name, query.text)
        written = [query for query in queries if self._strategy(query) is _Strategy.WRITTEN]
        stored = {query.name for query in queries if self._strategy(query) in (_Strategy.WRITTEN, _Strategy.TRIED)}
        others = [query for query in queries if query not in written]
        following = [query for query in others if stored & self._used([query.text])]
        contents = self._compute([query for query in others if query not in following], written)
        contents |= self._compute(following, [])
        returned = (contents.get(query) if query.is_bounded or not query.name else None for query in queries)
        return [() if content is None else rows_of(content) for content in returned]

    def _compute(self, queries: Sequence[Query], written: Sequence[Query]) -> dict[Query, pa.Table]:
        """Compute queries while those of `written` are written, which they do not use.

        Returns what was collected.
        """
        self._register_used([query.text for query in (*queries, *written)])
        first_rows = {}
        for query in queries:
            if self._strategy(query) is _Strategy.CACHED:
                self._cache(query)
                first_rows[query] = Query(f"select * from {query.name} limit {_SHORT}")
            elif self._strategy(query) is _Strategy.TRIED:
                first_rows[query] = Query(f"select * from ({query.text}) limit {_SHORT}")
        collected = [query for query in queries if self._strategy(query) is _Strategy.COLLECTED]
        asked = [*collected, *first_rows.values()]
        with ThreadPoolExecutor(_AT_ONCE) as threads:  # Spark plans one while it executes the other
            collecting = [(share, threads.submit(self._collect, share)) for share in self._shares(asked)]
            frames = [threads.submit(self._write, query) for query in written]
        contents = {
            query: table for share, tables in collecting for query, table in zip(share, tables.result(), strict=True)
        }
        for query, frame in zip(written, frames, strict=True):
            self._hold_short(query.name, frame.result())
        for query, first in first_rows.items():
            if (content := contents[first]).num_rows < _SHORT:
                contents[query] = content
            elif query.is_written:
                self._hold_short(query.name, self._write(query))
        for query, content in contents.items():
            if query.name:
                self._hold(query.name, content)
            if query.is_written:
                self.keep(query.name, content)
        return contents

    def cancel(self) -> None:
        """Cancel all queries that run; later ones raise QueriesCancelledError.

        From any thread. A query whose plan is being made needs another call: it has no job yet.
        """
        self._is_cancelled = True
        self.spark.sparkContext.cancelAllJobs()

    def keep(self, name: str, content: pa.Table) -> None:
        """Write a table of this process as parquet.

        Without Spark, which starts two processes per written file.
        """
        path = self.out / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        pq.write_table(content, path / ONLY_FILE)

    def drop(self, name: str) -> None:
        """Delete a written table that is no longer needed."""
        shutil.rmtree(self.out / name, ignore_errors=True)
        self.spark.catalog.dropTempView(name)
        self._texts.pop(name, None)
        self.held.pop(name, None)

    def _strategy(self, query: Query) -> _Strategy:
        if not query.name or self.scale is Scale.SMALL or (query.is_written and query.is_bounded):
            return _Strategy.COLLECTED
        if query.is_written:
            return _Strategy.TRIED if query.is_rare and self.scale is Scale.MEDIUM else _Strategy.WRITTEN
        return _Strategy.CACHED if self.scale is Scale.MEDIUM else _Strategy.DEFINED

    def _write(self, query: Query) -> DataFrame:
        """Write a table as parquet, and return the frame that reads it."""
        path = str(self.out / query.name)
        frame = self._sql(f"select * from ({query.text})")
        frame.write.mode("overwrite").parquet(path)
        return self.spark.read.schema(frame.schema).parquet(path)  # without the schema Spark starts a job to find it

    def _hold_short(self, name: str, frame: DataFrame) -> None:
        """Define a relation by the files that were written.

        This process holds its rows if they are few.
        """
        files = sorted((self.out / name).glob("*.parquet"))
        if files and sum(pq.read_metadata(path).num_rows for path in files) < _SHORT:
            self._hold(name, pa.concat_tables(pq.ParquetFile(path).read() for path in files))
        else:
            self._view(name, frame)

    def _cache(self, query: Query) -> None:
        """Make Spark hold a relation as soon as a query has computed it."""
        # Not `cache`: Spark would compare each later plan with those of all cached frames, without recognizing them if
        # they have definitions.
        self._computed.append(self._sql(f"select * from ({query.text})"))
        self._view(query.name, self._computed[-1].localCheckpoint(eager=False))

    def _view(self, name: str, frame: DataFrame) -> None:
        """Define a relation by a view of its name.

        It has one partition if the run is of medium size.
        """
        one = frame.coalesce(1) if self.scale is Scale.MEDIUM else frame
        one.createOrReplaceTempView(name)
        self._texts.pop(name, None)

    def _shares(self, queries: Sequence[Query]) -> list[list[Query]]:
        """Divide queries among one or two executions.

        One reads once what several queries use; two are planned at the same time, and take about equally long.
        """
        is_divided = len(queries) >= _WORTH_SPLITTING and self.scale is not Scale.LARGE
        parts = _AT_ONCE if is_divided else 1
        by_length = sorted(queries, key=lambda query: len(query.text))
        return [share for nth in range(parts) if (share := by_length[nth::parts])]

    def _collect(self, queries: Sequence[Query]) -> list[pa.Table]:
        """Return a table for each query, from one execution."""
        arrays = [self._sql(f"select collect_list(struct(*)) from ({query.text})") for query in queries]
        columns = [
            array.scalar().cast(_nullable(array.schema[0].dataType)).alias(f"query_{nth}")
            for nth, array in enumerate(arrays)
        ]
        content = self.spark.range(1, numPartitions=1).select(columns).toArrow()
        found = (column.combine_chunks().flatten() for column in content.columns)
        return [pa.Table.from_batches([pa.RecordBatch.from_struct_array(structs)]) for structs in found]

    def _sql(self, text: str) -> DataFrame:
        """Return a query with the definitions that it uses."""
        if self._is_cancelled:
            raise QueriesCancelledError
        text = self._hinted(text)
        used = self._used([text])
        if not used:
            return self.spark.sql(text)
        definitions = ",\n".join(f"`{name}` as (\n{self._texts[name]}\n)" for name in self._texts if name in used)
        # The parser reads a statement that begins with definitions to its end before it recognizes a query.
        return self.spark.sql(f"select * from (with {definitions}\n{text})")

    def _hinted(self, text: str) -> str:
        return _HASH_JOIN.sub("", text) if self.scale is Scale.LARGE else text

    def _used(self, texts: Sequence[str]) -> set[str]:
        """Return the definitions that queries use, directly or through others."""
        used: set[str] = set()
        open_texts = list(texts)
        while open_texts:
            new = self._texts.keys() & set(_REFERENCE.findall(open_texts.pop())) - used
            used |= new
            open_texts += [self._texts[name] for name in new]
        return used

    def _hold(self, name: str, content: pa.Table) -> None:
        """Define a relation by a table that Spark gets when a query uses it."""
        self.held[name] = content
        if content.num_rows:
            self._new.add(name)
            self.define(name, "")  # until a view has the content
        else:
            fields = from_arrow_schema(content.schema).fields
            self.define(name, _no_rows({field.name: field.dataType.simpleString() for field in fields}))

    def _register_used(self, texts: Sequence[str]) -> None:
        """Register the tables of this process that queries use as views.

        Short tables share a view, in which each has a struct column. Others would be filtered at each use.
        """
        used = {name: self.held[name] for name in self._used(texts) & self._new}
        self._new -= used.keys()
        short = {name: content for name, content in used.items() if content.num_rows < _SHORT}
        for name in used.keys() - short.keys():
            self._register(name, used[name])
            del self._texts[name]
        if not short:
            return
        self._shared += 1
        view = f"shared_{self._shared}"
        self._register(view, _pack(short))
        for name in short:
            self.define(name, f"select /*+ coalesce(1) */ `{name}`.* from {view} where `{name}` is not null")

    def _register(self, view: str, content: pa.Table) -> None:
        # Arrow data needs no Python worker to read, and a single partition needs no shuffle.
        relaxed = pa.schema([field.with_type(_relaxed(field.type)).with_nullable(True) for field in content.schema])
        content = content.cast(relaxed).combine_chunks()  # createDataFrame ignores all that follows an empty chunk
        self.spark.createDataFrame(content).coalesce(1).createOrReplaceTempView(view)


def literal(text: str) -> str:
    """Return a text as an SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _no_rows(columns: Mapping[str, str]) -> str:
    """Return a query without rows: Spark removes what depends on it from a plan."""
    return f"select {', '.join(f'cast(null as {kind}) `{column}`' for column, kind in columns.items())} where false"


def _pack(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Return one table with a struct column for each of the tables, below each other."""
    packed = [
        pa.table({name: pa.chunked_array(table.to_struct_array(), pa.struct(table.schema))})
        for name, table in tables.items()
    ]
    return pa.concat_tables(packed, promote_options="default")


def _nullable(kind: DataType) -> DataType:
    """Return the same type with all nested fields nullable.

    Arrow rejects a null struct with a field that is not nullable; Spark has such structs.
    """
    match kind:
        case StructType():
            return StructType([StructField(field.name, _nullable(field.dataType)) for field in kind.fields])
        case ArrayType():
            return ArrayType(_nullable(kind.elementType))
        case MapType():
            return MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind


def _relaxed(kind: pa.DataType) -> pa.DataType:
    """Return the same type with all nested fields nullable.

    A window's struct is null before the first row.
    """
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_relaxed(field.type)).with_nullable(True) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_relaxed(kind.value_type)).with_nullable(True))
    return kind
