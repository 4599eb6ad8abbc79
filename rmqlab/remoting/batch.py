"""The body of a batch send: consecutive messages.

Each has its own flag, body and properties.

    size        field
    i32         size of this message in bytes, including this field
    i32, i32    magic and CRC: sent as 0, ignored by the receiver
    i32         flag
    i32         body size, then the body
    i16         properties size, then the properties, as UTF-8 text

Source: store-and-ha section 2.8, broker-requests section 1.5; class MessageDecoder.
"""

import functools
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self

import attrs

from rmqlab.remoting.message import Buffer, RecordError

_ITEM: Final = struct.Struct(">iiiii")  # size, magic, CRC, flag, body size
_HEAD: Final = struct.Struct(">i8xii")
_SHORT: Final = struct.Struct(">h")
_MAX_PROPERTIES: Final = 0x7FFF  # bytes: the size is an int16


@attrs.define(slots=True)
class BatchItem:
    """One message of a batch request.

    `properties` is the UTF-8 text of this message's own properties.
    """

    body: Buffer
    properties: bytes = b""
    flag: int = 0


@attrs.define(slots=True)
class Batch:
    """The messages of a batch request as columns.

    The store processes them column by column.
    """

    bodies: list[Buffer]
    properties: list[bytes]
    flags: list[int]

    @classmethod
    def of(cls, items: Iterable[BatchItem]) -> Self:
        """Return the batch of these messages."""
        batch = cls([], [], [])
        for item in items:
            batch.bodies.append(item.body)
            batch.properties.append(item.properties)
            batch.flags.append(item.flag)
        return batch

    def __len__(self) -> int:
        return len(self.bodies)

    def __iter__(self) -> Iterator[BatchItem]:
        return map(BatchItem, self.bodies, self.properties, self.flags)


@attrs.define(slots=True, eq=False)
class ReceivedBatch:
    """The body of a batch send, decoded when its columns are needed."""

    encoded: bytes
    _decoded: Batch | None = attrs.field(default=None, init=False)

    def decoded(self) -> Batch:
        """Return the messages. RecordError as `decode_batch`."""
        if self._decoded is None:
            self._decoded = decode_batch(self.encoded)
        return self._decoded


def encode_batch(items: Sequence[BatchItem]) -> bytes:
    """Return the body of a batch send. Magic and CRC are 0."""
    pieces: list[Buffer] = []
    for item in items:
        size = _ITEM.size + len(item.body) + 2 + len(item.properties)
        pieces += (_ITEM.pack(size, 0, 0, item.flag, len(item.body)), item.body)
        pieces += (_SHORT.pack(len(item.properties)), item.properties)
    return b"".join(pieces)


def decode_batch(body: bytes) -> Batch:
    """Parse the body of a batch send. RecordError if lengths are inconsistent."""
    return _decode_uniform(body) or _decode_each(body)


def _decode_uniform(body: bytes) -> Batch | None:
    """Parse messages whose bodies have one size, and whose properties have one size.

    None for any others, also for invalid ones. Most batches of one producer are like that, and this costs a third.
    """
    if len(body) < _ITEM.size + _SHORT.size:
        return None
    size, _, body_size = _HEAD.unpack_from(body)
    properties_size = size - _ITEM.size - _SHORT.size - body_size
    if body_size < 0 or not 0 <= properties_size <= _MAX_PROPERTIES or len(body) % size:
        return None
    sizes, flags, body_sizes, bodies, properties_sizes, properties = zip(
        *_item_of(body_size, properties_size).iter_unpack(body), strict=True
    )
    count = len(bodies)
    if (sizes.count(size), body_sizes.count(body_size), properties_sizes.count(properties_size)) != (count,) * 3:
        return None
    return Batch(list(bodies), list(properties), list(flags))


@functools.lru_cache(256)
def _item_of(body_size: int, properties_size: int) -> struct.Struct:
    return struct.Struct(f"{_HEAD.format}{body_size}sh{properties_size}s")


def _decode_each(body: bytes) -> Batch:
    batch = Batch([], [], [])
    add_body, add_properties, add_flag = batch.bodies.append, batch.properties.append, batch.flags.append
    unpack_head, unpack_short, at, whole = _HEAD.unpack_from, _SHORT.unpack_from, 0, len(body)
    try:
        while at < whole:
            size, flag, body_size = unpack_head(body, at)
            properties_at = at + 22 + body_size
            (properties_size,) = unpack_short(body, properties_at - 2)
            end = properties_at + properties_size
            if body_size < 0 or properties_size < 0 or end != at + size or end > whole:
                raise RecordError(f"batch item at {at} has a size field of {size} bytes, but its parts have {end - at}")
            add_body(body[at + 20 : properties_at - 2])
            add_properties(body[properties_at:end])
            add_flag(flag)
            at = end
    except struct.error:
        raise RecordError(f"batch item at {at} is truncated") from None
    return batch
