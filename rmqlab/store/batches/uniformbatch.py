"""Encodes a batch of uniform messages into records, all at once.

Messages are uniform if they differ only in their bodies and in the last digits of their unique keys. Most batches of
one producer are. `bytes.join` writes the common bytes between the bodies; numbers and digits are written as columns
(see `rmqlab.store.columns`). A received batch is uniform if encoding its bodies and digits again reproduces its bytes.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import Final

import attrs

from rmqlab.remoting.message import CRC_AT, MESSAGE_MAGIC, PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT, NewMessage
from rmqlab.store.batches.batchrecords import BATCH_HEADS, HOSTLESS_SIZE, properties_tail
from rmqlab.store.columns import DIGITS, MOST, Digits, Steps, big_endian, bodies_of, differing_digits
from rmqlab.store.keyindex.indexing import hash_column, key_digits, topic_parts_of
from rmqlab.store.keyindex.indexkeys import IndexKeys
from rmqlab.store.queue.consumequeue import ENTRY
from rmqlab.store.tagscodes import tags_code_in

_ITEM_HEAD: Final = struct.Struct(">iiiii")  # size, magic, CRC, flag, body size
_SHORT: Final = struct.Struct(">h")
_MAX_TEXT: Final = 32767
_MAX_SHAPES: Final = 256
_LOW_7_BITS: Final = bytes(byte & 0x7F for byte in range(256))


@attrs.frozen
class _Shape:
    """The common bytes of uniform messages, as received and as stored."""

    item_size: int
    head: bytes
    """Bytes of a received message before its body."""
    before: bytes
    """Bytes of a received message between its body and the digits."""
    after: bytes
    """Bytes of a received message after the digits."""
    body_size: int
    flag: int
    stored_before: bytes
    """Bytes of a record between its body and the digits."""
    stored_after: bytes
    properties_size: int
    base: int
    """Index hash of the key's characters before the digits; the digits add theirs."""
    tags_code: int

    def parts_of(self, encoded: bytes) -> tuple[tuple[bytes, ...], Digits] | None:
        """Return the bodies and the digits of a batch.

        None if its messages do not have this shape.
        """
        size, count = self.item_size, len(encoded) // self.item_size
        if count > MOST or count * size != len(encoded):
            return None
        at = len(self.head) + self.body_size + len(self.before)
        bodies = bodies_of(encoded, len(self.head), self.body_size, size)
        for count in (differing_digits(encoded, at, size), DIGITS):
            digits = Digits.of(encoded, at, size, count)
            between = bytearray(self.before + digits.first + self.after + self.head)
            start = len(between) - len(self.head)
            again = between.join((b"", *bodies, b""))
            digits.write(again, start + at, size)
            if again.startswith(encoded, start):
                return bodies, digits
        return None


@attrs.define(eq=False)
class UniformRecords:
    """Records of a uniform batch, with the interface of `batchrecords.BatchRecords`."""

    stored_topic: bytes
    size: int
    """Bytes of each record."""
    bodies: tuple[bytes, ...]
    digits: Digits
    _shape: _Shape
    _physicals: Steps = attrs.field(init=False)

    def __len__(self) -> int:
        return len(self.bodies)

    @property
    def total(self) -> int:
        """Bytes of all records."""
        return self.size * len(self.bodies)

    @property
    def largest_body(self) -> int:
        """Bytes of the largest body."""
        return self._shape.body_size

    @property
    def largest_properties(self) -> int:
        """Bytes of the largest properties."""
        return self._shape.properties_size

    def offsets_from(self, physical: int) -> Sequence[int]:
        """Return the offsets of the records. The first record is at `physical`."""
        self._physicals = Steps.of(physical, self.size, len(self.bodies))
        return range(physical, physical + self.total, self.size)

    def encode(self, message: NewMessage, shared: bytes, queue_offset: int, offsets: Sequence[int]) -> memoryview:
        """Return the bytes of all records. Takes the arguments of `BatchRecords.encode`."""
        shape, size, count = self._shape, self.size, len(self.bodies)
        head = BATCH_HEADS[len(shared)].pack(
            size, MESSAGE_MAGIC, 0, message.queue_id, shape.flag, queue_offset, offsets[0], shared, shape.body_size
        )
        after = shape.stored_before + self.digits.first + shape.stored_after
        out, start = bytearray(after + head).join((b"", *self.bodies, b"")), len(after)
        end = start + (count - 1) * size + 1
        checksums = big_endian("I", map(zlib.crc32, self.bodies)).tobytes()
        out[start + CRC_AT : end + CRC_AT : size] = checksums[0::4].translate(_LOW_7_BITS)
        for place in (1, 2, 3):
            out[start + CRC_AT + place : end + CRC_AT + place : size] = checksums[place::4]
        Steps.of(queue_offset, 1, count).write(out, start + QUEUE_OFFSET_AT, size)
        self._physicals.write(out, start + PHYSICAL_OFFSET_AT, size)
        self.digits.write(out, start + len(head) + shape.body_size + len(shape.stored_before), size)
        return memoryview(out)[start : start + size * count]

    def queue_entries(self, offsets: Sequence[int]) -> bytes:
        """Return the entries of the records in their queue."""
        out = bytearray(ENTRY.pack(offsets[0], self.size, self._shape.tags_code) * len(self.bodies))
        self._physicals.write(out, 0, ENTRY.size)
        return bytes(out)

    def tags_codes(self) -> list[int]:
        """Return a tags code for each record."""
        return [self._shape.tags_code] * len(self.bodies)

    def index_keys(self, _offsets: Sequence[int], stored_at: int) -> IndexKeys:
        """Return the index entries of the records."""
        hashes = hash_column(self.digits.joined(len(self.bodies)), self._shape.base)
        return IndexKeys.of_one_time(hashes, self._physicals.raw, stored_at)


@attrs.define(eq=False)
class UniformBatchReader:
    """Recognizes uniform batches. Caches the common bytes of each producer's messages."""

    _shapes: dict[tuple[bytes, bytes, bytes], _Shape] = attrs.field(factory=dict, init=False)

    def read(
        self, encoded: bytes, stored_topic: bytes, shared_properties: bytes, hosts_size: int
    ) -> UniformRecords | None:
        """Return the records of a received batch; None unless it is uniform.

        Takes the arguments of `BatchRecords.of`.
        """
        key = (encoded[: _ITEM_HEAD.size], stored_topic, shared_properties)
        shape = self._shapes.get(key)
        found = shape.parts_of(encoded) if shape is not None else None
        if found is None:
            shape = _shape_of(encoded, stored_topic, shared_properties)
            found = shape.parts_of(encoded) if shape is not None else None
            if shape is None or found is None:
                return None
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            self._shapes[key] = shape
        if shape is None or not found[1].are_alphanumeric:
            return None
        size = HOSTLESS_SIZE + hosts_size + shape.body_size + len(stored_topic) + shape.properties_size
        return UniformRecords(stored_topic, size, *found, shape)


def _shape_of(encoded: bytes, stored_topic: bytes, shared_properties: bytes) -> _Shape | None:
    """Return the shape of the first message.

    None if its only key is not a client's unique key.
    """
    if len(encoded) < _ITEM_HEAD.size:
        return None
    item_size, _, _, flag, body_size = _ITEM_HEAD.unpack_from(encoded)
    text_at = _ITEM_HEAD.size + body_size + _SHORT.size
    if body_size < 0 or not text_at + DIGITS <= item_size <= len(encoded) or len(encoded) % item_size:
        return None
    text = encoded[text_at:item_size]
    if _SHORT.unpack_from(encoded, text_at - _SHORT.size)[0] != len(text):
        return None
    tail = properties_tail(text, shared_properties)
    found, properties_size = key_digits(text + tail, topic_parts_of(stored_topic[1:] + b"#")), len(text) + len(tail)
    if found is None or found.at + DIGITS > len(text) or properties_size > _MAX_TEXT:
        return None
    before, after = text[: found.at], text[found.at + DIGITS :]
    return _Shape(
        item_size, encoded[: _ITEM_HEAD.size], encoded[text_at - _SHORT.size : text_at] + before, after, body_size,
        flag, stored_topic + _SHORT.pack(properties_size) + before, after + tail, properties_size, found.base,
        tags_code_in(b"\x02" + text + tail + b"\x02"),
    )  # fmt: skip
