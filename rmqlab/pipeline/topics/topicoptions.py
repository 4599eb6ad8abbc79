"""Options of the data source `rocketmq`.

They are named after those of Spark's Kafka source where it has the same concept.
"""

import os
from typing import Final

import attrs

from rmqlab.client.config import ClientConfig
from rmqlab.pipeline.options import (
    OptionError,
    at_least,
    at_least_bytes,
    boolean,
    duration,
    each,
    names,
    one_of,
    option,
    pattern,
    text,
    without_fault,
)
from rmqlab.pipeline.topics import topicvalues
from rmqlab.pipeline.topics.blocking_client import Link, link_to
from rmqlab.pipeline.topics.queuecursor import READ_FROM
from rmqlab.pipeline.topics.queues import Filter, Reading
from rmqlab.pipeline.topics.topicoffsets import EARLIEST, LATEST, QueueName, read_assignment, read_position, read_times
from rmqlab.remoting.acl import Credentials
from rmqlab.remoting.names import group_fault, topic_fault

NAME: Final = "rocketmq"
MEANT: Final = {
    "path": "load() and save() without a path, and option topic",
    "subscribe": "option topic, or topics",
    "subscribepattern": "option topicPattern",
    "kafka.bootstrap.servers": "option nameServer",
    "includeheaders": "the column properties, which has a message's properties",
}
"""Options of other sources, some of Spark's Kafka source, and what is here instead."""
Position = int | dict[QueueName, int]

_TOPICS = ("topic", "topics", "topic_pattern", "assign")
_STARTS = ("starting_offsets", "starting_timestamp", "starting_times")
_ENDS = ("ending_offsets", "ending_timestamp", "ending_times")
_READ_ONLY_IN_BATCHES = _ENDS
_READ_ONLY_AS_STREAM = (
    "max_offsets_per_trigger",
    "max_bytes_per_trigger",
    "min_offsets_per_trigger",
    "max_trigger_delay_ms",
    "starting_offsets_file",
    "commit_group",
)
_TIME = "milliseconds since 1970"
_TIMEOUTS = ("connect_timeout_ms", "request_timeout_ms")
_WRITE_ONLY_IN_BATCHES = ("txn_app_id", "txn_version")
_WRITE_ONLY = (
    *_WRITE_ONLY_IN_BATCHES,
    "batch_size",
    "wait_store",
    "accept_degraded",
    "producer_group",
    "delivery_timeout_ms",
)

_topic = without_fault(topic_fault)
_group = without_fault(group_fault)


def _default_name_servers() -> str:
    value = os.environ.get("NAMESRV_ADDR", "")
    try:
        return topicvalues.name_servers(value) if value else ""
    except ValueError as exc:
        raise ValueError(f"the environment's NAMESRV_ADDR is {value!r}: {exc}") from None


@attrs.frozen(kw_only=True)
class TopicOptions:
    """Options of the source.

    Times are milliseconds; those that select messages are store times.
    """

    name_server: str = option(
        "nameServer",
        topicvalues.name_servers,
        "host:port, several separated by `;` (or NAMESRV_ADDR)",
        default=attrs.Factory(_default_name_servers),
    )
    access_key: str = option("accessKey", text, "an account, where the cluster has access control", default="")
    secret_key: str = option("secretKey", text, "its secret", default="")
    use_tls: bool = option("useTLS", topicvalues.without_tls, "TLS, which is not supported", default=False)
    instance_name: str = option(
        "instanceName",
        topicvalues.part_of_client_id,
        "name in the ids of clients; each process appends its own id",
        default="",
    )
    unit_name: str = option(
        "unitName", topicvalues.part_of_client_id, "the client's unit, at the end of its id", default=""
    )
    namespace: str = option(
        "namespace", topicvalues.namespace, "what topics and groups are prefixed with on the wire", default=""
    )
    topic: str = option("topic", _topic, "one topic", default="")
    topics: tuple[str, ...] = option("topics", each(_topic), "several topics, separated by commas", default=())
    topic_pattern: str = option(
        "topicPattern", pattern, "a regular expression that a topic's whole name matches", default=""
    )
    assign: frozenset[QueueName] = option(
        "assign", read_assignment, "JSON that names the queues to read, alone", default=frozenset()
    )
    # reading
    brokers: tuple[str, ...] = option(
        "brokers", names, "broker groups that routes must have, separated by commas", default=()
    )
    starting_offsets: Position | None = option(
        "startingOffsets", read_position, "earliest, latest or JSON", default=None
    )
    ending_offsets: Position = option("endingOffsets", read_position, "latest or JSON", default=LATEST)
    starting_timestamp: int | None = option(
        "startingTimestamp", at_least(0, unit=_TIME), "first store time", default=None
    )
    ending_timestamp: int | None = option(
        "endingTimestamp", at_least(0, unit=_TIME), "store time that is not read", default=None
    )
    starting_times: dict[QueueName, int] | None = option(
        "startingOffsetsByTimestamp", read_times, "first store times of queues, as JSON", default=None
    )
    ending_times: dict[QueueName, int] | None = option(
        "endingOffsetsByTimestamp", read_times, "store times of queues that are not read, as JSON", default=None
    )
    starting_time_strategy: str = option(
        "startingOffsetsByTimestampStrategy",
        one_of("error", "latest"),
        "for a queue without messages at or after its starting time: begin at latest, or raise an error",
        default="latest",
    )
    starting_group: str = option(
        "startingGroup", _group, "a consumer group: begin at the offsets it committed", default=""
    )
    starting_offsets_file: str = option(
        "startingOffsetsFile", text, "keeps what `latest` meant at the first start", default=""
    )
    max_offsets_per_trigger: int = option("maxOffsetsPerTrigger", at_least(1), "messages of one micro-batch", default=0)
    max_bytes_per_trigger: int = option("maxBytesPerTrigger", at_least_bytes(1), "bytes of one micro-batch", default=0)
    min_offsets_per_trigger: int = option(
        "minOffsetsPerTrigger", at_least(1), "messages that are worth a micro-batch", default=0
    )
    max_trigger_delay_ms: int = option(
        "maxTriggerDelay", duration, "how long after the last micro-batch fewer messages wait", default=900_000
    )
    min_partitions: int = option("minPartitions", at_least(1), "minimum number of tasks", default=1)
    max_records_per_partition: int = option("maxRecordsPerPartition", at_least(1), "messages of one task", default=0)
    fail_on_data_loss: bool = option("failOnDataLoss", boolean, "whether lost messages are an error", default=True)
    read_from: str = option("readFrom", one_of(*READ_FROM), "which member of a broker's group", default="suggested")
    tags: tuple[str, ...] = option(
        "tags", topicvalues.tag_expression, "only messages with one of the tags of a || b", default=()
    )
    sql: str = option("sqlExpression", text, "only messages whose properties fulfil this (SQL92)", default="")
    group: str = option(
        "groupId", _group, "consumer group sent with pulls, which brokers authorize", default="rmqlab-spark"
    )
    commit_group: str = option("commitGroup", _group, "a consumer group whose offsets follow a stream", default="")
    poll_timeout_ms: int = option(
        "pollTimeoutMs",
        at_least(1, unit="milliseconds"),
        "how long a task tries to get its messages from any broker of a group",
        default=120_000,
    )
    connect_timeout_ms: int = option(
        "connectTimeoutMs", at_least(1, unit="milliseconds"), "timeout of each connection to a server", default=3000
    )
    pull_batch_size: int = option(
        "pullBatchSize",
        at_least(1, 2**31 - 1),
        "messages to ask for in one pull; brokers may return fewer",
        default=1024,
    )
    request_timeout_ms: int = option(
        "requestTimeoutMs", at_least(1, unit="milliseconds"), "timeout of each request to a broker", default=5000
    )
    # writing
    txn_app_id: str = option(
        "txnAppId",
        topicvalues.txn_app_id,
        "name of the writing application: repeated batches get equal ids",
        default="",
    )
    txn_version: int | None = option(
        "txnVersion", at_least(0), "number of the batch that txnAppId writes", default=None
    )
    producer_group: str = option(
        "producerGroup", _group, "producer group of the messages, which brokers authorize", default="rmqlab-spark"
    )
    batch_size: int = option("batchSize", at_least(1), "messages of one request", default=64)
    wait_store: bool = option(
        "waitStore",
        boolean,
        "whether a send waits for the flush and the slave that the broker is configured for",
        default=True,
    )
    accept_degraded: bool = option(
        "acceptDegraded",
        boolean,
        "whether a message counts as written after FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE",
        default=True,
    )
    delivery_timeout_ms: int = option(
        "deliveryTimeoutMs", at_least(1, unit="milliseconds"), "how long a task tries to send", default=120_000
    )

    def __attrs_post_init__(self) -> None:
        if not self.name_server:
            raise ValueError("option nameServer is needed: host:port, several separated by `;`")
        if bool(self.txn_app_id) != (self.txn_version is not None):
            raise ValueError("options txnAppId and txnVersion belong together")
        if self.assign and self.brokers:
            raise ValueError("options assign and brokers exclude each other: assign names the brokers already")
        if self.tags and self.sql:
            raise ValueError("options tags and sqlExpression exclude each other")
        self._check_exclusive(_STARTS)
        self._check_exclusive(_ENDS)
        if self._has("starting_time_strategy") and self.starting_timestamp is None and self.starting_times is None:
            raise ValueError(
                "option startingOffsetsByTimestampStrategy needs startingTimestamp or startingOffsetsByTimestamp"
            )
        if self.ending_offsets == EARLIEST or (
            isinstance(self.ending_offsets, dict) and EARLIEST in self.ending_offsets.values()
        ):
            raise ValueError("option endingOffsets is 'earliest', or -2: nothing would be read")
        self._check_times()
        if self._has("max_trigger_delay_ms") and not self.min_offsets_per_trigger:
            raise ValueError("option maxTriggerDelay needs minOffsetsPerTrigger")
        if 0 < self.max_offsets_per_trigger < self.min_offsets_per_trigger:
            raise ValueError("option minOffsetsPerTrigger is more than maxOffsetsPerTrigger")
        if bool(self.access_key) != bool(self.secret_key):
            raise ValueError("options accessKey and secretKey belong together")

    def _check_exclusive(self, fields: tuple[str, ...]) -> None:
        given = [_option_name(name) for name in fields if self._has(name)]
        if len(given) > 1:
            raise ValueError(f"options {' and '.join(given)} exclude each other")

    def _check_times(self) -> None:
        first, end = self.starting_timestamp, self.ending_timestamp
        if first is not None and end is not None and end < first:
            raise ValueError("option endingTimestamp is before startingTimestamp")
        firsts, ends = self.starting_times or {}, self.ending_times or {}
        for queue in sorted(firsts.keys() | ends.keys()):
            first, end = firsts.get(queue, self.starting_timestamp), ends.get(queue, self.ending_timestamp)
            if first is not None and end is not None and end < first:
                raise ValueError(f"{queue} would begin at {first} ms and end at {end} ms before it")

    def _has(self, field: str) -> bool:
        """Return True for an option with another value than its default."""
        return bool(getattr(self, field) != attrs.fields_dict(TopicOptions)[field].default)

    def check_for_read(self) -> None:
        """Check the options of a reader.

        OptionError for options that no reader supports, and unless exactly one topic option is set.
        """
        given = [_option_name(name) for name in _TOPICS if getattr(self, name)]
        if len(given) != 1:
            raise OptionError(
                f"{NAME}: exactly one of the options topic, topics, topicPattern and assign is needed; "
                f"given: {' and '.join(given) or 'none'}"
            )
        self._refuse(_WRITE_ONLY, "writing")

    def check_for_batch_read(self) -> None:
        """Raise OptionError for options that a batch read does not support."""
        self.check_for_read()
        self._refuse(_READ_ONLY_AS_STREAM, "a stream")
        if self.starting_offsets == LATEST and not self.starting_group:
            raise OptionError(f"{NAME}: option startingOffsets is 'latest': a batch would read nothing")

    def check_for_stream_read(self) -> None:
        """Raise OptionError for options that a stream does not support."""
        self.check_for_read()
        self._refuse(_READ_ONLY_IN_BATCHES, "a batch read")

    def check_for_write(self) -> None:
        """Raise OptionError for options that a writer does not support."""
        fields = list(attrs.fields_dict(TopicOptions))
        reading = [name for name in fields[fields.index("brokers") :] if name not in _WRITE_ONLY]
        self._refuse(
            ("topics", "topic_pattern", "assign", *[name for name in reading if name not in _TIMEOUTS]),
            "reading",
        )

    def check_for_stream_write(self) -> None:
        """Raise OptionError for options that a stream's writer does not support.

        It needs no txnAppId: its rows are identified by query and micro-batch.
        """
        self.check_for_write()
        self._refuse(_WRITE_ONLY_IN_BATCHES, "a batch write")

    def _refuse(self, fields: tuple[str, ...], only_for: str) -> None:
        for name in fields:
            if self._has(name):
                raise OptionError(f"{NAME}: option {_option_name(name)} is for {only_for} only")

    @property
    def has_stated_start(self) -> bool:
        """Whether an option other than startingGroup says where to begin."""
        return any(self._has(name) for name in _STARTS)

    @property
    def topic_option(self) -> str:
        """The option that selects topics or queues."""
        return next(_option_name(name) for name in _TOPICS if getattr(self, name))

    @property
    def named_topics(self) -> tuple[str, ...]:
        """The topics to read, unless a pattern selects them."""
        return self.topics or ((self.topic,) if self.topic else tuple(sorted({queue.topic for queue in self.assign})))

    def reads(self, queue: QueueName) -> bool:
        """Return True for a queue of these topics that option assign does not exclude."""
        return not self.assign or queue in self.assign

    @property
    def link(self) -> Link:
        """The process's client of the cluster."""
        return link_to(
            ClientConfig(
                namesrv_addr=self.name_server,
                credentials=self.credentials,
                namespace=self.namespace or None,
                instance_name=f"{self.instance_name}#{os.getpid()}" if self.instance_name else "DEFAULT",
                connect_timeout=self.connect_timeout_ms / 1000,
                api_timeout=self.request_timeout_ms / 1000,
                unit_name=self.unit_name or None,
            )
        )

    @property
    def credentials(self) -> Credentials | None:
        return Credentials(self.access_key, self.secret_key) if self.access_key else None

    @property
    def message_filter(self) -> Filter:
        """The messages to read, by tags or properties."""
        return Filter(tags=self.tags, sql=self.sql)

    @property
    def reading(self) -> Reading:
        """How tasks read."""
        return Reading(
            read_from=self.read_from,
            message_filter=self.message_filter,
            group=self.group,
            seconds=self.poll_timeout_ms / 1000,
            request_seconds=self.request_timeout_ms / 1000,
            pull_batch_size=self.pull_batch_size,
        )


def _option_name(field: str) -> str:
    return str(attrs.fields_dict(TopicOptions)[field].metadata["option"])
