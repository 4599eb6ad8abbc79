"""The data source `rocketmq`: batch and streaming reads and writes of topics.

    spark.read.format("rocketmq").option("nameServer", "127.0.0.1:9876").option("topic", "orders").load()

Options: see TopicOptions. Filters are not pushed down: in Spark 4.3 a pushed filter leaks into other uses of the same
frame. A loaded frame keeps the offsets of its first use: load again to read later messages.

Guarantees. Reading: a batch or a stream returns each message once, also across restarts from the checkpoint, or fails;
with `failOnDataLoss=false` it omits lost messages. Writing: at least once; see topicwriter.
"""

from collections.abc import Iterator, MutableMapping

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rmqlab.pipeline.columns import ddl, wanted_columns
from rmqlab.pipeline.errors import without_traceback
from rmqlab.pipeline.options import OptionError, bind_options
from rmqlab.pipeline.refusedstream import RefusedStream
from rmqlab.pipeline.topics.topicbounds import Bounds, PlanError
from rmqlab.pipeline.topics.topicoffsets import EARLIEST, QueueName, QueueRange
from rmqlab.pipeline.topics.topicoptions import MEANT, NAME, TopicOptions
from rmqlab.pipeline.topics.topicpositions import end_positions, start_positions
from rmqlab.pipeline.topics.topicreader import COLUMNS, plan_work, read_work
from rmqlab.pipeline.topics.topicstream import StreamReader
from rmqlab.pipeline.topics.topicwriter import BatchWriter, StreamWriter, check_name_server, check_written


class TopicSource(DataSource):
    """Data source `rocketmq`; see the module's docstring."""

    @without_traceback
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.bound: TopicOptions = bind_options(TopicOptions, dict(options), source=NAME, meant=MEANT)

    @classmethod
    def name(cls) -> str:
        return NAME

    @without_traceback
    def schema(self) -> str:
        self.bound.check_for_read()  # also here: Spark creates a stream's reader only after its query has started
        return ddl(COLUMNS)

    @without_traceback
    def reader(self, schema: StructType) -> "BatchReader":
        self.bound.check_for_batch_read()
        return BatchReader(self.bound, wanted_columns(schema, COLUMNS, source=NAME))

    def streamReader(self, schema: StructType) -> StreamReader | RefusedStream:  # noqa: N802 - Spark's name
        try:
            self.bound.check_for_stream_read()
            return StreamReader(self.bound, wanted_columns(schema, COLUMNS, source=NAME))
        except OptionError as exc:
            return RefusedStream(str(exc))

    @without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:  # noqa: FBT001 - Spark's signature
        names = check_written(schema, self.bound, overwrite=overwrite)
        check_name_server(self.bound)
        return BatchWriter(self.bound, names)

    @without_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802, FBT001 - Spark's
        self.bound.check_for_stream_write()
        return StreamWriter(self.bound, check_written(schema, self.bound, overwrite=overwrite))


class BatchReader(DataSourceReader):
    """Reads the messages between two offsets of each queue."""

    def __init__(self, options: TopicOptions, schema: pa.Schema) -> None:
        self.options = options
        self.schema = schema

    @without_traceback
    def partitions(self) -> list[InputPartition]:
        options, bounds = self.options, Bounds(self.options, may_skip=not self.options.fail_on_data_loss)
        bounds.look()
        starts = bounds.resolve(start_positions(options, bounds.queues, bounds.commits(), unset=EARLIEST))
        ends = bounds.resolve(end_positions(options, bounds.queues))
        if isinstance(options.ending_offsets, dict):
            _check_order(starts, ends)
        bounds.try_reading(starts)
        ranges = [
            QueueRange(queue, starts[queue], max(starts[queue], ends[queue]))
            for queue in sorted(ends.keys() & starts.keys())
        ]
        return plan_work(ranges, bounds.members, options)

    @without_traceback
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:  # None is Spark's value for a source without partitions
            yield from read_work(partition.value, self.options, self.schema)


def _check_order(starts: dict[QueueName, int], ends: dict[QueueName, int]) -> None:
    for queue in sorted(ends):
        if ends[queue] < starts[queue]:
            raise PlanError(f"{NAME}: {queue} would begin at offset {starts[queue]} and end at {ends[queue]} before it")
