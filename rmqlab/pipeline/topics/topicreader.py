"""Read ranges of queues into Arrow batches: a task of the source `rocketmq`.

The task belongs to a batch or a stream.
"""

import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import trio
from pyspark.sql.datasource import InputPartition

from rmqlab.client.instance import Client
from rmqlab.pipeline.spark.heap import freeze_imports
from rmqlab.pipeline.stores.records import RECORD_COLUMNS, Records, decode_records, record_batches
from rmqlab.pipeline.stores.recordwalk import walk_many
from rmqlab.pipeline.topics.blocking_client import first_failure
from rmqlab.pipeline.topics.pulledrecords import PulledPart, holes, requested_records
from rmqlab.pipeline.topics.queuecursor import Chunk, Loss, QueueCursor, ReadError
from rmqlab.pipeline.topics.queues import Members
from rmqlab.pipeline.topics.topicbounds import DataLossError, PlanError
from rmqlab.pipeline.topics.topicoffsets import QueueRange, group_ranges, split_ranges
from rmqlab.pipeline.topics.topicoptions import NAME, TopicOptions
from rmqlab.remoting.message import PROPERTY_TAGS

log = logging.getLogger(__name__)
COLUMNS = {"topic": "string", "broker": "string"} | {
    name: kind for name, (kind, _) in RECORD_COLUMNS.items() if name not in ("topic", "tagsCode")
}
_BATCH_BYTES = 4 * 2**20
_RANGES_AT_ONCE = 16
"""Ranges of a task that are read concurrently: each with pulls of its own, and a share of the batch's bytes."""
_WAITING_BYTES = 16 * 2**20
"""Bytes of later ranges that wait for the first one, from which on only that is read."""
_MANY_TASKS = 256
"""Tasks beyond which small ranges share them, unless option minPartitions asks for more."""
_MAX_TASKS = 200_000
_SMALL_TASK = 1000
"""Messages up to which ranges share a task: a task costs Spark as much as reading some thousands of messages."""


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
    """Return the tasks: one or several for a range, or one for several small ranges.

    Raises PlanError if the options ask for too many.
    """
    most, least = options.max_records_per_partition, options.min_partitions
    filled = [part for part in ranges if part.size > 0]
    _check_count(filled, most, least)
    parts = split_ranges(filled, most=most, least_parts=least)
    plan = []
    for group in group_ranges(parts, max(_MANY_TASKS, least), most=most, small=_SMALL_TASK if least == 1 else 0):
        brokers = {part.queue.broker for part in group}
        known = {name: dict(addresses) for name, addresses in members.items() if name in brokers}
        plan.append(RangesPartition(Work(tuple(group), known)))
    return plan


def _check_count(ranges: Sequence[QueueRange], most: int, least: int) -> None:
    """Raise PlanError for more tasks than Spark can plan.

    A broker may claim any number of messages.
    """
    total = sum(part.size for part in ranges)
    for option, count in (
        ("minPartitions", min(least, total)),
        ("maxRecordsPerPartition", total // most if most else 0),
    ):
        if count > _MAX_TASKS:
            raise PlanError(
                f"{NAME}: option {option} asks for {count} tasks for {total} messages: at most {_MAX_TASKS} can be "
                "planned. Change the option, or limit the read by offsets, by times, or by maxOffsetsPerTrigger"
            )


def read_work(work: Work, options: TopicOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a task, in order within each queue.

    Ranges follow each other, and are read concurrently. Raises DataLossError for lost messages if failOnDataLoss is
    true.
    """
    freeze_imports()  # also for workers of clusters, whose parent is PySpark's own
    for first in range(0, len(work.ranges), _RANGES_AT_ONCE):
        parts = work.ranges[first : first + _RANGES_AT_ONCE]
        for pulled in _in_order([QueueCursor(part, work.members, options.reading) for part in parts], options):
            found = [one for one in pulled if one.chunk.bodies]
            losses = [one.chunk.loss for one in pulled]
            if found:
                records, owners = _records(found)
                wanted = [PulledPart(one.part.queue, one.chunk.start, one.chunk.available_end) for one in found]
                keep, strays = requested_records(wanted, records, owners, options.namespace)
                records, owners = (records, owners) if keep.all() else (records.take(keep), owners[keep])
                losses += holes(wanted, records, owners) if options.message_filter.is_any else strays
                yield from _batches(records, owners, found, options, schema)
            _report([loss for loss in losses if loss is not None], options)


@attrs.frozen
class _Pulled:
    """A chunk of a range."""

    part: QueueRange
    chunk: Chunk


def _in_order(cursors: Sequence[QueueCursor], options: TopicOptions) -> Iterator[list[_Pulled]]:
    """Yield the chunks of concurrently read ranges, in the order of the ranges.

    Chunks of later ranges wait for the end of the earlier ranges. So the order of a task's rows depends on its ranges
    alone, and not on how much a broker returned at a time: writers number rows by their position (SPARK_ID).
    """
    waiting: dict[QueueCursor, list[Chunk]] = {cursor: [] for cursor in cursors if not cursor.is_done}
    while waiting:
        head = next(iter(waiting))
        has_room = sum(map(_byte_count, itertools.chain.from_iterable(waiting.values()))) < _WAITING_BYTES
        asked = [one for one in waiting if not one.is_done and (has_room or one is head)]
        for cursor, chunk in options.link.call(_next_chunks, asked).items():
            waiting[cursor].append(chunk)
        pulled = []
        for cursor in list(waiting):
            pulled += [_Pulled(cursor.part, chunk) for chunk in waiting.pop(cursor)]
            if not cursor.is_done:
                waiting = {cursor: [], **waiting}
                break
        yield pulled


def _byte_count(chunk: Chunk) -> int:
    return sum(map(len, chunk.bodies))


async def _next_chunks(client: Client, cursors: Sequence[QueueCursor]) -> dict[QueueCursor, Chunk]:
    """Return the next chunk of each range. Raises ReadError."""
    chunks: dict[QueueCursor, Chunk] = {}

    async def fetch(cursor: QueueCursor) -> None:
        chunks[cursor] = await cursor.next(client, _BATCH_BYTES // len(cursors))

    try:
        async with trio.open_nursery() as nursery:
            for cursor in cursors:
                nursery.start_soon(fetch, cursor)
    except BaseExceptionGroup as group:
        raise first_failure(group) from None
    return chunks


def _report(losses: Sequence[Loss], options: TopicOptions) -> None:
    """Raise DataLossError for the first loss.

    With failOnDataLoss=false, logs a warning for each.
    """
    if losses and options.fail_on_data_loss:
        raise DataLossError(_explained(losses[0]))
    for loss in losses:
        log.warning("%s: %s. They are left out, because failOnDataLoss is false", NAME, loss)


def _explained(loss: Loss) -> str:
    return (
        f"{loss}. They may have expired, or a broker may have restarted with fewer messages. "
        "Set failOnDataLoss to false to continue without them."
    )


def _records(pulled: Sequence[_Pulled]) -> tuple[Records, np.ndarray]:
    """Return the pulled records, and whose they are: indices in `pulled`.

    Raises ReadError if they cannot be parsed.
    """
    view = memoryview(b"".join(body for one in pulled for body in one.chunk.bodies))
    ends = np.cumsum([sum(map(len, one.chunk.bodies)) for one in pulled])
    starts, end = walk_many(view, 0, len(view))
    records, unsound = decode_records(view, starts)
    borders = np.searchsorted(starts, ends)
    if unsound is not None or end != len(view) or not np.isin(ends, [*starts, len(view)]).all():
        raise ReadError(_unreadable(pulled))
    return records, np.repeat(np.arange(len(pulled)), np.diff(borders, prepend=0))


def _unreadable(pulled: Sequence[_Pulled]) -> str:
    """Return the error for the first chunk that cannot be parsed."""
    for one in pulled:
        view = memoryview(b"".join(one.chunk.bodies))
        starts, end = walk_many(view, 0, len(view))
        if end != len(view) or decode_records(view, starts)[1] is not None:
            return f"{one.part.queue}: the response to a pull from offset {one.chunk.start} cannot be parsed"
    raise AssertionError("each chunk can be parsed")  # then all of them can


def _batches(
    records: Records, owners: np.ndarray, pulled: Sequence[_Pulled], options: TopicOptions, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    if options.tags:  # brokers compare only hashes
        keep = pc.is_in(records.properties.column(PROPERTY_TAGS), pa.array(options.tags))
        keep = keep.to_numpy(zero_copy_only=False)
        records, owners = records.take(keep), owners[keep]
    names = {"topic": [one.part.queue.topic for one in pulled], "broker": [one.part.queue.broker for one in pulled]}
    others: dict[str, Any] = {
        column: values[0] if len(set(values)) == 1 else pa.array(values).take(pa.array(owners))
        for column, values in names.items()
    }
    yield from record_batches(records, schema, others)
