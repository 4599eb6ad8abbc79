"""The records of a batch, computed by columns (section 2.8).

Message by message, each record needs a dozen steps of the interpreter. By columns, a step is one call for all records:
shared fields are packed once, and the others go through `map`.
"""

import struct
import zlib
from collections.abc import Sequence
from itertools import accumulate, chain, count, repeat
from operator import add
from typing import Final, Self

import attrs

from rmqlab.remoting.batch import Batch
from rmqlab.remoting.message import MESSAGE_MAGIC, NewMessage

HOSTLESS_SIZE: Final = 74  # a record without hosts, body, topic and properties, but with the latter's length
_SHORT: Final = struct.Struct(">h")
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
    properties_sizes: list[int]
    body_sizes: list[int]
    sizes: list[int]

    @classmethod
    def of(cls, batch: Batch, stored_topic: bytes, shared_properties: bytes, hosts_size: int) -> Self:
        """Compute the sizes of the records.

        The batch's properties follow each message's own, with a separator if it lacks one (store-ha#17).
        """
        tails = _tails(batch.properties, shared_properties)
        properties_sizes = list(map(add, map(len, batch.properties), map(len, tails)))
        body_sizes = list(map(len, batch.bodies))
        fixed_size = HOSTLESS_SIZE + hosts_size + len(stored_topic)
        sizes = [fixed_size + body + properties for body, properties in zip(body_sizes, properties_sizes, strict=True)]
        return cls(batch, stored_topic, tails, properties_sizes, body_sizes, sizes)

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
        heads = map(
            _HEADS[len(shared)].pack,
            self.sizes, repeat(MESSAGE_MAGIC), [crc & 0x7FFFFFFF for crc in map(zlib.crc32, self.batch.bodies)],
            repeat(message.queue_id), self.batch.flags, count(queue_offset), offsets, repeat(shared), self.body_sizes,
        )  # fmt: skip
        middles = {size: self.stored_topic + _SHORT.pack(size) for size in set(self.properties_sizes)}
        parts = zip(
            heads, self.batch.bodies, map(middles.__getitem__, self.properties_sizes), self.batch.properties, self.tails,
            strict=True,
        )  # fmt: skip
        return b"".join(chain.from_iterable(parts))


def shared_fields(message: NewMessage, sys_flag: int, born: bytes, stored_at: int, store: bytes) -> bytes:
    """The part of a head that all records of a batch have in common."""
    pack = _SHARED[len(born), len(store)].pack
    return pack(sys_flag, message.born_timestamp, born, stored_at, store, message.reconsume_times, 0)


def _tails(properties: Sequence[bytes], shared: bytes) -> list[bytes]:
    if not shared:
        return [b""] * len(properties)
    separated = _SEPARATOR + shared
    return [separated if own and own[-1] != _SEPARATOR_CODE else shared for own in properties]
