"""The tables of an audited run as DataFrames.

    tables = audit_frames(spark, "demo")
    tables["outages"].show()

Their columns, units and keys are declared in `rmqlab.pipeline.tables.audittables`.
"""

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
from pyspark.sql import DataFrame, SparkSession

from rmqlab.pipeline.tables.audittable import AuditTable
from rmqlab.pipeline.tables.audittables import TABLES
from rmqlab.runtime.text.nearmiss import near_miss
from rmqlab.verdict.runs import find_run, home

_FOLDER = "audit"
_BY_NAME = {table.name: table for table in TABLES}


class NotAuditedError(Exception):
    """The run has no tables: it was not audited, or they were deleted."""


@attrs.frozen
class AuditFrames(Mapping[str, DataFrame]):
    """DataFrames by the names of their tables. A table is read at its first use."""

    spark: SparkSession
    directory: Path

    def __getitem__(self, name: str) -> DataFrame:
        """Return a table. KeyError for an unknown name, with a similar one."""
        table = self.about(name)
        path = self.directory / table.name
        if not path.is_dir():  # nothing was delivered: the audit skips the tables about deliveries
            columns = ", ".join(f"`{one.name}` {one.type}" for one in table.columns)
            return self.spark.createDataFrame([], columns)
        return self.spark.read.parquet(os.fspath(path))

    def __iter__(self) -> Iterator[str]:
        return iter(_BY_NAME)

    def __len__(self) -> int:
        return len(_BY_NAME)

    def about(self, name: str) -> AuditTable:
        """Return a table's declaration. KeyError for an unknown name."""
        if name not in _BY_NAME:
            raise KeyError(f"no table {name!r}" + (near_miss(name, _BY_NAME) or f"; tables: {', '.join(_BY_NAME)}"))
        return _BY_NAME[name]

    def describe(self, name: str) -> str:
        """Return a table's meaning, key and columns as text."""
        table = self.about(name)
        width = max(len(one.name) for one in table.columns)
        return "\n".join(
            [
                f"{table.name}: {table.text}",
                f"key: {', '.join(table.key) or 'none'}",
                *(f"  {one.name:{width}}  {one.type}: {one.text}" for one in table.columns),
            ]
        )


def audit_frames(spark: SparkSession, run: str | os.PathLike[str]) -> AuditFrames:
    """Return the tables of a run: the name of a cluster or a scenario, or a directory.

    NoRunError if there is no such run; NotAuditedError if it has no tables.
    """
    directory = find_run(os.fspath(run), home())
    tables = directory / _FOLDER
    if not (tables / "fates").is_dir():
        raise NotAuditedError(
            f"{directory} has no tables of an audit; first: rmqlab audit {shlex.quote(os.fspath(run))}"
        )
    return AuditFrames(spark, tables)
