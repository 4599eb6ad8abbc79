"""Reads runs of uniform records from the commit log, by columns.

Consecutive records of one producer mostly have the same size, topic and properties, except for the last digits of the
unique key. Dispatching one record takes a dozen bytecode-level steps. For a run of uniform records, each step is one
call for the whole run.
"""

import functools
import mmap
import struct
from array import array
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Final

import attrs

from rmqlab.remoting.message import IPV4_HEAD_SIZE, IPV6_MASK, TRANSACTION_PREPARED
from rmqlab.remoting.names import SCHEDULE_TOPIC
from rmqlab.store.batches.batchruns import LEAST, LEAST_OF_BATCH, BatchRun, BatchRunReader, RecordShape
from rmqlab.store.columns import DIGITS
from rmqlab.store.keyindex.indexing import hash_column, key_digits, topic_parts_of
from rmqlab.store.keyindex.indexkeys import IndexKeys, KeyCollector
from rmqlab.store.queue.consumequeue import ENTRY
from rmqlab.store.tagscodes import tags_code_in

RUN_PATIENCE: Final = 32
"""After a record that starts no run, the number of records before the next attempt."""
_MOST: Final = 512
# size and magic, queue id, queue offset, physical offset, sysFlag, store time, body length
_HEAD: Final = ">8s4xi4xqq4s8x8xq8x4x8x4s"
_SCHEDULE_TOPIC: Final = SCHEDULE_TOPIC.encode()
_SEPARATOR: Final = b"\x02"


@attrs.frozen
class UniformRun:
    """Consecutive records of the same topic and size, by columns."""

    size: int
    topic: bytes
    tags_code: int
    queue_ids: Sequence[int]
    queue_offsets: Sequence[int]
    physicals: Sequence[int]
    times: Sequence[int]
    digits: Sequence[bytes]
    base: int

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self.times)

    @property
    def first_physical(self) -> int:
        """Log offset of the first record."""
        return self.physicals[0]

    @property
    def last_stored_at(self) -> int:
        """Store time of the last record, in ms."""
        return self.times[-1]

    def add_keys(self, keys: KeyCollector) -> None:
        """Add the index entries: each record has one key."""
        hashes = hash_column(b"".join(self.digits), self.base)
        if len(hashes) < LEAST_OF_BATCH:
            keys.singles += zip(hashes, self.physicals, self.times, strict=True)
        else:
            keys.add_run(IndexKeys(hashes, array("q", self.physicals), array("q", self.times)))

    def events(self) -> Iterator[tuple[int, int, Sequence[int], int]]:
        """Yield the events for the dispatch observer.

        Each is queue id, queue offset, tags codes and store time.
        """
        return zip(self.queue_ids, self.queue_offsets, repeat((self.tags_code,)), self.times)

    def by_queue(self) -> dict[int, tuple[int, bytes]] | None:
        """Return the first queue offset and the entries, by queue id.

        None if the queue offsets of one queue are not consecutive.
        """
        entries = list(map(ENTRY.pack, self.physicals, repeat(self.size), repeat(self.tags_code)))
        first, ids, offsets = self.queue_offsets[0], self.queue_ids, self.queue_offsets
        if ids.count(ids[0]) == len(ids):
            is_in_order = offsets == tuple(range(first, first + len(ids)))
            return {ids[0]: (first, b"".join(entries))} if is_in_order else None
        groups: dict[int, tuple[int, list[bytes]]] = {}
        for queue_id, queue_offset, entry in zip(ids, offsets, entries, strict=True):
            group = groups.get(queue_id)
            if group is None:
                groups[queue_id] = (queue_offset, [entry])
            elif group[0] + len(group[1]) == queue_offset:
                group[1].append(entry)
            else:
                return None
        return {queue_id: (first, b"".join(group)) for queue_id, (first, group) in groups.items()}


@attrs.define(eq=False)
class RunReader:
    """Finds runs of uniform records. Caches the common bytes of the last run."""

    _shape: RecordShape | None = attrs.field(default=None, init=False)
    _batches: BatchRunReader = attrs.field(factory=BatchRunReader, init=False)

    def read(
        self, mapped: mmap.mmap | bytearray, at: int, sys_flag: int, body_size: int, most: int
    ) -> UniformRun | BatchRun | None:
        """Return the run that begins with the record at a position.

        None if fewer than LEAST of the next `most` records are uniform. The caller must have checked the size and
        magic of the first record, and that `most` records of this size are written.
        """
        if sys_flag & (IPV6_MASK | TRANSACTION_PREPARED) or body_size < 0:
            return None
        size = int.from_bytes(mapped[at : at + 4], "big")
        shape = self._shape_of(bytes(mapped[at + IPV4_HEAD_SIZE + body_size : at + size]), body_size)
        if shape is None:
            return None
        count = min(most, _MOST)
        batch = self._batches.read(mapped, at, size, shape, count)
        if batch is not None:
            return batch
        layout = _layout(body_size, len(shape.head), len(shape.rest))
        with memoryview(mapped) as whole, whole[at : at + count * size] as view:
            columns = zip(*layout.iter_unpack(view), strict=True)
        marks, queue_ids, queue_offsets, physicals, flags, times, body_sizes, heads, digits, rests = columns
        fixed = (marks, flags, body_sizes, heads, rests)
        if any(column.count(column[0]) != count for column in fixed):
            count = next(n for n, parts in enumerate(zip(*fixed, strict=True)) if parts != tuple(c[0] for c in fixed))
        first = physicals[0]
        if (
            count < LEAST
            or not b"".join(digits[:count]).isalnum()
            or physicals[:count] != tuple(range(first, first + count * size, size))
        ):
            return None
        return UniformRun(
            size, shape.topic, shape.tags_code, queue_ids[:count], queue_offsets[:count], physicals[:count],
            times[:count], digits[:count], shape.base,
        )  # fmt: skip

    def _shape_of(self, tail: bytes, body_size: int) -> RecordShape | None:
        shape = self._shape
        is_known = (
            shape is not None
            and shape.body_size == body_size
            and len(tail) == len(shape.head) + DIGITS + len(shape.rest)
            and tail.startswith(shape.head)
            and tail.endswith(shape.rest)
        )
        if not is_known:
            shape = _find_shape(tail, body_size)
            self._shape = shape or self._shape
        return shape


def _find_shape(tail: bytes, body_size: int) -> RecordShape | None:
    """Return the shape of a record whose only key is a client's unique key; else None."""
    if not 3 <= len(tail) <= 0x10000:
        return None
    topic, text = tail[1 : tail[0] + 1], tail[tail[0] + 3 :]
    found = key_digits(text, topic_parts_of(topic + b"#"))
    if found is None or topic == _SCHEDULE_TOPIC:
        return None
    at = len(tail) - len(text) + found.at
    tags_code = tags_code_in(_SEPARATOR + text + _SEPARATOR)
    return RecordShape(body_size, tail[:at], tail[at + DIGITS :], found.base, topic, tags_code)


@functools.lru_cache(64)
def _layout(body_size: int, head: int, rest: int) -> struct.Struct:
    return struct.Struct(f"{_HEAD}{body_size}x{head}s{DIGITS}s{rest}s")
