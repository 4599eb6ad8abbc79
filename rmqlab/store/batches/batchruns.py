"""Runs of records of one batch, read from the commit log at once.

Such records have one store time and successive queue offsets. `RecordShape` and the first record predict all bytes but
bodies, checksums and the last digits of unique keys; the prediction is compared with the log (see
`rmqlab.store.batches.uniformbatch`, which writes such records).
"""

import mmap
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from rmqlab.remoting.message import CRC_AT, IPV4_HEAD_SIZE, PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT
from rmqlab.store.columns import MOST, Digits, Steps, bodies_of, differing_digits
from rmqlab.store.keyindex.indexing import hash_column
from rmqlab.store.keyindex.indexkeys import IndexKeys, KeyCollector
from rmqlab.store.queue.consumequeue import ENTRY

LEAST: Final = 20
"""Minimum length of a run: shorter ones are faster record by record.

Runs are faster from 11 records on in one queue, from 18 on in 4 queues, and from 30 on in 16 queues."""
LEAST_OF_BATCH: Final = 48
"""Minimum length of a run of one batch: shorter ones are faster as a `UniformRun`."""
_PLACE: Final = struct.Struct(">8s4xi4xqq20xq")  # size and magic, queue id, queue offset, physical offset, store time


@attrs.frozen
class RecordShape:
    """Bytes of a record from its topic on, without the digits that differ."""

    body_size: int
    head: bytes
    """The bytes before the digits."""
    rest: bytes
    """The bytes after the digits."""
    base: int
    """Index hash of the key's characters before the digits; the digits add theirs."""
    topic: bytes
    tags_code: int


@attrs.define(eq=False)
class BatchRun:
    """Consecutive records of one queue, one size and one store time.

    As `rmqlab.store.batches.uniformruns.UniformRun`.
    """

    count: int
    size: int
    queue_id: int
    queue_offset: int
    first_physical: int
    last_stored_at: int
    _physicals: Steps
    _digits: Digits
    _shape: RecordShape

    @property
    def topic(self) -> bytes:
        """Their topic."""
        return self._shape.topic

    def add_keys(self, keys: KeyCollector) -> None:
        """Add the index entries: each record has one key."""
        hashes = hash_column(self._digits.joined(self.count), self._shape.base)
        keys.add_run(IndexKeys.of_one_time(hashes, self._physicals.raw, self.last_stored_at))

    def events(self) -> Iterator[tuple[int, int, Sequence[int], int]]:
        """Yield the events for the dispatch observer, as `UniformRun.events`."""
        yield self.queue_id, self.queue_offset, [self._shape.tags_code] * self.count, self.last_stored_at

    def by_queue(self) -> dict[int, tuple[int, bytes]]:
        """Return first queue offset and entries, by queue id."""
        entries = bytearray(ENTRY.pack(self.first_physical, self.size, self._shape.tags_code) * self.count)
        self._physicals.write(entries, 0, ENTRY.size)
        return {self.queue_id: (self.queue_offset, bytes(entries))}


@attrs.define(eq=False)
class BatchRunReader:
    """Finds runs of one batch. Starts with the length of the last run."""

    _last_count: int = attrs.field(default=LEAST_OF_BATCH, init=False)

    def read(self, mapped: mmap.mmap | bytearray, at: int, size: int, shape: RecordShape, most: int) -> BatchRun | None:
        """Return the run that begins with the record at a position.

        It has at most `most` records. None if fewer than LEAST_OF_BATCH are a run. The bytes of all must be there.
        """
        most = min(most, MOST)
        if most < LEAST_OF_BATCH:
            return None
        mark, queue_id, queue_offset, physical, stored_at = _PLACE.unpack_from(mapped, at)

        def has_ended(number: int) -> bool:
            expected = mark, queue_id, queue_offset + number, physical + number * size, stored_at
            return bool(_PLACE.unpack_from(mapped, at + number * size) != expected)

        if queue_offset < 0 or physical < 0 or has_ended(LEAST_OF_BATCH - 1):
            return None
        count = self._last_count
        if count > most or has_ended(count - 1) or (count < most and not has_ended(count)):
            count = bisect_left(range(most), 1, LEAST_OF_BATCH, key=has_ended)
        self._last_count = count

        raw = bytes(mapped[at : at + count * size])
        tail_at = IPV4_HEAD_SIZE + shape.body_size
        digits_at = tail_at + len(shape.head)
        digits = Digits.of(raw, digits_at, size, differing_digits(raw, digits_at, size))
        physicals = Steps.of(physical, size, count)
        between = bytearray(raw[tail_at:size] + raw[:IPV4_HEAD_SIZE])
        again = between.join((b"", *bodies_of(raw, IPV4_HEAD_SIZE, shape.body_size, size), b""))
        start = len(between) - IPV4_HEAD_SIZE
        end = start + (count - 1) * size + 1
        for place in range(CRC_AT, CRC_AT + 4):
            again[start + place : end + place : size] = raw[place::size]
        Steps.of(queue_offset, 1, count).write(again, start + QUEUE_OFFSET_AT, size)
        physicals.write(again, start + PHYSICAL_OFFSET_AT, size)
        digits.write(again, start + digits_at, size)
        if not again.startswith(raw, start) or not digits.are_alphanumeric:
            return None
        return BatchRun(count, size, queue_id, queue_offset, physical, stored_at, physicals, digits, shape)
