"""Decode many stored messages into Arrow columns: logs and pull response bodies.

Each column is gathered when it is asked for: what a reader does not ask for costs nothing. Lengths are always checked.
"""

import functools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqlab.pipeline.stores.bytecolumns import numbers, slices
from rmqlab.pipeline.stores.properties import Properties, find_properties
from rmqlab.pipeline.stores.recordlayout import (
    BODY_AT,
    BODY_SIZE_AT,
    BORN_HOST,
    IPV4_SIZE,
    IPV6_EXTRA,
    NUMBER_FIELDS,
    STORE_HOST,
    HostField,
)
from rmqlab.remoting.compression import MAX_INFLATED, DecompressionError, decompress_body
from rmqlab.remoting.contentcrc import content_crc
from rmqlab.remoting.message import (
    BORN_HOST_IPV6,
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_MASK,
    COMPRESSION_ZSTD,
    PROPERTY_DELAY,
    PROPERTY_KEYS,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    STORE_HOST_IPV6,
    SYS_FLAG_AT,
    RecordError,
    java_hash,
)
from rmqlab.remoting.names import HALF_TOPIC, SCHEDULE_TOPIC

_HEX: Final = np.frombuffer(bytes(range(256)).hex().upper().encode(), np.uint16)
"""The two hexadecimal digits of each byte."""


@attrs.define(eq=False)
class Records:
    """Records of one buffer below 2 GiB, in ascending order.

    Times in ms, sizes in bytes; hosts as `address:port`.
    """

    data: np.ndarray
    sections: tuple[np.ndarray, np.ndarray, np.ndarray]
    """Where each record begins, for the fields of each section: moved by its IPv6 hosts."""
    body_at: np.ndarray
    body_size: np.ndarray
    topic_at: np.ndarray
    topic_size: np.ndarray
    properties_at: np.ndarray
    properties_size: np.ndarray

    def __len__(self) -> int:
        return len(self.body_at)

    def number(self, name: str) -> np.ndarray:
        """Return a column of the record headers, by the names of `NUMBER_FIELDS`."""
        field = NUMBER_FIELDS[name]
        return numbers(self.data, self.sections[field.section] + field.at, field.kind)

    def binary(self, begins: np.ndarray, sizes: np.ndarray) -> pa.Array:
        """Return byte strings of the buffer as an Arrow column."""
        return slices(pa.py_buffer(self.data), begins, begins + sizes, kind=pa.binary())

    def hosts(self, field: HostField, as_text: Callable[[bytes], str]) -> pa.Array:
        """Return a column of hosts; each different one is formatted once."""
        is_ipv6 = (self.number("sys_flag") & field.ipv6_flag) != 0
        begins = self.sections[field.section] + field.at
        packed = self.binary(begins, IPV4_SIZE + IPV6_EXTRA * is_ipv6).dictionary_encode()
        texts = pa.array([as_text(host) for host in packed.dictionary.to_pylist()], pa.string())
        return texts.take(packed.indices)

    @functools.cached_property
    def topics(self) -> pa.Array:
        return as_text(self.binary(self.topic_at, self.topic_size))

    @functools.cached_property
    def properties_text(self) -> pa.Array:
        return as_text(self.binary(self.properties_at, self.properties_size))

    @functools.cached_property
    def properties(self) -> Properties:
        return find_properties(self.properties_text)

    def body_is_intact(self) -> np.ndarray:
        """Return for each body whether it matches the CRC in its header.

        That CRC has no sign bit.
        """
        return (self._crcs(self.body_at, self.body_size) & 0x7FFFFFFF) == self.number("body_crc")

    def content_crcs(self) -> pa.Array:
        """Return what `rmqlab.remoting.contentcrc` computes of each record."""
        keys, tags = (self.properties.column(name).to_pylist() for name in (PROPERTY_KEYS, PROPERTY_TAGS))
        numbers_of = zip(self.number("body_crc").tolist(), self.number("flag").tolist(), keys, tags, strict=True)
        return pa.array(
            [content_crc(crc, flag, key or "", tag or "") for crc, flag, key, tag in numbers_of], pa.int64()
        )

    def crcs(self) -> pa.Array:
        """Return the CRC-32 of each whole record with header, to compare copies."""
        return pa.array(self._crcs(self.sections[0], self.number("size")))

    def _crcs(self, begins: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        view, crc32 = memoryview(self.data), zlib.crc32
        spans = zip(begins.tolist(), (begins + sizes).tolist(), strict=True)
        return np.fromiter((crc32(view[begin:end]) for begin, end in spans), np.int64, len(begins))

    def bodies(self) -> pa.Array:
        """Return decompressed bodies, all together: see `record_batches`."""
        if not self.is_any_compressed:
            return self.binary(self.body_at, self.body_size)
        return pa.concat_arrays([part for _, part in self.inflated_bodies()])

    def inflated_bodies(self) -> Iterator[tuple[int, pa.Array]]:
        """Yield decompressed bodies in parts, each with the index of its first record.

        A part has MAX_INFLATED_TOGETHER bytes at most. A body that cannot be decompressed is yielded as stored.
        """
        part: list[bytes] = []
        first = size = in_vain = 0
        stored = self.binary(self.body_at, self.body_size).to_pylist()
        for index, (each, flag) in enumerate(zip(stored, self.number("sys_flag").tolist(), strict=True)):
            is_suspect = in_vain >= MAX_INFLATED_IN_VAIN
            limit = min(MAX_INFLATED, len(each) * _SUSPECT_RATIO) if is_suspect else MAX_INFLATED
            body, wasted = _decompressed(each, flag, limit)
            in_vain += wasted
            if part and size + len(body) > MAX_INFLATED_TOGETHER:
                yield first, pa.array(part, pa.binary())
                part, first, size = [], index, 0
            part.append(body)
            size += len(body)
        if part:
            yield first, pa.array(part, pa.binary())

    @property
    def is_any_compressed(self) -> bool:
        return bool((self.number("sys_flag") & COMPRESSED).any())

    def take(self, chosen: np.ndarray) -> "Records":
        """Return some of the records, selected by a mask or by ascending indices."""
        before, between, after = self.sections
        return attrs.evolve(
            self,
            sections=(before[chosen], between[chosen], after[chosen]),
            body_at=self.body_at[chosen],
            body_size=self.body_size[chosen],
            topic_at=self.topic_at[chosen],
            topic_size=self.topic_size[chosen],
            properties_at=self.properties_at[chosen],
            properties_size=self.properties_size[chosen],
        )


MAX_INFLATED_TOGETHER: Final = 128 * 2**20
"""Bytes of decompressed bodies of one batch."""
MAX_INFLATED_IN_VAIN: Final = 2 * MAX_INFLATED
"""Bytes that the bodies of one buffer may inflate to in vain, before bodies are suspect.

A body of 2 KiB can inflate to more than MAX_INFLATED with ZSTD, and a buffer may have thousands of these."""
_SUSPECT_RATIO: Final = 100
"""Growth up to which suspect bodies are decompressed: texts and JSON grow less than 30-fold."""


def decode_records(data: memoryview, starts: Sequence[int]) -> tuple[Records, int | None]:
    """Decode the records that begin at these positions.

    Each must be complete according to its size.

    Also returns the index in `starts` of the first record with inconsistent inner lengths; that record and those after
    it are omitted. None if all are valid.
    """
    raw, begins = np.frombuffer(data, np.uint8), np.asarray(starts, np.int64)
    sections, ends = _sections(raw, begins), begins + numbers(raw, begins, ">i4")
    body_at = sections[-1] + BODY_AT
    # Lengths behind an inconsistent one are read from position 0. Their values do not matter, because the record is
    # already invalid.
    sound = body_at <= ends
    body_size = numbers(raw, np.where(sound, body_at - (BODY_AT - BODY_SIZE_AT), 0), ">i4")
    topic_at = body_at + body_size + 1
    sound &= (body_size >= 0) & (topic_at + 2 <= ends)
    topic_size = numbers(raw, np.where(sound, topic_at - 1, 0), "u1").astype(np.int64)
    properties_at = topic_at + topic_size + 2
    sound &= properties_at <= ends
    properties_size = numbers(raw, np.where(sound, properties_at - 2, 0), ">i2").astype(np.int64)
    sound &= properties_at + properties_size == ends
    records = Records(raw, sections, body_at, body_size, topic_at, topic_size, properties_at, properties_size)
    if sound.all():
        return records, None
    first = int(np.argmin(sound))
    return records.take(np.arange(first)), first


def _sections(raw: np.ndarray, begins: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    flags = numbers(raw, begins + SYS_FLAG_AT, ">i4")
    after_born = begins + IPV6_EXTRA * ((flags & BORN_HOST_IPV6) != 0)
    return begins, after_born, after_born + IPV6_EXTRA * ((flags & STORE_HOST_IPV6) != 0)


_PIECE: Final = 2**20
"""Bytes that are decompressed at a time."""
_ARROW_CODECS: Final = {COMPRESSION_LZ4: "lz4", COMPRESSION_ZSTD: "zstd"}


def _decompressed(body: bytes, sys_flag: int, limit: int) -> tuple[bytes, int]:
    """Return the body, and how many bytes were decompressed in vain.

    If there are any, the body is the stored one.
    """
    if sys_flag & COMPRESSED and (codec := _ARROW_CODECS.get(sys_flag & COMPRESSION_MASK)):
        return _decompressed_by_arrow(body, codec, limit)
    try:
        return decompress_body(body, sys_flag, limit), 0
    except RecordError as exc:
        return body, exc.inflated if isinstance(exc, DecompressionError) else 0


def _decompressed_by_arrow(body: bytes, codec: str, limit: int) -> tuple[bytes, int]:
    pieces: list[bytes] = []
    size = 0
    with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
        try:
            while size <= limit and (piece := stream.read(min(_PIECE, limit + 1 - size))):
                pieces.append(piece)
                size += len(piece)
        except OSError:
            return body, size
    return (b"".join(pieces), 0) if size <= limit else (body, size)


def as_text(raw: pa.Array) -> pa.Array:
    """Convert UTF-8 bytes to text, with replacement characters as in Java."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "replace") for value in raw.to_pylist()], pa.string())


def _host_text(packed: bytes) -> str:
    address, port = ip_address(packed[:-4]), int.from_bytes(packed[-4:], "big", signed=True)
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"


# ---- columns by the names in Spark -----------------------------------------------------------------------


def _number(name: str) -> Callable[[Records], pa.Array]:
    return lambda records: pa.array(records.number(name))


_MOST_MILLIS: Final = (2**63 - 1) // 1000
"""A time of a record is any number of 64 bits, and Spark's times are microseconds of 64 bits."""


def _instant(name: str) -> Callable[[Records], pa.Array]:
    def read(records: Records) -> pa.Array:
        millis = records.number(name).clip(-_MOST_MILLIS, _MOST_MILLIS)
        return pa.array(millis * 1000, pa.timestamp("us", tz="UTC"))

    return read


def _host(field: HostField) -> Callable[[Records], pa.Array]:
    return lambda records: records.hosts(field, _host_text)


def _property(name: str) -> Callable[[Records], pa.Array]:
    return lambda records: records.properties.column(name)


def _message_ids(records: Records) -> pa.Array:
    """Return the store host and the commit log offset in hexadecimal (store-ha#16)."""
    hosts = records.hosts(STORE_HOST, lambda packed: packed.hex().upper())
    digits = _HEX[records.number("physical_offset").astype(">i8").view(np.uint8)]
    borders = np.arange(len(records) + 1, dtype=np.int32) * 16
    offsets = pa.Array.from_buffers(pa.string(), len(records), [None, pa.py_buffer(borders), pa.py_buffer(digits)])
    return pc.binary_join_element_wise(hosts, offsets, "")


def _real_topics(records: Records) -> pa.Array:
    """Return the final topic of a delayed or half message.

    Null for every other record.
    """
    waits = pc.is_in(records.topics, pa.array([SCHEDULE_TOPIC, HALF_TOPIC]))
    if not pc.any(waits).as_py():
        return pa.nulls(len(records), pa.string())
    return pc.if_else(waits, records.properties.column(PROPERTY_REAL_TOPIC), None)


def _tags_codes(records: Records) -> pa.Array:
    """Return the tags code of each record's queue entry (store-ha#19).

    Null for a delayed message: its entry has a time of delivery, which depends on the broker's settings.
    """
    tags = records.properties.column(PROPERTY_TAGS).dictionary_encode()
    known = pa.array([java_hash(text) for text in tags.dictionary.to_pylist()], pa.int64())
    codes = pc.fill_null(known.take(tags.indices), 0)
    waits = pc.equal(records.topics, SCHEDULE_TOPIC)
    if not pc.any(waits).as_py():
        return codes
    is_delayed = pc.and_(waits, pc.is_valid(records.properties.column(PROPERTY_DELAY)))
    return pc.if_else(is_delayed, None, codes)


RECORD_COLUMNS: Final[Mapping[str, tuple[str, Callable[[Records], pa.Array]]]] = {
    "topic": ("string", lambda records: records.topics),
    "queueId": ("int", _number("queue_id")),
    "queueOffset": ("bigint", _number("queue_offset")),
    "commitLogOffset": ("bigint", _number("physical_offset")),
    "msgId": ("string", _message_ids),
    "uniqKey": ("string", _property(PROPERTY_UNIQ_KEY)),
    "keys": ("string", _property(PROPERTY_KEYS)),
    "tags": ("string", _property(PROPERTY_TAGS)),
    "tagsCode": ("bigint", _tags_codes),
    "realTopic": ("string", _real_topics),
    "properties": ("map<string,string>", lambda records: records.properties.maps()),
    "propertiesText": ("string", lambda records: records.properties_text),
    "body": ("binary", Records.bodies),
    "storeSize": ("int", _number("size")),
    "flag": ("int", _number("flag")),
    "sysFlag": ("int", _number("sys_flag")),
    "bodyCrc": ("int", _number("body_crc")),
    "recordCrc": ("bigint", Records.crcs),
    "contentCrc": ("bigint", Records.content_crcs),
    "bornTimestamp": ("timestamp", _instant("born_timestamp")),
    "bornHost": ("string", _host(BORN_HOST)),
    "storeTimestamp": ("timestamp", _instant("store_timestamp")),
    "storeHost": ("string", _host(STORE_HOST)),
    "reconsumeTimes": ("int", _number("reconsume_times")),
    "preparedTransactionOffset": ("bigint", _number("prepared_transaction_offset")),
}
"""Name, Spark type, and function. `msgId` is the offset message id, `keys` are separated by spaces."""


def record_batches(records: Records, schema: pa.Schema, others: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yield the columns of an Arrow schema, with decompressed bodies.

    There are several batches if the bodies are large: 4 MB of records can have bodies of 4 GB. `others` are arrays, or
    one value for all rows.
    """
    if "body" not in schema.names or not records.is_any_compressed:
        yield _batch(records, schema, others)
        return
    for first, bodies in records.inflated_bodies():
        rows = records.take(np.arange(first, first + len(bodies)))
        here = {
            name: value.slice(first, len(bodies)) if isinstance(value, pa.Array) else value
            for name, value in others.items()
        }
        yield _batch(rows, schema, here | {"body": bodies})


def _batch(records: Records, schema: pa.Schema, others: Mapping[str, Any]) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        if field.name not in others:
            column = RECORD_COLUMNS[field.name][1](records)
        elif isinstance(others[field.name], pa.Array):
            column = others[field.name]
        else:
            column = pa.repeat(pa.scalar(others[field.name], field.type), len(records))
        arrays.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
