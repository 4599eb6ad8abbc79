"""Read ranges of queues into Arrow batches: a task of the source `rocketmq`.

The task belongs to a batch or a stream.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from rmqlab.pipeline.queuecursor import Chunk, Loss, QueueCursor, ReadError
from rmqlab.pipeline.queues import Members
from rmqlab.pipeline.records import RECORD_COLUMNS, Records, decode_records, record_batches
from rmqlab.pipeline.recordwalk import walk_many
from rmqlab.pipeline.topicbounds import DataLossError
from rmqlab.pipeline.topicoffsets import QueueRange, group_ranges, split_ranges
from rmqlab.pipeline.topicoptions import TopicOptions
from rmqlab.remoting.message import PROPERTY_TAGS

COLUMNS = {"topic": "string", "broker": "string"} | {
    name: kind for name, (kind, _) in RECORD_COLUMNS.items() if name != "topic"
}
_BATCH_BYTES = 4 * 2**20
_MANY_TASKS = 256
"""Tasks beyond which small ranges share them, unless option minPartitions asks for more."""


@attrs.frozen
class Work:
    """The ranges of one task, and the addresses of their brokers."""

    ranges: tuple[QueueRange, ...]
    members: Members


class RangesPartition(InputPartition):
    """Ranges of queues, read by one task."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)


def plan_work(ranges: Iterable[QueueRange], members: Members, options: TopicOptions) -> list[InputPartition]:
    """Return the tasks: one or several for a range, or one for several small ranges."""
    most, least = options.max_records_per_partition, options.min_partitions
    parts = split_ranges([part for part in ranges if part.size > 0], most=most, least_parts=least)
    plan = []
    for group in group_ranges(parts, max(_MANY_TASKS, least), most=most):
        brokers = {part.queue.broker for part in group}
        known = {name: dict(addresses) for name, addresses in members.items() if name in brokers}
        plan.append(RangesPartition(Work(tuple(group), known)))
    return plan


def read_work(work: Work, options: TopicOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a task, in order within each queue.

    Raises DataLossError for lost messages if failOnDataLoss is true.
    """
    for part in work.ranges:
        cursor = QueueCursor(part, work.members, options.reading)
        while not cursor.is_done:
            chunk = options.link.call(cursor.next, _BATCH_BYTES)
            loss = chunk.loss
            if chunk.bodies:
                records = _records(chunk, part)
                if options.message_filter.is_any:
                    loss = _hole(chunk, records, part) or loss
                yield from _batches(records, part, options, schema)
            if loss is not None and options.fail_on_data_loss:
                raise DataLossError(_explained(loss))


def _explained(loss: Loss) -> str:
    return (
        f"{loss}. They may have expired, or a broker may have restarted with fewer messages. "
        "Set failOnDataLoss to false to continue without them."
    )


def _records(chunk: Chunk, part: QueueRange) -> Records:
    """Return the pulled records within the range.

    Raises ReadError if they cannot be parsed.
    """
    view = memoryview(b"".join(chunk.bodies))
    starts, end = walk_many(view, 0, len(view))
    records, unsound = decode_records(view, starts)
    if unsound is not None or end != len(view):
        raise ReadError(f"{part.queue}: the response to a pull from offset {chunk.start} cannot be parsed")
    offsets = records.number("queue_offset")
    keep = (offsets >= part.start) & (offsets < part.end)
    return records if keep.all() else records.take(keep)


def _hole(chunk: Chunk, records: Records, part: QueueRange) -> Loss | None:
    """Return the offsets that a broker skipped without an error, or None.

    This happens if a file of the commit log is missing but the consume queue is complete.
    """
    end = chunk.end if chunk.loss is None else chunk.loss.start
    expected, there = np.arange(chunk.start, end), records.number("queue_offset")
    if len(there) == len(expected):
        return None
    missing = np.setdiff1d(expected, there)
    return Loss(part.queue, int(missing[0]), int(missing[-1]) + 1, f"the broker skips {len(missing)} of them")


def _batches(records: Records, part: QueueRange, options: TopicOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if options.tags:  # brokers compare only hashes
        tags = records.properties.column(PROPERTY_TAGS)
        records = records.take(pc.is_in(tags, pa.array(options.tags)).to_numpy(zero_copy_only=False))
    others: dict[str, Any] = {"topic": part.queue.topic, "broker": part.queue.broker}
    yield from record_batches(records, schema, others)
