"""The data source `rocketmq-queues`: the entries of all consume queues of any RocketMQ store, read from its files alone.

    spark.read.format("rocketmq-queues").load("/data/rocketmq/store")

A path is what `rocketmq-store` takes. Each row is one queue offset of a queue, and where the record is that it points
at. What a queue never had is left out (store-ha section 3.2); an entry of zeros is a row where others follow it.
"""

import os
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Final

import attrs
import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rmqlab.pipeline.columns import ddl, wanted_columns
from rmqlab.pipeline.commitlogs import NoStoreError, find_logs
from rmqlab.pipeline.errors import without_traceback
from rmqlab.pipeline.localpaths import NoPathError, find_all
from rmqlab.pipeline.options import OptionError, bind_options, option, text

NAME = "rocketmq-queues"
COLUMNS = {
    "node": "string",
    "topic": "string",
    "queueId": "int",
    "queueOffset": "bigint",
    "commitLogOffset": "bigint",
    "storeSize": "int",
    "tagsCode": "bigint",
}
_ENTRY: Final = np.dtype([("commitLogOffset", ">i8"), ("storeSize", ">i4"), ("tagsCode", ">i8")])
_NEVER_THERE: Final = 2**31 - 1
"""The size in entries that stand for what a queue never had."""


@attrs.frozen(kw_only=True)
class QueueOptions:
    """What the source may be told."""

    path: str = option("path", text, "a store's directory, or one with a directory for each node")


@attrs.frozen
class QueueFile:
    """One file of a consume queue."""

    node: str
    topic: str
    queue_id: int
    path: str


class QueueSource(DataSource):
    """See the module."""

    @without_traceback
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        path = bind_options(QueueOptions, dict(options), source=NAME).path
        try:
            logs = find_all([path], find_logs, empty=NoStoreError)
        except (NoStoreError, NoPathError) as exc:
            raise OptionError(f"{NAME}: {exc}") from None
        self.files = [file for log in logs for file in queue_files(log.node, log.directory.parent)]

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return ddl(COLUMNS)

    @without_traceback
    def reader(self, schema: StructType) -> "QueueReader":
        return QueueReader(self.files, wanted_columns(schema, COLUMNS, source=NAME))


class FilePartition(InputPartition):
    """One file, read by one task."""

    def __init__(self, file: QueueFile) -> None:
        super().__init__(file)


class QueueReader(DataSourceReader):
    """Reads each file apart from the others."""

    def __init__(self, files: list[QueueFile], schema: pa.Schema) -> None:
        self.files = files
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        return [FilePartition(file) for file in self.files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        file = partition.value
        if file is None:  # Spark's way to say that there are no partitions
            return
        offsets, entries = entries_of(Path(file.path))
        columns = {"node": file.node, "topic": file.topic, "queueId": file.queue_id, "queueOffset": offsets}
        columns |= {name: entries[name].astype(entries[name].dtype.newbyteorder("=")) for name in _ENTRY.names or ()}
        yield pa.RecordBatch.from_arrays(
            [_column(columns[field.name], field.type, len(offsets)) for field in self.schema], schema=self.schema
        )


def _column(values: object, kind: pa.DataType, count: int) -> pa.Array:
    return pa.array(values, kind) if isinstance(values, np.ndarray) else pa.repeat(pa.scalar(values, kind), count)


def queue_files(node: str, store: Path) -> list[QueueFile]:
    """The files of all consume queues of a store, by topic, queue and place."""
    return [
        QueueFile(node, path.parts[-3], int(path.parts[-2]), str(path))
        for path in sorted((store / "consumequeue").glob("*/*/*"))
        if path.name.isdigit() and path.parts[-2].isdecimal()
    ]


def entries_of(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Queue offsets and entries of one file, up to its last entry that is not all zeros."""
    with path.open("rb") as file:
        raw = file.read(_first_hole(file.fileno()))
    every = np.frombuffer(raw, _ENTRY, count=len(raw) // _ENTRY.itemsize)
    written = np.flatnonzero((every["commitLogOffset"] != 0) | (every["storeSize"] != 0) | (every["tagsCode"] != 0))
    every = every[: written[-1] + 1] if len(written) else every[:0]
    there = np.flatnonzero(every["storeSize"] != _NEVER_THERE)
    return there + int(path.name) // _ENTRY.itemsize, every[there]


def _first_hole(descriptor: int) -> int:
    """Where the first part of a file begins that was never written; its size, where the system cannot tell."""
    try:
        return os.lseek(descriptor, 0, os.SEEK_HOLE)
    except OSError:
        return os.fstat(descriptor).st_size
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)
