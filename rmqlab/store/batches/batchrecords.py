"""Encodes the messages of a batch into records, by columns (section 2.8).

Encoding one record takes a dozen bytecode-level steps. By columns, each step is one call for all records: shared fields
are packed once, and the others with `map`.
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
from rmqlab.store.keyindex.indexing import hashes_of_uniform, index_hashes, topic_parts_of, unique_key_hash
from rmqlab.store.keyindex.indexkeys import IndexEntry, IndexKeys
from rmqlab.store.queue.consumequeue import ENTRY
from rmqlab.store.tagscodes import tags_code_in

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
# By the size of the shared fields: size, magic, CRC, queue id, flag, queue offset, physical offset, shared fields, body
# size.
BATCH_HEADS: Final = {shared.size: struct.Struct(f">iiiiiqq{shared.size}si") for shared in _SHARED.values()}


@attrs.define(slots=True, eq=False)
class BatchRecords:
    """The records of a batch, before their offsets in the log are known."""

    batch: Batch
    stored_topic: bytes
    tails: list[bytes]
    """Properties of the batch, appended to each message's own properties."""
    hashes: list[int] | None
    """Index hashes, if the properties differ only in the last digits of unique keys. Then size and tags are equal."""
    properties_sizes: list[int]
    body_sizes: list[int]
    sizes: list[int]

    @classmethod
    def of(cls, batch: Batch, stored_topic: bytes, shared_properties: bytes, hosts_size: int) -> Self:
        """Compute the sizes of the records.

        The batch's properties follow each message's own, with a separator if it lacks one (store-ha#17).
        """
        own, body_sizes = batch.properties, list(map(len, batch.bodies))
        tail = properties_tail(own[0], shared_properties) if own else b""
        hashes = hashes_of_uniform(own, tail, topic_parts_of(stored_topic[1:] + b"#")) if own else None
        fixed_size = HOSTLESS_SIZE + hosts_size + len(stored_topic)
        if hashes is None:
            tails = [properties_tail(text, shared_properties) for text in own]
            properties_sizes = list(map(add, map(len, own), map(len, tails)))
        else:
            tails, properties_sizes = [tail] * len(own), [len(own[0]) + len(tail)] * len(own)
        sizes = [fixed_size + body + properties for body, properties in zip(body_sizes, properties_sizes, strict=True)]
        return cls(batch, stored_topic, tails, hashes, properties_sizes, body_sizes, sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def total(self) -> int:
        """Bytes of all records."""
        return sum(self.sizes)

    @property
    def largest_body(self) -> int:
        """Bytes of the largest body."""
        return max(self.body_sizes, default=0)

    @property
    def largest_properties(self) -> int:
        """Bytes of the largest properties."""
        return max(self.properties_sizes, default=0)

    def texts(self) -> list[bytes]:
        """The properties as stored."""
        return list(map(add, self.batch.properties, self.tails))

    def offsets_from(self, physical: int) -> Sequence[int]:
        """Return the offsets of the records. The first record is at `physical`."""
        return list(accumulate(self.sizes[:-1], initial=physical))

    def encode(self, message: NewMessage, shared: bytes, queue_offset: int, offsets: Sequence[int]) -> memoryview:
        """Return the bytes of all records.

        `shared` is the result of `shared_fields`; `message` has the queue id.
        """
        batch, sizes = self.batch, self.sizes
        checksums = [crc & 0x7FFFFFFF for crc in map(zlib.crc32, batch.bodies)]
        heads = map(
            BATCH_HEADS[len(shared)].pack,
            sizes, repeat(MESSAGE_MAGIC), checksums, repeat(message.queue_id), batch.flags, count(queue_offset),
            offsets, repeat(shared), self.body_sizes,
        )  # fmt: skip
        middles = {size: self.stored_topic + _SHORT.pack(size) for size in set(self.properties_sizes)}
        parts = zip(
            heads, batch.bodies, map(middles.__getitem__, self.properties_sizes), batch.properties, self.tails,
            strict=True,
        )  # fmt: skip
        return memoryview(b"".join(chain.from_iterable(parts)))

    def queue_entries(self, offsets: Sequence[int]) -> bytes:
        """Return the entries of the records in their queue."""
        return b"".join(map(ENTRY.pack, offsets, self.sizes, self.tags_codes()))

    def tags_codes(self) -> list[int]:
        """Return a tags code for each record."""
        texts = self.texts() if self.hashes is None else [self.batch.properties[0] + self.tails[0]]
        codes = [tags_code_in(_SEPARATOR + text + _SEPARATOR) for text in texts]
        return codes if self.hashes is None else codes * len(self)

    def index_keys(self, offsets: Sequence[int], stored_at: int) -> IndexKeys:
        """Return the index entries of the records."""
        if self.hashes is not None:
            return IndexKeys.of(list(zip(self.hashes, offsets, repeat(stored_at))))
        prefix, keys = self.stored_topic[1:] + b"#", list[IndexEntry]()
        topic_parts = topic_parts_of(prefix)
        for text, physical in zip(self.texts(), offsets, strict=True):
            fenced = _SEPARATOR + text + _SEPARATOR
            hashed = unique_key_hash(fenced, topic_parts)
            several = index_hashes(fenced, prefix) if hashed is None else (hashed,)
            keys += [(one, physical, stored_at) for one in several]
        return IndexKeys.of(keys)


def shared_fields(message: NewMessage, sys_flag: int, born: bytes, stored_at: int, store: bytes) -> bytes:
    """Return the part of the record header that is equal in all records of a batch."""
    pack = _SHARED[len(born), len(store)].pack
    return pack(sys_flag, message.born_timestamp, born, stored_at, store, message.reconsume_times, 0)


def properties_tail(own: bytes, shared: bytes) -> bytes:
    return _SEPARATOR + shared if own and shared and own[-1] != _SEPARATOR_CODE else shared
