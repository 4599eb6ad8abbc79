"""The data source `rocketmq-store`: the commit logs in the files of a store.

    spark.read.format("rocketmq-store").load("/data/rocketmq/store")

A path is the directory of a store, a commit log, or one with a subdirectory per node; also as a `file:` URI or a glob
pattern. Rows have the order of the files within a node; `state` is the condition of a row:

    ok       a whole record, whose body matches the CRC in its header
    badCrc   a whole record, whose body does not
    torn     bytes that are not a record, from `commitLogOffset` on, `storeSize` long: all other columns are null.
             A record that contains another position than its own is torn, too

The CRC is computed only if `state` is among the columns. Options: see StoreOptions. Reference: spark.md section 8.
"""

import itertools
from collections.abc import Generator, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rmqlab.pipeline.columns import ddl, wanted_columns
from rmqlab.pipeline.errors import NoPathError, without_traceback
from rmqlab.pipeline.options import (
    OptionError,
    at_least,
    at_least_bytes,
    bind_options,
    check_known,
    json_texts,
    names,
    option,
    text,
)
from rmqlab.pipeline.paths.remotepaths import shown
from rmqlab.pipeline.paths.sourcepaths import AnyPath, find_all, given_paths, local_file
from rmqlab.pipeline.refusedstream import RefusedStream, only_in_batches
from rmqlab.pipeline.stores.commitlogs import (
    STORE_PATH,
    Log,
    NoStoreError,
    Range,
    find_logs,
    next_record,
    ranges_of,
    segments,
    topics_of,
    written_bytes,
)
from rmqlab.pipeline.stores.records import RECORD_COLUMNS, Records, decode_records, record_batches
from rmqlab.pipeline.stores.recordwalk import walk_many
from rmqlab.remoting.names import SYSTEM_TOPICS
from rmqlab.store.files.fileimage import FileImage
from rmqlab.store.files.mappedimage import MappedImage

NAME = "rocketmq-store"
_LEAST_BYTES = 4096
"""Bytes of the smallest ranges, so that options cannot ask for millions of tasks."""
OK, BAD_CRC, TORN = "ok", "badCrc", "torn"
COLUMNS = {"node": "string", "file": "string", "state": "string"} | {
    name: kind for name, (kind, _) in RECORD_COLUMNS.items()
}


@attrs.frozen(kw_only=True)
class StoreOptions:
    """Options of the source."""

    path: str = option("path", text, STORE_PATH, default="")
    paths: tuple[str, ...] = option("paths", json_texts, "several of them", default=())
    topics: tuple[str, ...] = option("topics", names, "only these topics", default=())
    nodes: tuple[str, ...] = option("nodes", names, "only these nodes", default=())
    partition_bytes: int = option(
        "maxPartitionBytes", at_least_bytes(_LEAST_BYTES), "bytes of a log in one task", default=64 * 2**20
    )
    min_partitions: int = option("minPartitions", at_least(1), "minimum number of tasks", default=1)

    def logs(self) -> list[Log[AnyPath]]:
        """Return the commit logs to read. Raises OptionError if there are none."""
        paths = given_paths(self.path, self.paths, source=NAME, meaning=STORE_PATH)
        try:
            logs = find_all(paths, find_logs, empty=NoStoreError)
        except (NoStoreError, NoPathError) as exc:
            raise OptionError(f"{NAME}: {exc}") from None
        check_known("node", self.nodes, [log.node for log in logs], source=NAME)
        logs = [log for log in logs if not self.nodes or log.node in self.nodes]
        self._check_topics(logs)
        return logs

    def _check_topics(self, logs: Sequence[Log[AnyPath]]) -> None:
        """Raise OptionError for a topic that is in no log's store.

        Stores list topics in files outside the log. If a store has no list, e.g. a copy of the log alone, any topic is
        valid.
        """
        listed = [topics_of(log) for log in logs]
        if all(listed):
            check_known("topic", self.topics, {*SYSTEM_TOPICS, *itertools.chain(*listed)}, source=NAME)


class StoreSource(DataSource):
    """Data source `rocketmq-store`; see the module's docstring."""

    image: type[FileImage] = MappedImage
    """How files are read."""

    @without_traceback
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.bound = bind_options(StoreOptions, dict(options), source=NAME)
        self.logs = self.bound.logs()

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return ddl(COLUMNS)

    def streamReader(self, schema: StructType) -> RefusedStream:  # noqa: ARG002, N802 - Spark's signature
        return only_in_batches(NAME)

    @without_traceback
    def reader(self, schema: StructType) -> "StoreReader":
        return StoreReader(self.bound, self.logs, wanted_columns(schema, COLUMNS, source=NAME), self.image)


class RangePartition(InputPartition):
    """A range of a file, read by one task."""

    def __init__(self, part: Range) -> None:
        super().__init__(part)


class StoreReader(DataSourceReader):
    """Plans ranges of the files, and reads each of them independently."""

    def __init__(
        self, options: StoreOptions, logs: Sequence[Log[AnyPath]], schema: pa.Schema, image: type[FileImage]
    ) -> None:
        self.options = options
        self.logs = logs
        self.schema = schema
        self.image = image

    def partitions(self) -> list[InputPartition]:
        share = sum(map(written_bytes, self.logs)) // self.options.min_partitions
        step = max(_LEAST_BYTES, min(share, self.options.partition_bytes))
        return [RangePartition(part) for log in self.logs for part in ranges_of(log, step)]

    @without_traceback
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        part = partition.value
        if part is None:  # Spark's value for a source without partitions
            return
        with local_file(part.path) as path, self.image.open(path) as image:
            # Only the local copy of a remote file has a hole behind the last record.
            end = min(part.end, image.written)
            yield from self._batches(attrs.evolve(part, path=str(path), source=shown(part.path), end=end), image)

    def _batches(self, part: Range, image: FileImage) -> Iterator[pa.RecordBatch]:
        at = part.start
        while at < part.end:
            at = yield from self._until_unsound(attrs.evolve(part, start=at), image)

    def _until_unsound(self, part: Range, image: FileImage) -> Generator[pa.RecordBatch, None, int]:
        """Yield the batches of a range up to a record with inconsistent inner lengths.

        Returns the position at which to continue.
        """
        base = int(Path(part.path).name)
        for segment in segments(image, base, part.start, part.end, is_last=part.is_last, find=walk_many):
            if not len(segment.starts):
                yield self._torn(part, base + segment.begin, segment.size)
                continue
            chunk = image.view[segment.begin : segment.begin + segment.size]
            records, unsound = decode_records(chunk, np.asarray(segment.starts) - segment.begin)
            yield from self._whole(part, records)
            if unsound is not None:
                begin = segment.starts[unsound]
                following = next_record(image, begin + 1, base)
                yield self._torn(part, base + begin, following - begin)
                return following
        return part.end

    def _whole(self, part: Range, records: Records) -> Iterator[pa.RecordBatch]:
        if self.options.topics:
            wanted = pc.is_in(records.topics, pa.array(self.options.topics))
            records = records.take(wanted.to_numpy(zero_copy_only=False))
        others: dict[str, Any] = {"node": part.node, "file": part.source}
        if "state" in self.schema.names:
            others["state"] = pc.if_else(pa.array(records.body_is_intact()), OK, BAD_CRC)
        yield from record_batches(records, self.schema, others)

    def _torn(self, part: Range, offset: int, size: int) -> pa.RecordBatch:
        row = {"node": part.node, "file": part.source, "state": TORN, "commitLogOffset": offset}
        row["storeSize"] = min(size, 2**31 - 1)
        columns = [pa.array([row.get(field.name)], field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
