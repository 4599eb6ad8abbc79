"""The data source `rocketmq-queues`: consume queue entries of a store's files.

    spark.read.format("rocketmq-queues").load("/data/rocketmq/store")

Accepts the paths of `rocketmq-store`. Each row is one queue offset of a queue, and the position of its record in the
commit log. Omits the filler entries before a queue's first message (store-ha section 3.2); an entry of zeros is a row
if other entries follow it.
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
from rmqlab.pipeline.errors import NoPathError, without_traceback
from rmqlab.pipeline.options import OptionError, bind_options, json_texts, option, text
from rmqlab.pipeline.paths.sourcepaths import AnyPath, address_of, find_all, given_paths, local_file
from rmqlab.pipeline.refusedstream import RefusedStream, only_in_batches
from rmqlab.pipeline.stores.commitlogs import STORE_PATH, NoStoreError, find_logs, store_of

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
"""Size in the filler entries before a queue's first message."""


@attrs.frozen(kw_only=True)
class QueueOptions:
    """Options of the source."""

    path: str = option("path", text, STORE_PATH, default="")
    paths: tuple[str, ...] = option("paths", json_texts, "several of them", default=())


@attrs.frozen
class QueueFile:
    """One file of a consume queue."""

    node: str
    topic: str
    queue_id: int
    path: str


class QueueSource(DataSource):
    """Data source `rocketmq-queues`; see the module's docstring."""

    @without_traceback
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        bound = bind_options(QueueOptions, dict(options), source=NAME)
        paths = given_paths(bound.path, bound.paths, source=NAME, meaning=STORE_PATH)
        try:
            logs = find_all(paths, find_logs, empty=NoStoreError)
        except (NoStoreError, NoPathError) as exc:
            raise OptionError(f"{NAME}: {exc}") from None
        self.files = [file for log in logs for file in queue_files(log.node, store_of(log.directory))]

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return ddl(COLUMNS)

    def streamReader(self, schema: StructType) -> RefusedStream:  # noqa: ARG002, N802 - Spark's signature
        return only_in_batches(NAME)

    @without_traceback
    def reader(self, schema: StructType) -> "QueueReader":
        return QueueReader(self.files, wanted_columns(schema, COLUMNS, source=NAME))


class FilePartition(InputPartition):
    """One file, read by one task."""

    def __init__(self, file: QueueFile) -> None:
        super().__init__(file)


class QueueReader(DataSourceReader):
    """Reads each file independently."""

    def __init__(self, files: list[QueueFile], schema: pa.Schema) -> None:
        self.files = files
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        return [FilePartition(file) for file in self.files]

    @without_traceback
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        file = partition.value
        if file is None:  # Spark's value for a source without partitions
            return
        with local_file(file.path) as path:
            offsets, entries = entries_of(path)
        columns = {"node": file.node, "topic": file.topic, "queueId": file.queue_id, "queueOffset": offsets}
        columns |= {name: entries[name].astype(entries[name].dtype.newbyteorder("=")) for name in _ENTRY.names or ()}
        yield pa.RecordBatch.from_arrays(
            [_column(columns[field.name], field.type, len(offsets)) for field in self.schema], schema=self.schema
        )


def _column(values: object, kind: pa.DataType, count: int) -> pa.Array:
    return pa.array(values, kind) if isinstance(values, np.ndarray) else pa.repeat(pa.scalar(values, kind), count)


def queue_files(node: str, store: AnyPath) -> list[QueueFile]:
    """Return the files of all consume queues of a store, by topic, queue and position."""
    files: list[AnyPath] = list((store / "consumequeue").glob("*/*/*"))
    return [
        QueueFile(node, path.parts[-3], int(path.parts[-2]), address_of(path))
        for path in sorted(files, key=lambda path: path.parts)
        if path.name.isdecimal() and path.parts[-2].isdecimal()
    ]


def entries_of(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets and entries of a file, up to its last entry that is not zeros."""
    with path.open("rb") as file:
        raw = file.read(_first_hole(file.fileno()))
    every = np.frombuffer(raw, _ENTRY, count=len(raw) // _ENTRY.itemsize)
    written = np.flatnonzero((every["commitLogOffset"] != 0) | (every["storeSize"] != 0) | (every["tagsCode"] != 0))
    every = every[: written[-1] + 1] if len(written) else every[:0]
    there = np.flatnonzero(every["storeSize"] != _NEVER_THERE)
    return there + int(path.name) // _ENTRY.itemsize, every[there]


def _first_hole(descriptor: int) -> int:
    """Return the start of a file's first hole.

    Returns its size if the system does not support SEEK_HOLE.
    """
    try:
        return os.lseek(descriptor, 0, os.SEEK_HOLE)
    except OSError:
        return os.fstat(descriptor).st_size
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)
