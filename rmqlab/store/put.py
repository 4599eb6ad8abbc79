"""Append messages to the log (sections 2.1 to 2.8): the hot path of a master.

Queue and index entries are written in a separate step, after the bytes were sent to the slaves, which can then work in
parallel.
"""

import logging
import struct
import zlib
from collections.abc import Callable
from typing import Final

import attrs

from rmqlab.remoting.batch import Batch, ReceivedBatch
from rmqlab.remoting.message import (
    BLANK_SIZE,
    BORN_HOST_IPV6,
    HEADS,
    IPV6_MASK,
    MESSAGE_MAGIC,
    STORE_HOST_IPV6,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    NewMessage,
    pack_host,
)
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.store.batches.batchrecords import HOSTLESS_SIZE, BatchRecords, shared_fields
from rmqlab.store.batches.uniformbatch import UniformBatchReader, UniformRecords
from rmqlab.store.config import StoreConfig
from rmqlab.store.dispatch import Dispatcher
from rmqlab.store.keyindex.index import Index
from rmqlab.store.keyindex.indexkeys import IndexKeys
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.log.recentbytes import RecentBytes
from rmqlab.store.queue.consumequeue import ConsumeQueue
from rmqlab.store.queue.queues import Queues, can_have_queues
from rmqlab.store.results import PutResult, PutStatus

logger = logging.getLogger(__name__)

_MAX_TEXT: Final = 32767  # of a properties string: its length is an int16
_MAX_TOPIC: Final = 127
_MAX_BATCH: Final = 32_768  # messages: each costs some 10 us, and other requests wait meanwhile
_MAX_BATCH_GROWTH: Final = 16  # times the largest body: a batch's own properties are stored with each of its messages
_LEAST_NEW_MAX_BODY: Final = 10  # bytes: a change to fewer has no effect
_RECORD_SLACK: Final = 65_536  # bytes by which a record may exceed the largest body
_SHORT: Final = struct.Struct(">h")
_PACK: Final = {
    (len_born, len_store): HEADS[bits].pack
    for bits, (len_born, len_store) in enumerate([(8, 8), (20, 8), (8, 20), (20, 20)])
}
_crc32 = zlib.crc32


@attrs.define(eq=False)
class Putter:
    """Appends messages to the log, and enters them in queues and index afterwards."""

    config: StoreConfig
    log: CommitLog
    queues: Queues
    index: Index | None
    dispatcher: Dispatcher
    now_millis: Callable[[], int]
    refusal: str | None = None  # why puts are refused now
    last_stored_at: int = 0
    recent: RecentBytes = attrs.field(factory=RecentBytes, init=False)  # of batches: other puts use the mapping
    _topics: dict[str, bytes] = attrs.field(factory=dict, init=False)  # as stored: length, then text
    _batches: list[tuple[ConsumeQueue, PutResult, UniformRecords | BatchRecords]] = attrs.field(
        factory=list, init=False
    )
    """Appended batches that are not entered yet: their fields are known and need not be read from the log."""

    _uniform_batches: UniformBatchReader = attrs.field(factory=UniformBatchReader, init=False)
    _max_body: int = attrs.field(init=False)
    _max_record: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._limit_bodies(self.config.max_message_size)

    def reconfigure(self, config: StoreConfig) -> None:
        """Follow `maxMessageSize`, unless it is below 10 bytes.

        Source: CommitLog.updateMaxMessageSize.
        """
        if config.max_message_size >= _LEAST_NEW_MAX_BODY:
            self._limit_bodies(config.max_message_size)

    def _limit_bodies(self, size: int) -> None:
        self._max_body = size
        # A record must fit into an empty file together with the blank after it (store-ha#12).
        self._max_record = min(self._max_body + _RECORD_SLACK, self.config.mapped_file_size_commit_log - BLANK_SIZE)

    def append(self, message: NewMessage) -> PutResult:
        """Append one record, and count it in its queue.

        A separate step, `catch_up`, enters it there.
        """
        if self.refusal is not None:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=self.refusal)
        topic, body, sys_flag = message.topic, message.body, message.sys_flag
        properties = message.properties.encode()
        stored_topic = self._topics.get(topic) or self._stored_topic(topic)
        born, store = pack_host(message.born_host), pack_host(message.store_host)
        hosts_size, body_size, properties_size = len(born) + len(store), len(body), len(properties)
        size = HOSTLESS_SIZE + hosts_size + body_size + len(stored_topic) + properties_size
        if properties_size > _MAX_TEXT or not 1 < len(stored_topic) <= _MAX_TOPIC + 1 or body_size > self._max_body:
            return self._why_illegal(message, properties_size)
        if size > self._max_record:
            return _illegal(f"a record of {size} bytes exceeds {self._max_record}")
        try:
            file = self.log.space_for(size)
        except OSError as problem:
            return self.no_room(problem)

        queue = self.queues.table.get((topic, message.queue_id)) or self.queues.open(topic, message.queue_id)
        kind = sys_flag & TRANSACTION_MASK
        has_entry = kind not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)  # store-ha#22
        queue_offset = queue.next_offset if has_entry else 0
        stored_at = self.last_stored_at = self.now_millis()
        at = file.wrote
        physical, end = file.first_offset + at, at + size
        if hosts_size != 16 or sys_flag & IPV6_MASK:
            sys_flag = sys_flag & ~IPV6_MASK | _ipv6_bits(born, store)
        file.map[at:end] = b"".join((
            _PACK[len(born), len(store)](
                size, MESSAGE_MAGIC, _crc32(body) & 0x7FFFFFFF, message.queue_id, message.flag, queue_offset,
                physical, sys_flag, message.born_timestamp, born, stored_at, store,
                message.reconsume_times, message.prepared_transaction_offset, body_size,
            ),
            body, stored_topic, _SHORT.pack(properties_size), properties,
        ))  # fmt: skip
        file.wrote = end
        if has_entry:
            queue.next_offset = queue_offset + 1

        return PutResult(PutStatus.PUT_OK, physical, physical + size, queue_offset, stored_at)

    def append_batch(self, message: NewMessage, batch: Batch | ReceivedBatch) -> PutResult:
        """Append the messages of a batch, all in one file or not at all.

        Section 2.8, store-ha#17. `message` has their shared fields; its properties are the batch's and follow each
        message's own. RecordError if a received batch is invalid.
        """
        if self.refusal is not None:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=self.refusal)
        stored_topic = self._topics.get(message.topic) or self._stored_topic(message.topic)
        born, store = pack_host(message.born_host), pack_host(message.store_host)
        records = self._records_of(batch, stored_topic, message.properties.encode(), len(born) + len(store))
        if (illegal := self._why_illegal_batch(message, records)) is not None:
            return illegal
        try:
            file = self.log.space_for(records.total, mapped=False)
        except OSError as problem:
            return self.no_room(problem)

        queue = self.queues.open(message.topic, message.queue_id)
        stored_at = self.last_stored_at = self.now_millis()
        first, queue_offset = file.first_offset + file.wrote, queue.next_offset
        offsets = records.offsets_from(first)
        sys_flag = message.sys_flag & ~IPV6_MASK | _ipv6_bits(born, store)
        shared = shared_fields(message, sys_flag, born, stored_at, store)
        encoded = records.encode(message, shared, queue_offset, offsets)
        try:
            file.append(encoded)
        except OSError as problem:
            return self.no_room(problem)
        self.recent.add(first, encoded, begins_file=first == file.first_offset)
        queue.next_offset = queue_offset + len(records)
        result = PutResult(PutStatus.PUT_OK, first, first + records.total, queue_offset, stored_at, offsets)
        if message.topic != SCHEDULE_TOPIC:  # its entries have times of delivery instead of tags codes
            self._batches.append((queue, result, records))
        return result

    def _records_of(
        self, batch: Batch | ReceivedBatch, stored_topic: bytes, properties: bytes, hosts_size: int
    ) -> UniformRecords | BatchRecords:
        if isinstance(batch, ReceivedBatch):
            uniform = self._uniform_batches.read(batch.encoded, stored_topic, properties, hosts_size)
            if uniform is not None:
                return uniform
            batch = batch.decoded()
        return BatchRecords.of(batch, stored_topic, properties, hosts_size)

    def _why_illegal_batch(self, message: NewMessage, records: UniformRecords | BatchRecords) -> PutResult | None:
        if records.largest_properties > _MAX_TEXT:
            return PutResult(PutStatus.PROPERTIES_SIZE_EXCEEDED, reason=f"properties of more than {_MAX_TEXT} bytes")
        if records.largest_body > self._max_body:
            return _illegal(f"a body exceeds {self._max_body} bytes")
        if not 1 < len(records.stored_topic) <= _MAX_TOPIC + 1 or message.sys_flag & TRANSACTION_MASK or not records:
            return _illegal("a batch needs items, a topic of at most 127 bytes, and no transaction")
        if len(records) > _MAX_BATCH:
            return _illegal(f"a batch of {len(records)} messages; at most {_MAX_BATCH}")
        if records.total > _MAX_BATCH_GROWTH * self._max_body:
            return _illegal(
                f"the records of a batch have {records.total} bytes; at most {_MAX_BATCH_GROWTH * self._max_body}"
            )
        if records.total > self.config.mapped_file_size_commit_log - BLANK_SIZE:
            return _illegal(f"a batch of {records.total} bytes exceeds a commit log file")
        return None

    def _enter_batch(self, queue: ConsumeQueue, put: PutResult, records: UniformRecords | BatchRecords) -> IndexKeys:
        """Enter a batch in its queue from its known fields, without reading the log.

        Return its index entries.
        """
        dispatcher, offsets, stored_at = self.dispatcher, put.physical_offsets or (), put.store_timestamp
        queue.append_joined(put.queue_offset, records.queue_entries(offsets))
        dispatcher.offset = put.end_offset
        dispatcher.last_stored_at = stored_at
        if dispatcher.observer is not None and dispatcher.is_observed:
            codes = records.tags_codes()
            dispatcher.observer.messages_dispatched(queue.topic, queue.queue_id, put.queue_offset, codes, stored_at)
        return records.index_keys(offsets, stored_at)

    def _index(self, keys: IndexKeys) -> None:
        """Enter the keys of batches up to the last one in its queue."""
        if self.index is not None and len(keys):
            self.index.put(keys)
        self.dispatcher.indexed = self.dispatcher.offset

    def catch_up(self) -> None:
        """Enter the records that queues or index lack.

        If the disk has no room for them, later puts are refused.
        """
        try:
            if self._batches:
                self._enter_batches()
            self.dispatcher.follow()
        except OSError as problem:  # it is stored; the next call enters it
            self.no_room(problem)

    def _enter_batches(self) -> None:
        """Enter the appended batches, and the records before the last of them.

        OSError: no room.
        """
        dispatcher, keys, batches, self._batches = self.dispatcher, IndexKeys(), self._batches, []
        indexed = dispatcher.indexed  # or more, while the keys of batches wait to be indexed together
        for queue, put, records in batches:
            if put.physical_offset > dispatcher.offset:
                if indexed > dispatcher.indexed:
                    self._index(keys)
                    keys = IndexKeys()
                dispatcher.enter_queues(put.physical_offset - dispatcher.offset, may_index=True)
                indexed = dispatcher.indexed
            if indexed == put.physical_offset == dispatcher.offset:
                keys.add(self._enter_batch(queue, put, records))
                indexed = dispatcher.offset
        if indexed > dispatcher.indexed:
            self._index(keys)

    def no_room(self, problem: OSError) -> PutResult:
        """Refuse puts until the next check of the disk (section 3.9).

        `problem` is an error of the disk, or of too many open files.
        """
        self.refusal = f"{problem.strerror}: {problem.filename or self.config.store_path_root_dir}"
        logger.error("no more puts: %s", self.refusal)
        return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, reason=self.refusal)

    def _stored_topic(self, topic: str) -> bytes:
        """Length and text, as in a record.

        Empty if the topic is not a valid name of a directory of queues.
        """
        if not can_have_queues(topic):
            return b""
        raw = topic.encode()
        stored = bytes([min(len(raw), 255)]) + raw
        if len(raw) <= _MAX_TOPIC:
            self._topics[topic] = stored
        return stored

    def _why_illegal(self, message: NewMessage, properties_size: int) -> PutResult:
        """Return RocketMQ's status for a message that is too large.

        Section 2.5, store-ha#15.
        """
        if not can_have_queues(message.topic):
            return _illegal(f"topic {message.topic!r}: no directory can be called so")
        if len(message.topic.encode()) > _MAX_TOPIC:
            return _illegal(f"topic of {len(message.topic)} characters")
        if len(message.properties) > _MAX_TEXT:
            return _illegal(f"properties of {len(message.properties)} characters")
        if properties_size > _MAX_TEXT:
            return PutResult(PutStatus.PROPERTIES_SIZE_EXCEEDED, reason=f"{properties_size} bytes of properties")
        return _illegal(f"a body of {len(message.body)} bytes exceeds {self._max_body}")


def _ipv6_bits(born: bytes, store: bytes) -> int:
    return (BORN_HOST_IPV6 if len(born) == 20 else 0) | (STORE_HOST_IPV6 if len(store) == 20 else 0)


def _illegal(reason: str) -> PutResult:
    return PutResult(PutStatus.MESSAGE_ILLEGAL, reason=reason)
