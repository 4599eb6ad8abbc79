"""A Python data source that only makes rows.

A micro-batch of it costs what one costs without a source of ours. Each micro-batch has one task, which returns `rows`
equal bodies of 100 bytes in one Arrow batch. Tasks import nothing but PySpark and pyarrow: workers get this module by
value.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

NAME = "floor"


class FloorSource(DataSource):
    """Data source `floor`; see the module's docstring."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "body binary"

    def streamReader(self, schema: StructType) -> "FloorReader":  # noqa: N802 - Spark's name
        return FloorReader(int(self.options["rows"]), to_arrow_schema(schema, timezone="UTC"))


class FloorReader(DataSourceStreamReader):
    """Each micro-batch begins at the row where the last one ended."""

    def __init__(self, rows: int, schema: pa.Schema) -> None:
        self.rows = rows
        self.schema = schema

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"row": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802 - Spark's
        return {"row": start["row"] + self.rows}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(end["row"] - start["row"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        bodies: list[Any] = [b"x" * 100] * partition.value
        yield pa.RecordBatch.from_arrays([pa.array(bodies, pa.binary())], schema=self.schema)

    def stop(self) -> None:
        from rmqlab.pipeline.topics.disconnects import exit_if_disconnected  # tasks do not need it

        exit_if_disconnected()
