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
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
import trio
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rmqlab.client.config import ProducerConfig
from rmqlab.client.errors import IndeterminateError, NoNameServerError, NoRouteError, RefusedError
from rmqlab.client.instance import Client
from rmqlab.client.message import Message, SendStatus
from rmqlab.client.producer import Producer
from rmqlab.pipeline.errors import UserError, without_traceback
from rmqlab.pipeline.options import OptionError
from rmqlab.pipeline.topics.blocking_client import first_failure
from rmqlab.pipeline.topics.refusals import is_denied
from rmqlab.pipeline.topics.topicoptions import NAME, TopicOptions
from rmqlab.remoting.bodies.queue import MessageQueue
from rmqlab.remoting.codes import ResponseCode
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
    PROPERTY_UNIQ_KEY,
    java_hash,
)
from rmqlab.remoting.unique_ids import UniqueIdGenerator
from rmqlab.runtime.clock import wall_millis
from rmqlab.runtime.text.counted import counted
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
_RETRY_SECONDS: Final = 0.5
_FREE_LANES: Final = 4
_BATCH_BYTES: Final = 2**20


class SendFailedError(UserError):
    """Rows could not be written in time, or no broker accepts them.

    The text says which and why.
    """


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
        outcomes += options.link.call(_Sending(options).send_all, _letters(batch, options, prefix, row))
        row += batch.num_rows
    return Sent(dict(outcomes))


@attrs.frozen
class OutgoingMessage:
    """A message and its target: one queue, the queue chosen by a key, or any queue."""

    message: Message
    queue_id: int | None = None
    broker: str | None = None
    sharding_key: str | None = None

    @property
    def is_free(self) -> bool:
        return self.queue_id is None and self.sharding_key is None

    @property
    def goes_alone(self) -> bool:
        """True for delayed messages, which batches must not contain."""
        return self.message.delay_level > 0


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


def _is_permanent(code: int, remark: str) -> bool:
    """Return True for a rejection that a retry cannot change."""
    return code == ResponseCode.MESSAGE_ILLEGAL or is_denied(code, remark)


class _Sending:
    """The sends of one Arrow batch: in order within a queue, concurrent across queues."""

    def __init__(self, options: TopicOptions) -> None:
        self.options = options
        self.outcomes: collections.Counter[str] = collections.Counter()

    async def send_all(self, client: Client, letters: Sequence[OutgoingMessage]) -> collections.Counter[str]:
        producer = _producer(client, self.options.producer_group)
        ids = UniqueIdGenerator(client.ip, os.getpid(), wall_millis, client.rng.getrandbits(32))
        deadline = trio.current_time() + self.options.delivery_timeout_ms / 1000
        lanes: dict[object, list[OutgoingMessage]] = collections.defaultdict(list)
        for number, letter in enumerate(letters):
            named = attrs.evolve(
                letter.message, properties={**letter.message.properties, PROPERTY_UNIQ_KEY: ids.next()}
            )
            lanes[_lane(letter, number)].append(attrs.evolve(letter, message=named))
        try:
            async with trio.open_nursery() as nursery:
                for lane in lanes.values():
                    nursery.start_soon(self._send_lane, producer, lane, deadline)
        except BaseExceptionGroup as group:
            raise first_failure(group) from None
        return self.outcomes

    async def _send_lane(self, producer: Producer, lane: Sequence[OutgoingMessage], deadline: float) -> None:
        for load in _loads(lane, self.options.batch_size):
            await self._send(producer, load, deadline)

    async def _send(self, producer: Producer, load: Sequence[OutgoingMessage], deadline: float) -> None:
        """Send until the messages are stored with the durability that the options require."""
        while True:
            try:
                to = await self._target(producer, load[0])
                result = await _hand_over(producer, load, to, self.options.request_timeout_ms / 1000)
            except (RefusedError, NoRouteError, NoNameServerError) as exc:
                outcome, failure, is_permanent = "refused", str(exc), _is_permanent(exc.code, str(exc))
            except IndeterminateError as exc:
                outcome, failure, is_permanent = "indeterminate", str(exc), False
            else:
                outcome, failure, is_permanent = result.value, f"stored, but {result.value}", False
                if result is SendStatus.SEND_OK or self.options.accept_degraded:
                    self.outcomes[outcome] += len(load)
                    return
            self.outcomes[f"again after {outcome}"] += len(load)
            if is_permanent or trio.current_time() >= deadline:
                topic = load[0].message.topic
                raise SendFailedError(f"{counted(len(load), 'rows')} could not be written to {topic}: {failure}")
            await trio.sleep(_RETRY_SECONDS)
            await producer.client.try_refresh(producer.client.named(load[0].message.topic))

    async def _target(self, producer: Producer, letter: OutgoingMessage) -> MessageQueue | None:
        if letter.is_free:
            return None
        queues = await producer.queues(letter.message.topic)
        if letter.sharding_key is not None and letter.queue_id is None:
            return queues[_abs(java_hash(letter.sharding_key)) % len(queues)]
        for queue in queues:
            if queue.queue_id == letter.queue_id and letter.broker in (None, queue.broker_name):
                return queue
        raise NoRouteError(
            f"topic {letter.message.topic} has no queue {letter.queue_id} at {letter.broker or 'any broker'}"
        )


async def _hand_over(
    producer: Producer,
    load: Sequence[OutgoingMessage],
    to: MessageQueue | None,
    timeout: float,  # noqa: ASYNC109 - the producer's own
) -> SendStatus:
    messages = [letter.message for letter in load]
    if len(messages) == 1:
        return (await producer.send(messages[0], to=to, timeout=timeout)).status
    return (await producer.send_batch(messages, to=to, timeout=timeout)).status


def _abs(hashed: int) -> int:
    """Return the absolute value, 0 for the minimum integer.

    Source: class SelectMessageQueueByHash.
    """
    return 0 if hashed == -(2**31) else abs(hashed)


def _lane(letter: OutgoingMessage, number: int) -> object:
    """Return the key of a row's lane: rows of one lane are sent in order.

    Rows for any queue have no order, and are distributed over several lanes.
    """
    if letter.is_free:
        return letter.message.topic, number % _FREE_LANES
    return letter.message.topic, letter.broker, letter.queue_id, letter.sharding_key


def _loads(lane: Sequence[OutgoingMessage], most: int) -> Iterator[list[OutgoingMessage]]:
    """Cut a lane into requests, limited by messages and bytes.

    A delayed message is a request of its own.
    """
    load: list[OutgoingMessage] = []
    size = 0
    for letter in lane:
        more = len(letter.message.body)
        if load and (letter.goes_alone or load[-1].goes_alone or len(load) >= most or size + more > _BATCH_BYTES):
            yield load
            load, size = [], 0
        load.append(letter)
        size += more
    if load:
        yield load


_producers: dict[tuple[int, str], Producer] = {}


def _producer(client: Client, group: str) -> Producer:
    """Return the producer of a group and client.

    There is one per client instance: brokers identify it by its heartbeats.
    """
    key = id(client), group
    if (producer := _producers.get(key)) is None:
        producer = _producers[key] = Producer(client, group, ProducerConfig(retries=2))
    return producer
