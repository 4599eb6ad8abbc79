"""The records of a batch, computed by columns (section 2.8).

Message by message, each record needs a dozen steps of the interpreter. By columns, a step is one call for all records:
shared fields are packed once, and the others go through `map`.
"""

import functools
import struct
import zlib
from collections.abc import Sequence
from itertools import accumulate, chain, count, repeat
from operator import add
from typing import Final, Self

import attrs

from rmqlab.remoting.batch import Batch
from rmqlab.remoting.message import MESSAGE_MAGIC, NewMessage
from rmqlab.store.indexing import hashes_of_alike, topic_parts_of

HOSTLESS_SIZE: Final = 74  # a record without hosts, body, topic and properties, but with the latter's length
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_SIZE_AND_MAGIC: Final = struct.Struct(">ii")
_SEPARATOR: Final = b"\x02"
_SEPARATOR_CODE: Final = _SEPARATOR[0]
# sysFlag, born time, born host, store time, store host, reconsume times, prepared offset: the same in all records
_SHARED: Final = {
    (len_born, len_store): struct.Struct(f">iq{len_born}sq{len_store}siq")
    for len_born in (8, 20)
    for len_store in (8, 20)
}
# size, magic, CRC, queue id, flag, queue offset, physical offset, shared fields, body size; by the size of the shared fields
_HEADS: Final = {shared.size: struct.Struct(f">iiiiiqq{shared.size}si") for shared in _SHARED.values()}


@attrs.define(slots=True, eq=False)
class BatchRecords:
    """The records of a batch, before their offsets in the log are known."""

    batch: Batch
    stored_topic: bytes
    tails: list[bytes]
    """The text after each message's own properties in its record."""
    hashes: list[int] | None
    """Index hashes if the properties differ in unique keys' last digits only: then one size and one tag, too."""
    properties_sizes: list[int]
    body_sizes: list[int]
    sizes: list[int]

    @classmethod
    def of(cls, batch: Batch, stored_topic: bytes, shared_properties: bytes, hosts_size: int) -> Self:
        """Compute the sizes of the records.

        The batch's properties follow each message's own, with a separator if it lacks one (store-ha#17).
        """
        own, body_sizes = batch.properties, list(map(len, batch.bodies))
        tail = _tail(own[0], shared_properties) if own else b""
        hashes = hashes_of_alike(own, tail, topic_parts_of(stored_topic[1:] + b"#")) if own else None
        fixed_size = HOSTLESS_SIZE + hosts_size + len(stored_topic)
        if hashes is None:
            tails = [_tail(text, shared_properties) for text in own]
            properties_sizes = list(map(add, map(len, own), map(len, tails)))
        else:
            tails, properties_sizes = [tail] * len(own), [len(own[0]) + len(tail)] * len(own)
        sizes = [fixed_size + body + properties for body, properties in zip(body_sizes, properties_sizes, strict=True)]
        return cls(batch, stored_topic, tails, hashes, properties_sizes, body_sizes, sizes)

    def texts(self) -> list[bytes]:
        """The properties as stored."""
        return list(map(add, self.batch.properties, self.tails))

    def offsets_from(self, physical: int) -> list[int]:
        """Return the offsets of the records and of the end of the last.

        The first record is at `physical`.
        """
        return list(accumulate(self.sizes, initial=physical))

    def encode(self, message: NewMessage, shared: bytes, queue_offset: int, offsets: Sequence[int]) -> bytes:
        """The bytes of all records.

        `shared` is from `shared_fields`; `message` has the queue.
        """
        batch, sizes = self.batch, self.sizes
        checksums = [crc & 0x7FFFFFFF for crc in map(zlib.crc32, batch.bodies)]
        if self.hashes is not None and sizes.count(sizes[0]) == len(sizes):
            return self._encode_alike(message, shared, queue_offset, offsets, checksums)
        heads = map(
            _HEADS[len(shared)].pack,
            sizes, repeat(MESSAGE_MAGIC), checksums, repeat(message.queue_id), batch.flags, count(queue_offset),
            offsets, repeat(shared), self.body_sizes,
        )  # fmt: skip
        middles = {size: self.stored_topic + _SHORT.pack(size) for size in set(self.properties_sizes)}
        parts = zip(
            heads, batch.bodies, map(middles.__getitem__, self.properties_sizes), batch.properties, self.tails,
            strict=True,
        )  # fmt: skip
        return b"".join(chain.from_iterable(parts))

    def _encode_alike(
        self, message: NewMessage, shared: bytes, queue_offset: int, offsets: Sequence[int], checksums: Sequence[int]
    ) -> bytes:
        """Encode records whose parts all have the sizes of the first one's.

        That needs only one call for each record.
        """
        batch, size, tail = self.batch, self.sizes[0], self.tails[0]
        before_body = shared + _INT.pack(self.body_sizes[0])
        after_body = self.stored_topic + _SHORT.pack(self.properties_sizes[0])
        record = _record_of(len(before_body), self.body_sizes[0], len(after_body), len(batch.properties[0]), len(tail))
        records = map(
            record.pack,
            repeat(_SIZE_AND_MAGIC.pack(size, MESSAGE_MAGIC)), checksums, repeat(message.queue_id), batch.flags,
            count(queue_offset), offsets, repeat(before_body), batch.bodies, repeat(after_body), batch.properties,
            repeat(tail),
        )  # fmt: skip
        return b"".join(records)


@functools.lru_cache(256)
def _record_of(before_body: int, body: int, after_body: int, properties: int, tail: int) -> struct.Struct:
    """Return the layout of a record whose parts have these sizes.

    Size and magic together, CRC, queue id, flag, queue offset, log offset; then the parts.
    """
    return struct.Struct(f">8siiiqq{before_body}s{body}s{after_body}s{properties}s{tail}s")


def shared_fields(message: NewMessage, sys_flag: int, born: bytes, stored_at: int, store: bytes) -> bytes:
    """The part of a head that all records of a batch have in common."""
    pack = _SHARED[len(born), len(store)].pack
    return pack(sys_flag, message.born_timestamp, born, stored_at, store, message.reconsume_times, 0)


def _tail(own: bytes, shared: bytes) -> bytes:
    return _SEPARATOR + shared if own and shared and own[-1] != _SEPARATOR_CODE else shared
