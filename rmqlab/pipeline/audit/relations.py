"""Named relations of an audit, and batches of queries on them.

A relation is the text of a query, which becomes a common table expression of the queries that use it, or a table that
was computed once. Tables get a view when a query uses them, and short ones share it: Spark executes a command for each
view.

The queries of a batch are collected together, as a union. A query with a name has a struct column of its own there,
which is null in the rows of the others; the rows of other queries are JSON. The rows of a query keep their order.
"""

import collections
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

_TOGETHER = 10
"""Queries of one execution: the cost of its plan grows with their square."""
_SHORT = 500
"""Rows below which a table shares its view with others."""
_AT_ONCE = 2
"""Executions at once: the queries of a small run take longer to plan than to execute, on one processor."""

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


@attrs.define
class Relations:
    """The relations of one audit."""

    spark: SparkSession
    out: Path
    is_small: bool
    """True: this process holds each table in memory."""
    _texts: dict[str, str] = attrs.field(factory=dict, init=False)
    """Definitions by name, each after those that it uses."""
    _contents: dict[str, pa.Table] = attrs.field(factory=dict, init=False)
    """Tables of this process that no query has used yet."""
    _shared: int = attrs.field(default=0, init=False)
    """Number of shared views."""

    def define(self, name: str, text: str) -> None:
        """Define a relation that each query computes which uses it."""
        self._texts[name] = text

    def define_rows(self, name: str, rows: Sequence[Mapping[str, object]], /, **columns: str) -> None:
        """Define a relation of a few rows of this process, with SQL types by column."""
        fields = ",".join(f"`{column}`:{kind}" for column, kind in columns.items())
        self.define(name, f"select inline(from_json({literal(json.dumps(rows))}, 'array<struct<{fields}>>'))")

    def source(self, name: str, source: type[DataSource], schema: str, **options: str) -> None:
        """Define a data source's rows, which this process reads in a small run.

        The readers are the same. Spark would start four Python processes before its first row.
        """
        if not self.is_small:
            frame = self.spark.read.format(source.name()).schema(schema).options(**options).load()
            frame.createOrReplaceTempView(name)
            return
        reader = source(options).reader(StructType.fromDDL(schema))
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        self._hold(name, pa.Table.from_batches(batches, reader.schema))

    def execute(self, queries: Sequence[Query]) -> list[list[Any]]:
        """Return the rows of each query without a name; an empty list for the others.

        Queries with a name define it. In a small run they are computed once. In a large run only written tables are:
        each is written by its own execution if it is not bounded, and collected otherwise.
        """
        for query in queries:
            if query.name:
                self.define(query.name, query.text)
        for query in queries:
            if query.is_written and not self._is_collected(query):
                self._write(query)
        collected = [query for query in queries if self._is_collected(query)]
        rows: dict[Query, list[Any]] = {}
        for query, content in zip(collected, self._collect(collected), strict=True):
            if not query.name:
                rows[query] = content
                continue
            self._hold(query.name, content)
            if query.is_written:
                self.keep(query.name, content)
        return [rows.get(query, []) for query in queries]

    def keep(self, name: str, content: pa.Table) -> None:
        """Write a table of this process as parquet.

        Without Spark, which starts two processes per written file.
        """
        path = self.out / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        pq.write_table(content, path / "all.parquet")

    def _is_collected(self, query: Query) -> bool:
        return not query.name or self.is_small or (query.is_written and query.is_bounded)

    def _write(self, query: Query) -> None:
        path = str(self.out / query.name)
        self._give([query.text])
        frame = self._sql(f"select * from ({query.text})")
        frame.write.mode("overwrite").parquet(path)
        self.spark.read.schema(frame.schema).parquet(path).createOrReplaceTempView(query.name)
        del self._texts[query.name]

    def _collect(self, queries: Sequence[Query]) -> list[Any]:
        """Return a table for each query with a name, and rows for the others."""
        self._give([query.text for query in queries])
        count = -(-len(queries) // _TOGETHER)
        contents: list[Any] = [None] * len(queries)
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            parts = threads.map(self._collect_together, [queries[at::count] for at in range(count)])
            for at, part in enumerate(parts):
                contents[at::count] = part
        return contents

    def _collect_together(self, queries: Sequence[Query]) -> list[Any]:
        named = [query.name for query in queries if query.name]
        texts = [f"select {_columns(nth, query.name, named)} from ({query.text})" for nth, query in enumerate(queries)]
        frame = self._sql("\nunion all\n".join(texts))
        if named:
            # toArrow() cannot convert null structs with fields that are never null.
            frame = frame.select([frame[field.name].cast(field.dataType) for field in frame.schema.toNullable()])
        content = frame.toArrow()
        rows: dict[int, list[Any]] = collections.defaultdict(list)
        for nth, row in zip(content["nth"].to_pylist(), content["row"].to_pylist(), strict=True):
            if row is not None:
                rows[nth].append(json.loads(row, object_pairs_hook=_row))
        return [_unpack(content[query.name]) if query.name else rows[nth] for nth, query in enumerate(queries)]

    def _sql(self, text: str) -> DataFrame:
        return self.spark.sql(self._with_definitions(text))

    def _with_definitions(self, text: str) -> str:
        """Return a query with the definitions that it uses."""
        used = self._used([text])
        definitions = ",\n".join(f"`{name}` as (\n{self._texts[name]}\n)" for name in self._texts if name in used)
        return f"with {definitions}\n{text}" if used else text

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
        self._contents[name] = content
        self.define(name, "")  # until a view has the content

    def _give(self, texts: Sequence[str]) -> None:
        """Register the tables of this process that queries use as views.

        Short tables share a view, in which each has a struct column. Others would be filtered at each use.
        """
        used = {name: self._contents.pop(name) for name in self._used(texts) & self._contents.keys()}
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
        # A table without rows may have no chunks, and createDataFrame fails on columns without chunks. It ignores all
        # that follows an empty chunk.
        content = content.cast(relaxed).combine_chunks() if content.num_rows else relaxed.empty_table()
        self.spark.createDataFrame(content).coalesce(1).createOrReplaceTempView(view)


def literal(text: str) -> str:
    """Return a text as an SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _columns(nth: int, name: str, named: Sequence[str]) -> str:
    """Return the columns of a query in the union of a batch.

    The union has the number of the query, its row as JSON if it has no name, and a struct column for each name.
    """
    row = "null" if name else "to_json(struct(*), map('ignoreNullFields', 'false'))"
    structs = [f"{'struct(*)' if other == name else 'null'} `{other}`" for other in named]
    return ", ".join([f"{nth} nth", f"{row} row", *structs])


def _pack(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Return one table with a struct column for each of the tables, below each other."""
    packed = [
        pa.table({name: pa.chunked_array(table.to_struct_array(), pa.struct(table.schema))})
        for name, table in tables.items()
    ]
    return pa.concat_tables(packed, promote_options="default")


def _unpack(column: pa.ChunkedArray) -> pa.Table:
    """Return the fields of a struct column, in the rows in which it is not null."""
    structs = column.drop_null()
    schema = pa.schema(list(structs.type))
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(chunk) for chunk in structs.chunks], schema)


def _row(fields: Sequence[tuple[str, Any]]) -> Row:
    return Row(**dict(fields))


def _relaxed(kind: pa.DataType) -> pa.DataType:
    """Return the same type with all nested fields nullable.

    A window's struct is null before the first row.
    """
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_relaxed(field.type)).with_nullable(True) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_relaxed(kind.value_type)).with_nullable(True))
    return kind
