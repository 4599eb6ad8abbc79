"""The data source `rocketmq`: topics of a cluster, ours or a real one, read and written in batches and as streams.

    spark.read.format("rocketmq").option("nameServer", "127.0.0.1:9876").option("topic", "orders").load()

Options: see TopicOptions. There is no pushed-down filter: in Spark 4.3 one leaks into other uses of the same frame.
A frame that was loaded keeps the offsets of its first use: load again for what came since.

Guarantees. Reading: a batch and a stream give each message once, across restarts from the checkpoint too, or fail;
with `failOnDataLoss=false` they leave out what is gone. Writing: at least once; see topicwriter.
"""

import contextlib
import json
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import trio
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from rmqlab.client import broker_api as calls
from rmqlab.client.instance import FAILURES, Client
from rmqlab.pipeline.columns import ddl, wanted_columns
from rmqlab.pipeline.errors import without_traceback
from rmqlab.pipeline.options import bind_options
from rmqlab.pipeline.queues import Bound
from rmqlab.pipeline.topicbounds import Bounds, DataLossError, PlanError
from rmqlab.pipeline.topicoffsets import (
    EARLIEST,
    LATEST,
    QueueName,
    QueueRange,
    offsets_document,
    read_document,
    split_ranges,
    within_limit,
)
from rmqlab.pipeline.topicoptions import NAME, TopicOptions
from rmqlab.pipeline.topicreader import COLUMNS, plan_work, read_work
from rmqlab.pipeline.topicwriter import BatchWriter, StreamWriter, check_name_server, check_written
from rmqlab.remoting.bodies.queue import MessageQueue

_COMMIT_SECONDS = 5.0


class TopicSource(DataSource):
    """See the module."""

    @without_traceback
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.bound: TopicOptions = bind_options(TopicOptions, dict(options), source=NAME)

    @classmethod
    def name(cls) -> str:
        return NAME

    @without_traceback
    def schema(self) -> str:
        self.bound.check_for_read()  # here already: a stream's reader is made only when its query has begun
        return ddl(COLUMNS)

    @without_traceback
    def reader(self, schema: StructType) -> "BatchReader":
        self.bound.check_for_batch_read()
        return BatchReader(self.bound, wanted_columns(schema, COLUMNS, source=NAME))

    @without_traceback
    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802 - Spark's name
        self.bound.check_for_stream_read()
        return StreamReader(self.bound, wanted_columns(schema, COLUMNS, source=NAME))

    @without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:  # noqa: FBT001 - Spark's signature
        names = check_written(schema, self.bound, overwrite=overwrite)
        check_name_server(self.bound)
        return BatchWriter(self.bound, names)

    @without_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802, FBT001 - Spark's
        return StreamWriter(self.bound, check_written(schema, self.bound, overwrite=overwrite))


class BatchReader(DataSourceReader):
    """Reads what is there between two offsets of each queue."""

    def __init__(self, options: TopicOptions, schema: pa.Schema) -> None:
        self.options = options
        self.schema = schema

    @without_traceback
    def partitions(self) -> list[InputPartition]:
        options, bounds = self.options, Bounds(self.options)
        bounds.look()
        if options.starting_timestamp is not None:
            starts = bounds.at_time(options.starting_timestamp)
        else:
            starts = bounds.resolve(EARLIEST if options.starting_offsets is None else options.starting_offsets)
        if options.ending_timestamp is not None:
            ends = bounds.at_time(options.ending_timestamp)
        else:
            ends = bounds.resolve(options.ending_offsets)
        if isinstance(options.ending_offsets, dict):
            _check_order(starts, ends)
        bounds.try_reading(starts)
        ranges = [QueueRange(queue, starts[queue], max(starts[queue], ends[queue])) for queue in sorted(ends)]
        parts = split_ranges(ranges, most=options.max_records_per_partition, least_parts=options.min_partitions)
        return plan_work(parts, bounds.members)

    @without_traceback
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:  # None is Spark's way to say that there are no partitions
            yield from read_work(partition.value, self.options, self.schema)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on and on. The process that plans keeps one of these; tasks read with copies."""

    def __init__(self, options: TopicOptions, schema: pa.Schema) -> None:
        self.options = options
        self.schema = schema
        self.bounds = Bounds(options)
        self._initial: dict[str, Any] | None = None
        self._target: dict[QueueName, Bound] | None = None
        self._latest: dict[str, Any] | None = None

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        if self._initial is None:  # asked for twice before the first batch: "latest" must not move in between
            self._initial = self._kept_initial()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        limit = self.options.max_offsets_per_trigger
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    @without_traceback
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        begin = read_document(start)
        end = self._end(begin, self._ends(begin) if self._target is None else self._target)
        self._latest = offsets_document(end)
        if isinstance(limit, ReadMaxRows) or self.options.max_offsets_per_trigger:
            rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self.options.max_offsets_per_trigger
            end = within_limit(end | begin, end, rows)
        return offsets_document(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return self._latest

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self.bounds.look()  # a name server that is away is no reason to end as if there were nothing
        self._target = self._ends({})

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        options, begin, stop = self.options, read_document(start), read_document(end)
        self._know(begin | stop)
        ranges = [QueueRange(queue, begin.get(queue, offset), offset) for queue, offset in sorted(stop.items())]
        parts = split_ranges(
            [part for part in ranges if part.size > 0],
            most=options.max_records_per_partition,
            least_parts=options.min_partitions,
        )
        return plan_work(parts, self.bounds.members)

    @without_traceback
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:
            yield from read_work(partition.value, self.options, self.schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Show progress as that of a consumer group, if one is named. Spark keeps its own; a failure is no harm."""
        if self.options.commit_group:
            self.options.link.call(self._commit, read_document(end))

    def stop(self) -> None:
        """Nothing to release: connections belong to the process, and Spark does not always call this."""

    # -- inside ----------------------------------------------------------------------------------

    def _kept_initial(self) -> dict[str, Any]:
        path = Path(self.options.starting_offsets_file) if self.options.starting_offsets_file else None
        if path is not None and path.exists():
            return _kept(path)
        self.bounds.look()
        if self.options.starting_timestamp is not None:
            offsets = self.bounds.at_time(self.options.starting_timestamp)
        else:
            position = self.options.starting_offsets
            offsets = self.bounds.resolve(LATEST if position is None else position)
        self.bounds.try_reading(offsets)
        initial = offsets_document(offsets)
        if path is not None:
            fresh = path.with_name(path.name + ".new")
            fresh.write_text(json.dumps(initial))
            fresh.replace(path)
        return initial

    def _know(self, offsets: dict[QueueName, int]) -> None:
        self.bounds.queues.update(offsets)
        if not self.bounds.members:
            self.bounds.look_again()

    def _ends(self, begin: dict[QueueName, int]) -> dict[QueueName, Bound]:
        """Where brokers say that queues end. One of which nobody answers is missing."""
        self.bounds.queues.update(begin)
        self.bounds.look_again()
        return self.bounds.ends()

    def _end(self, begin: dict[QueueName, int], told: dict[QueueName, Bound]) -> dict[QueueName, int]:
        """How far each queue is to be read. One of which nobody answered stays where it is.

        A queue that came since begins with its first message. That is written down before anything of it is read, by a
        batch that reads nothing of it: else a batch that is repeated might begin elsewhere.
        """
        end = dict(begin)
        for queue in told.keys() & begin.keys():
            end[queue] = self._end_of(queue, begin[queue], told[queue])
        firsts = self.bounds.firsts(told.keys() - begin.keys())
        return end | {queue: bound.offset for queue, bound in firsts.items()}

    def _end_of(self, queue: QueueName, begin: int, bound: Bound) -> int:
        if bound.offset >= begin:
            return bound.offset
        if not bound.is_masters:  # a slave may lag: what was promised comes, or its task says that it is lost
            return begin
        if self.options.fail_on_data_loss:
            raise DataLossError(
                f"{queue} ends at {bound.offset}, and was read up to {begin}: its master has lost messages. "
                "Set failOnDataLoss to false to go on from its new end."
            )
        return bound.offset

    async def _commit(self, client: Client, offsets: dict[QueueName, int]) -> None:
        async def commit_one(queue: QueueName, offset: int) -> None:
            addresses = self.bounds.members.get(queue.broker, {})
            target = MessageQueue(topic=queue.topic, broker_name=queue.broker, queue_id=queue.queue_id)
            for broker_id in sorted(addresses):  # the master's, or a slave's for as long as there is no master
                with contextlib.suppress(*FAILURES):
                    group = self.options.commit_group
                    await calls.commit_offset(client, addresses[broker_id], group, target, offset)
                    return

        with trio.move_on_after(_COMMIT_SECONDS):
            async with trio.open_nursery() as nursery:
                for queue, offset in offsets.items():
                    nursery.start_soon(commit_one, queue, offset)


def _check_order(starts: dict[QueueName, int], ends: dict[QueueName, int]) -> None:
    for queue in sorted(ends):
        if ends[queue] < starts[queue]:
            raise PlanError(f"{NAME}: {queue} would begin at offset {starts[queue]} and end at {ends[queue]} before it")


def _kept(path: Path) -> dict[str, Any]:
    """The offsets that an earlier start wrote down. PlanError where they do not parse."""
    try:
        kept: dict[str, Any] = json.loads(path.read_text())
        read_document(kept)
    except (ValueError, AttributeError, OSError) as exc:
        raise PlanError(f"{NAME}: {path} of option startingOffsetsFile does not hold offsets: {exc}") from None
    return kept


__all__ = ["DataLossError", "PlanError", "TopicSource"]
