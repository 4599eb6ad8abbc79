"""Decode many stored messages at once into Arrow columns: commit logs and bodies of pull responses.

One pass over the sizes finds where records begin; numpy then gathers each field of all of them. That takes a quarter
of the time of a loop with `struct` (spark.md section 8). Layout of a record: rmqlab/remoting/message.py.
"""

import functools
import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqlab.remoting.message import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_MASK,
    COMPRESSION_ZSTD,
    FIXED_SIZE,
    IPV6_MASK,
    MAX_INFLATED,
    MESSAGE_MAGIC,
    PROPERTY_KEYS,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    SYS_FLAG_AT,
    RecordError,
    body_crc,
    decompress_body,
    offset_message_id,
    parse_properties,
)
from rmqlab.remoting.names import HALF_TOPIC, SCHEDULE_TOPIC

_SIZE_MAGIC_PLACE: Final = struct.Struct(">ii20xq")
_GATHER_UP_TO: Final = 300
"""Mean bytes of a text below which numpy is faster than joining slices (measured: spark.md section 8)."""

_HEAD_FIELDS: Final = (
    ("size", ">i4"), ("magic", ">i4"), ("body_crc", ">i4"), ("queue_id", ">i4"), ("flag", ">i4"),
    ("queue_offset", ">i8"), ("physical_offset", ">i8"), ("sys_flag", ">i4"), ("born_timestamp", ">i8"),
    ("born_host", None), ("store_timestamp", ">i8"), ("store_host", None), ("reconsume_times", ">i4"),
    ("prepared_transaction_offset", ">i8"), ("body_size", ">i4"),
)  # fmt: skip


def _head_type(born: int, store: int) -> np.dtype:
    hosts = {"born_host": f"V{born}", "store_host": f"V{store}"}
    return np.dtype([(name, kind or hosts[name]) for name, kind in _HEAD_FIELDS])


_HEADS: Final = (_head_type(8, 8), _head_type(20, 8), _head_type(8, 20), _head_type(20, 20))
"""By sysFlag & IPV6_MASK >> 4."""


def walk(data: memoryview, at: int, end: int, base: int | None = None) -> tuple[list[int], int]:
    """Return where records begin, from `at` on and before `end`, and the first byte after them.

    Stops at bytes that are not a record, at an incomplete record, and, if `base` is the commit log offset of the first
    byte, at a record with another position. Without such a stop the second value is at least `end`, or the data ends.
    """
    starts, unpack, whole = [], _SIZE_MAGIC_PLACE.unpack_from, len(data)
    while at < end and at + FIXED_SIZE <= whole:
        size, magic, place = unpack(data, at)
        if magic != MESSAGE_MAGIC or size < FIXED_SIZE or at + size > whole:
            break
        if base is not None and place != base + at:
            break
        starts.append(at)
        at += size
    return starts, at


@attrs.define(eq=False)
class Records:
    """Records of one buffer, column by column.

    Times in ms, sizes in bytes; hosts as `address:port`.
    """

    data: np.ndarray
    starts: np.ndarray
    """Position in `data` where each record begins, in order."""
    heads: Mapping[str, np.ndarray]
    """Numbers of the record headers, by the names of `_HEAD_FIELDS`."""
    hosts: Mapping[str, np.ndarray]
    body_at: np.ndarray
    topic_at: np.ndarray
    topic_size: np.ndarray
    properties_at: np.ndarray
    properties_size: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    def binary(self, begins: np.ndarray, sizes: np.ndarray) -> pa.Array:
        """Return byte strings of the buffer as an Arrow column."""
        offsets = np.zeros(len(sizes) + 1, np.int32)
        np.cumsum(sizes, out=offsets[1:])
        total = int(offsets[-1])
        if total > _GATHER_UP_TO * len(sizes):
            view = memoryview(self.data)
            raw = b"".join([view[at : at + size] for at, size in zip(begins.tolist(), sizes.tolist(), strict=True)])
            content = pa.py_buffer(raw)
        else:
            shifts = np.repeat(begins - offsets[:-1], sizes)
            content = pa.py_buffer(self.data[shifts + np.arange(total)])
        return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(offsets), content])

    @functools.cached_property
    def properties_text(self) -> pa.Array:
        return as_text(self.binary(self.properties_at, self.properties_size))

    def body_is_intact(self) -> np.ndarray:
        """Return for each body whether it matches the CRC in the record's header."""
        view, sizes = memoryview(self.data), self.heads["body_size"]
        crcs = [body_crc(view[at : at + size]) for at, size in zip(self.body_at.tolist(), sizes.tolist(), strict=True)]
        return np.array(crcs, np.int32) == self.heads["body_crc"]

    def crcs(self) -> pa.Array:
        """Return the CRC-32 of each whole record with its header, to compare copies of a record."""
        view, sizes = memoryview(self.data), self.heads["size"].tolist()
        found = [zlib.crc32(view[at : at + size]) for at, size in zip(self.starts.tolist(), sizes, strict=True)]
        return pa.array(found, pa.int64())

    def bodies(self) -> pa.Array:
        """Return decompressed bodies.

        A body that cannot be decompressed is returned as stored.
        """
        stored = self.binary(self.body_at, self.heads["body_size"])
        flags = self.heads["sys_flag"]
        if not (flags & COMPRESSED).any():
            return stored
        return pa.array(
            [_decompressed(body, flag) for body, flag in zip(stored.to_pylist(), flags.tolist(), strict=True)],
            pa.binary(),
        )

    def take(self, chosen: np.ndarray) -> "Records":
        """Return some of the records, selected by a mask or by indices."""
        return attrs.evolve(
            self,
            starts=self.starts[chosen],
            heads={name: column[chosen] for name, column in self.heads.items()},
            hosts={name: column[chosen] for name, column in self.hosts.items()},
            body_at=self.body_at[chosen],
            topic_at=self.topic_at[chosen],
            topic_size=self.topic_size[chosen],
            properties_at=self.properties_at[chosen],
            properties_size=self.properties_size[chosen],
        )


def decode_records(data: memoryview, starts: Sequence[int]) -> tuple[Records, int | None]:
    """Decode the records that begin at these positions, each of them complete according to its size.

    Also returns the index in `starts` of the first record with inconsistent inner lengths; that record and those after
    it are omitted. None if all are valid.
    """
    raw, begins = np.frombuffer(data, np.uint8), np.asarray(starts, np.int64)
    count = len(begins)
    heads = {name: np.zeros(count, kind[1:]) for name, kind in _HEAD_FIELDS if kind}
    hosts = {name: np.empty(count, object) for name, kind in _HEAD_FIELDS if not kind}
    body_at = np.zeros(count, np.int64)
    kinds = (_gather(raw, begins + SYS_FLAG_AT, ">i4") & IPV6_MASK) >> 4
    sound = np.ones(count, bool)
    for kind in np.unique(kinds).tolist():
        places = np.flatnonzero(kinds == kind)
        fits = begins[places] + _HEADS[kind].itemsize <= len(raw)
        sound[places[~fits]] = False
        places = places[fits]
        found = _gather(raw, begins[places], _HEADS[kind])
        for name, column in heads.items():
            column[places] = found[name]
        for name, hosted in hosts.items():
            hosted[places] = _host_texts(found[name])
        body_at[places] = begins[places] + _HEADS[kind].itemsize
    ends = begins + heads["size"]
    topic_at = body_at + heads["body_size"] + 1
    sound &= (heads["body_size"] >= 0) & (topic_at + 2 <= ends)
    topic_size = np.where(sound, raw[np.where(sound, topic_at - 1, 0)], 0).astype(np.int64)
    properties_at = topic_at + topic_size + 2
    sound &= properties_at <= ends
    properties_size = _gather(raw, np.where(sound, properties_at - 2, 0), ">i2").astype(np.int64)
    sound &= properties_at + properties_size == ends
    records = Records(raw, begins, heads, hosts, body_at, topic_at, topic_size, properties_at, properties_size)
    if sound.all():
        return records, None
    first = int(np.argmin(sound))
    return records.take(np.arange(first)), first


def _gather(raw: np.ndarray, at: np.ndarray, kind: Any) -> np.ndarray:
    """Return one value of a numpy type at each position."""
    kind = np.dtype(kind)
    if not len(at):
        return np.empty(0, kind)
    return np.ascontiguousarray(raw[at[:, None] + np.arange(kind.itemsize)]).view(kind).reshape(len(at))


_host_text: dict[bytes, str] = {}


def _host_texts(packed: np.ndarray) -> list[str]:
    """Format hosts, with a cache: many messages come from few hosts."""
    texts, known = [], _host_text
    for raw in packed.tolist():
        if (host := known.get(raw)) is None:
            if len(known) >= 4096:
                known.clear()
            host = known[raw] = _as_host(raw)
        texts.append(host)
    return texts


def _as_host(packed: bytes) -> str:
    (port,) = struct.unpack(">i", packed[-4:])
    if len(packed) == 8:
        return f"{'.'.join(map(str, packed[:4]))}:{port}"
    from ipaddress import ip_address  # noqa: PLC0415 - seldom met

    return f"[{ip_address(packed[:-4])}]:{port}"


_ARROW_CODECS: Final = {COMPRESSION_LZ4: "lz4", COMPRESSION_ZSTD: "zstd"}


def _decompressed(body: bytes, sys_flag: int) -> bytes:
    try:
        if sys_flag & COMPRESSED and (codec := _ARROW_CODECS.get(sys_flag & COMPRESSION_MASK)):
            with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
                plain: bytes = stream.read(MAX_INFLATED + 1)
                return plain if len(plain) <= MAX_INFLATED else body
        return decompress_body(body, sys_flag)
    except (RecordError, OSError):
        return body


def as_text(raw: pa.Array) -> pa.Array:
    """Convert UTF-8 bytes to text, with replacement characters for invalid bytes, as Java does."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "replace") for value in raw.to_pylist()], pa.string())


def property_column(text: pa.Array, name: str) -> pa.Array:
    """Return the value of one property in stored texts; null if missing or empty.

    The last one wins, as in Java.
    """
    pattern = rf"(?s)^(?:.*\x02)?{re.escape(name)}\x01(?P<value>[^\x02]+)"
    return pc.struct_field(pc.extract_regex(text, pattern), "value")


# ---- columns by the names in Spark -----------------------------------------------------------------------


def _number(name: str) -> Callable[[Records], pa.Array]:
    return lambda records: pa.array(records.heads[name])


def _instant(name: str) -> Callable[[Records], pa.Array]:
    def read(records: Records) -> pa.Array:
        return pa.array(records.heads[name] * 1000, pa.timestamp("us", tz="UTC"))

    return read


def _host(name: str) -> Callable[[Records], pa.Array]:
    return lambda records: pa.array(records.hosts[name], pa.string())


def _property(name: str) -> Callable[[Records], pa.Array]:
    return lambda records: property_column(records.properties_text, name)


def _message_ids(records: Records) -> pa.Array:
    ids = []
    for host, offset in zip(records.hosts["store_host"], records.heads["physical_offset"].tolist(), strict=True):
        address, _, port = host.rpartition(":")
        ids.append(offset_message_id(address.strip("[]"), int(port), offset))
    return pa.array(ids, pa.string())


def _real_topics(records: Records) -> pa.Array:
    """Return the final topic of a delayed or half message; null for every other record."""
    topics = RECORD_COLUMNS["topic"][1](records)
    waits = pc.is_in(topics, pa.array([SCHEDULE_TOPIC, HALF_TOPIC]))
    if not pc.any(waits).as_py():
        return pa.nulls(len(records), pa.string())
    return pc.if_else(waits, property_column(records.properties_text, PROPERTY_REAL_TOPIC), None)


def _properties(records: Records) -> pa.Array:
    pairs = [list(parse_properties(text).items()) for text in records.properties_text.to_pylist()]
    return pa.array(pairs, pa.map_(pa.string(), pa.string()))


RECORD_COLUMNS: Final[Mapping[str, tuple[str, Callable[[Records], pa.Array]]]] = {
    "topic": ("string", lambda records: as_text(records.binary(records.topic_at, records.topic_size))),
    "queueId": ("int", _number("queue_id")),
    "queueOffset": ("bigint", _number("queue_offset")),
    "commitLogOffset": ("bigint", _number("physical_offset")),
    "msgId": ("string", _message_ids),
    "uniqKey": ("string", _property(PROPERTY_UNIQ_KEY)),
    "keys": ("string", _property(PROPERTY_KEYS)),
    "tags": ("string", _property(PROPERTY_TAGS)),
    "realTopic": ("string", _real_topics),
    "properties": ("map<string,string>", _properties),
    "propertiesText": ("string", lambda records: records.properties_text),
    "body": ("binary", Records.bodies),
    "storeSize": ("int", _number("size")),
    "flag": ("int", _number("flag")),
    "sysFlag": ("int", _number("sys_flag")),
    "bodyCrc": ("int", _number("body_crc")),
    "recordCrc": ("bigint", lambda records: records.crcs()),
    "bornTimestamp": ("timestamp", _instant("born_timestamp")),
    "bornHost": ("string", _host("born_host")),
    "storeTimestamp": ("timestamp", _instant("store_timestamp")),
    "storeHost": ("string", _host("store_host")),
    "reconsumeTimes": ("int", _number("reconsume_times")),
    "preparedTransactionOffset": ("bigint", _number("prepared_transaction_offset")),
}
"""Name, Spark type, and function. `msgId` is the offset message id, `keys` are separated by spaces."""


def record_batch(records: Records, schema: pa.Schema, others: Mapping[str, Any]) -> pa.RecordBatch:
    """Return the columns of an Arrow schema; `others` are arrays, or one value for all rows."""
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
