"""Write rows to topics: a task of the source `rocketmq`, in a batch or a stream.

Guarantee: at least once. A task sends its rows, waits for all responses, and retries refused and indeterminate sends
with the same unique key until `deliveryTimeoutMs`; then it fails, and Spark repeats the whole task.

Each message has the property SPARK_ID, `<job>-<batch>-<partition>-<row>`, by which readers can drop repeats:

    stream           job is the query's id, batch the micro-batch's: equal after a restart from the checkpoint
    batch write      job is txnAppId, batch is txnVersion: equal when the write is repeated with the same two options
    ... without them job is random, batch 0: equal only when Spark repeats a task

Partition and row are positions in the input: equal only if the input has the same partitions with the same rows in the
same order each time.
"""

import collections
import itertools
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rmqlab.client.errors import NoNameServerError
from rmqlab.client.instance import Client
from rmqlab.client.message import Message
from rmqlab.pipeline.errors import without_traceback
from rmqlab.pipeline.options import OptionError
from rmqlab.pipeline.topics.topicoptions import NAME, TopicOptions
from rmqlab.pipeline.topics.topicsends import OutgoingMessage, SendFailedError, Sends
from rmqlab.remoting.message import (
    NAME_END,
    PAIR_END,
    PROPERTY_DELAY,
    PROPERTY_MAX_RECONSUME_TIMES,
    PROPERTY_ORIGIN_MESSAGE_ID,
    PROPERTY_PGROUP,
    PROPERTY_REAL_QID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_RECONSUME_TIME,
    PROPERTY_RETRY_TOPIC,
    PROPERTY_TRAN_MSG,
)
from rmqlab.runtime.text.nearmiss import near_miss

SPARK_ID: Final = "SPARK_ID"
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "body": ("string", "binary"),
    "topic": ("string",),
    "tags": ("string",),
    "keys": ("string",),
    "properties": ("map<string,string>",),
    "shardingKey": ("string",),
    "broker": ("string",),
    "queueId": ("int",),
    "delayLevel": ("int",),
    "flag": ("int",),
}
_RESERVED: Final = frozenset({
    PROPERTY_DELAY, PROPERTY_MAX_RECONSUME_TIMES, PROPERTY_ORIGIN_MESSAGE_ID, PROPERTY_PGROUP, PROPERTY_REAL_QID,
    PROPERTY_REAL_TOPIC, PROPERTY_RECONSUME_TIME, PROPERTY_RETRY_TOPIC, PROPERTY_TRAN_MSG,
})  # fmt: skip
"""Properties by which RocketMQ delays, retries and prepares messages. Those of a message that was read are about that
message: a copy with them would be delayed again, or prepared and never delivered. Java's putUserProperty refuses them.
"""
_SEPARATORS: Final = re.compile(f"[{NAME_END}{PAIR_END}]")


def check_written(schema: StructType, options: TopicOptions, *, overwrite: bool) -> list[str]:
    """Return the names of the columns to write, in order.

    Raises OptionError for unsupported columns.
    """
    options.check_for_write()
    if overwrite:
        raise OptionError(f"{NAME}: a topic cannot be overwritten; use the mode append")
    for field in schema.fields:
        allowed = COLUMNS.get(field.name)
        if allowed is None:
            miss = near_miss(field.name, COLUMNS)
            raise OptionError(f"{NAME}: a message has no column {field.name}{miss}; columns: {', '.join(COLUMNS)}")
        if field.dataType.simpleString() not in allowed:
            kind = field.dataType.simpleString()
            raise OptionError(f"{NAME}: column {field.name} is {kind}, expected {' or '.join(allowed)}")
    names = [field.name for field in schema.fields]
    if "body" not in names:
        raise OptionError(f"{NAME}: a message needs a column body, a string or binary")
    if not options.topic and "topic" not in names:
        raise OptionError(f"{NAME}: a message needs a topic: the option, or a column")
    if "broker" in names and "queueId" not in names:
        raise OptionError(f"{NAME}: column broker needs column queueId too")
    return names


@attrs.define
class Sent(WriterCommitMessage):
    """The result of one task: number of rows by outcome."""

    outcomes: dict[str, int] = attrs.field(factory=dict)


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of one job."""

    def __init__(self, options: TopicOptions, names: Sequence[str]) -> None:
        self.options = options
        self.names = names
        if options.txn_version is not None:
            self.batch_id = f"{options.txn_app_id}-{options.txn_version}"
        else:
            self.batch_id = f"{uuid.uuid4().hex[:12]}-0"

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        return write_rows(iterator, self.options, self.batch_id)

    def commit(self, messages: list[Sent | None]) -> None:
        """Does nothing: all tasks have waited for their responses."""

    def abort(self, messages: list[Sent | None]) -> None:
        """Does nothing: RocketMQ cannot delete the messages already sent."""


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of each micro-batch."""

    def __init__(self, options: TopicOptions, names: Sequence[str]) -> None:
        self.options = options
        self.names = names

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") or "query"
        batch = context.getLocalProperty("streaming.sql.batchId") or "0"
        return write_rows(iterator, self.options, f"{query}-{batch}")

    def commit(self, messages: list[Sent | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Does nothing: all tasks have waited for their responses."""

    def abort(self, messages: list[Sent | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Does nothing: RocketMQ cannot delete the messages already sent."""


def check_name_server(options: TopicOptions) -> None:
    """Raise OptionError if no nameserver responds.

    Not called for streams, which wait for a nameserver until `deliveryTimeoutMs`.
    """

    async def ask(client: Client) -> None:
        await client.name_servers.choose()

    try:
        options.link.call(ask)
    except NoNameServerError as exc:
        raise OptionError(f"{NAME}: {exc}") from None


def write_rows(batches: Iterator[pa.RecordBatch], options: TopicOptions, batch_id: str) -> Sent:
    """Send all rows of a task and wait for every response. Raises SendFailedError."""
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    outcomes, row = collections.Counter[str](), 0
    for batch in batches:
        prefix = f"{batch_id}-{partition}"
        outcomes += options.link.call(_send_all, options, _letters(batch, options, prefix, row))
        row += batch.num_rows
    return Sent(dict(outcomes))


async def _send_all(
    client: Client, options: TopicOptions, letters: Sequence[OutgoingMessage]
) -> collections.Counter[str]:
    return await Sends(client, options).send_all(letters)


def _letters(batch: pa.RecordBatch, options: TopicOptions, prefix: str, first: int) -> list[OutgoingMessage]:
    """Return the messages of some rows.

    `first` is the number of the first row in its task.

    Raises SendFailedError for a row without body or topic, or with a separator of properties.
    """
    return [_letter(row, options, f"{prefix}-{number}") for number, row in enumerate(batch.to_pylist(), first)]


def _letter(row: Mapping[str, Any], options: TopicOptions, spark_id: str) -> OutgoingMessage:
    body, topic = row["body"], options.topic or row["topic"]
    if body is None or not topic:
        raise SendFailedError(f"row {spark_id} has no {'body' if body is None else 'topic'}")
    given = {name: value for name, value in row.get("properties") or () if value is not None and name not in _RESERVED}
    keys, tags = row.get("keys") or "", row.get("tags") or ""
    if _SEPARATORS.search("".join([keys, tags, *itertools.chain(*given.items())])):
        raise SendFailedError(
            f"row {spark_id} has \\x01 or \\x02 in keys, tags or properties: they separate properties"
        )
    message = Message(
        topic=topic,
        body=body.encode() if isinstance(body, str) else body,
        tags=tags,
        keys=keys,
        properties={**given, SPARK_ID: spark_id},
        flag=row.get("flag") or 0,
        delay_level=row.get("delayLevel") or 0,
        wait_store_ok=options.wait_store,
    )
    return OutgoingMessage(message, row.get("queueId"), row.get("broker"), row.get("shardingKey"))
