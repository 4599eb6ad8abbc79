"""Read ranges of queues into Arrow batches: what a task of the source `rocketmq` does, batch read and stream alike."""

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pipeline.link import link_to
from pipeline.queuecursor import Loss, QueueCursor
from pipeline.queues import Members
from pipeline.records import RECORD_COLUMNS, decode_records, property_column, record_batch, walk
from pipeline.topicbounds import DataLossError
from pipeline.topicoffsets import QueueRange, group_ranges
from pipeline.topicoptions import TopicOptions
from remoting.message import PROPERTY_TAGS

COLUMNS = {"topic": "string", "broker": "string"} | {
    name: kind for name, (kind, _) in RECORD_COLUMNS.items() if name != "topic"
}
_BATCH_BYTES = 4 * 2**20
_MOST_TASKS = 256


@attrs.frozen
class Work:
    """What one task reads, and where to ask."""

    ranges: tuple[QueueRange, ...]
    members: Members


class RangesPartition(InputPartition):
    """Ranges of queues, read by one task."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)


def plan_work(ranges: list[QueueRange], members: Members) -> list[InputPartition]:
    """One task for each range, or for several where there are very many."""
    plan = []
    for group in group_ranges([part for part in ranges if part.size > 0], _MOST_TASKS):
        brokers = {part.queue.broker for part in group}
        known = {name: dict(addresses) for name, addresses in members.items() if name in brokers}
        plan.append(RangesPartition(Work(tuple(group), known)))
    return plan


def read_work(work: Work, options: TopicOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The messages of a task, in the order of each queue. DataLossError where some are gone and that matters."""
    link = link_to(options.name_server)
    for part in work.ranges:
        cursor = QueueCursor(part, work.members, options.reading)
        while not cursor.is_done:
            bodies, loss = link.call(cursor.next, _BATCH_BYTES)
            if bodies:
                yield _batch(b"".join(bodies), part, options, schema)
            if loss is not None and options.fail_on_data_loss:
                raise DataLossError(_explained(loss))


def _explained(loss: Loss) -> str:
    return (
        f"{loss}. They may have expired, or a broker may have come back with less than it had. "
        "Set failOnDataLoss to false to go on without them."
    )


def _batch(data: bytes, part: QueueRange, options: TopicOptions, schema: pa.Schema) -> pa.RecordBatch:
    view = memoryview(data)
    starts, _ = walk(view, 0, len(view))
    records, unsound = decode_records(view, starts)
    if unsound is not None:
        raise ValueError(f"{part.queue}: the broker's answer holds a record that does not parse")
    offsets = records.heads["queue_offset"]
    keep = (offsets >= part.start) & (offsets < part.end)
    if options.tags:
        tags = property_column(records.properties_text, PROPERTY_TAGS).to_pylist()
        keep &= np.array([tag in options.tags for tag in tags], bool)
    if not keep.all():
        records = records.take(keep)
    others: dict[str, Any] = {"topic": part.queue.topic, "broker": part.queue.broker}
    return record_batch(records, schema, others)
