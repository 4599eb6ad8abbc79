"""Reads the keys of records in the commit log."""

import struct
from collections.abc import Mapping
from typing import Final

import attrs

from rmqlab.remoting.message import (
    HEADS,
    IPV6_MASK,
    MESSAGE_MAGIC,
    SYS_FLAG_AT,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
)
from rmqlab.store.batches.batchruns import LEAST
from rmqlab.store.batches.uniformruns import RUN_PATIENCE, RunReader
from rmqlab.store.columns import DIGITS
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.keyindex.indexing import (
    ABOVE_0,
    PAIR_END,
    index_hashes,
    key_digits,
    topic_parts_of,
    unique_key_hash,
)
from rmqlab.store.keyindex.indexkeys import KeyCollector
from rmqlab.store.log.commitlog import physical_offset_of
from rmqlab.store.log.loglayout import ENTRY_MAGIC

# size, magic, physical offset, sysFlag, store time, body length; hosts are IPv4
_RECORD: Final = struct.Struct(">ii20xqi8x8xq8x4x8xi")
_SYS_FLAG: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">ii")  # magic and size of a DLedger entry
_PATIENCE: Final = 8  # records unlike the expected pattern, until another pattern is expected


@attrs.frozen
class _TailPattern:
    """The bytes from the topic on of records that differ only in unique key digits."""

    size: int
    head: bytes
    """The text before the digits."""
    rest: bytes
    """The text after them."""
    at: int
    end: int
    """Their position."""
    base: int
    """Index hash of the key's characters before the digits; the digits add theirs."""


@attrs.define(eq=False)
class KeyReader:
    """Reads the keys of records, with a fast path for records of one producer.

    Consecutive records usually come from few producers, each of which sets the same properties. If a record differs
    from the previous one only in the last digits of its unique key, the hash is updated instead of computed:
    h(ab) = h(a) * 31^len(b) + h(b).
    """

    _topics: dict[bytes, tuple[bytes, Mapping[int, int]]] = attrs.field(factory=dict, init=False)
    _pattern: _TailPattern | None = attrs.field(default=None, init=False)
    _misses: int = attrs.field(default=_PATIENCE, init=False)  # in a row
    _runs: RunReader = attrs.field(factory=RunReader, init=False)

    def read(self, file: LogFile, start: int, limit: int, keys: KeyCollector, lead: int = 0) -> int:
        """Add the keys of records that start in [start, limit); return the next offset.

        `start` and `limit` are commit log offsets. The caller must have dispatched these records to the queues, so they
        are whole. At bytes that are not a record, the next offset is the end of the file. `lead` is the size of the
        DLedger entry header before each record; an entry that is no message has no keys.
        """
        mapped, first, room, unpack = file.map, file.first_offset, file.size - _RECORD.size - lead, _RECORD.unpack_from
        abandoned, at, limit, add = file.first_offset + file.size, start - first, limit - first, self.add
        run_at = at if not lead else limit  # where a run of records may begin
        while at < limit:
            if at > room:
                return abandoned
            size, magic, physical, sys_flag, stored_at, body_size = unpack(mapped, at + lead)
            is_record = magic == MESSAGE_MAGIC and size > 88
            if lead:
                entry_magic, entry_size = _ENTRY.unpack_from(mapped, at)
                if not is_record or entry_size != size + lead or physical != first + at + lead:
                    if entry_magic != ENTRY_MAGIC or entry_size < lead:
                        return abandoned
                    at += entry_size  # a DLedger entry that is no message
                    continue
            elif not is_record:
                return abandoned
            if at >= run_at and limit - at >= LEAST * size:
                most = min((limit - at - 1) // size + 1, (file.wrote - at) // size)
                run = self._runs.read(mapped, at, sys_flag, body_size, most)
                if run is not None:
                    run.add_keys(keys)
                    at += run.count * size
                    continue
                run_at = at + RUN_PATIENCE * size
            at += lead
            end = at + size
            if sys_flag & IPV6_MASK:
                head = HEADS[(sys_flag & IPV6_MASK) >> 4]
                if head.size <= size:  # else the tail is empty
                    fields = head.unpack_from(mapped, at)
                    stored_at, body_size = fields[10], fields[14]
                tail = mapped[at + head.size + body_size : end]
            else:
                tail = mapped[at + 88 + body_size : end]
            at = end
            if 3 <= len(tail) <= 0x10000 and body_size >= 0:
                add(tail, sys_flag, physical, stored_at, keys)
        return first + at

    def add(self, tail: bytes, sys_flag: int, physical: int, stored_at: int, keys: KeyCollector) -> None:
        """Add the entries of one record, known by its end: from its topic on."""
        if sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
            return
        pattern = self._pattern
        if (
            pattern is not None
            and len(tail) == pattern.size
            and tail.startswith(pattern.head)
            and tail.endswith(pattern.rest)
            and (digits := tail[pattern.at : pattern.end].translate(ABOVE_0)).isalnum()
        ):
            self._misses = 0
            hashed = (pattern.base + int(digits, 31)) & 0xFFFFFFFF
            if hashed >= 0x8000_0000:  # as in `key_hash`
                hashed = (0x1_0000_0000 - hashed) & 0x7FFF_FFFF
            keys.singles.append((hashed, physical, stored_at))
        else:
            keys.singles += [(hashed, physical, stored_at) for hashed in self._hashes(tail)]

    def _hashes(self, tail: bytes) -> list[int]:
        stored_topic, text = tail[: tail[0] + 1], tail[tail[0] + 3 :]
        prefix, topic_parts = self._topics.get(stored_topic) or self._open(stored_topic)
        self._misses += 1
        if self._misses > _PATIENCE:
            self._misses, self._pattern = 0, _tail_pattern_of(tail, text, topic_parts)
        fenced = PAIR_END + text + PAIR_END
        hashed = unique_key_hash(fenced, topic_parts)
        return index_hashes(fenced, prefix) if hashed is None else [hashed]

    def _open(self, stored_topic: bytes) -> tuple[bytes, Mapping[int, int]]:
        """Return the prefix of a topic's keys, and its part of unique key hashes."""
        prefix = stored_topic[1:] + b"#"
        opened = self._topics[stored_topic] = (prefix, topic_parts_of(prefix))
        return opened


def _tail_pattern_of(tail: bytes, text: bytes, topic_parts: Mapping[int, int]) -> _TailPattern | None:
    found = key_digits(text, topic_parts)
    if found is None:
        return None
    at = len(tail) - len(text) + found.at
    return _TailPattern(len(tail), tail[:at], tail[at + DIGITS :], at, at + DIGITS, found.base)


def is_record_of(record: memoryview, offset: int, hashed: int) -> bool:
    """True if a record contains its own log offset and a key with this hash."""
    return physical_offset_of(record) == offset and hashed in _record_hashes(bytes(record))


def _record_hashes(record: bytes) -> list[int]:
    """Return the index hashes of a record; empty for bytes that are no record."""
    keys = KeyCollector()
    sys_flag: int = _SYS_FLAG.unpack_from(record, SYS_FLAG_AT)[0]
    head = HEADS[(sys_flag & IPV6_MASK) >> 4]
    if len(record) > head.size:
        fields = head.unpack_from(record)
        tail = record[head.size + fields[14] :]
        if fields[14] >= 0 and 3 <= len(tail) <= 0x10000:
            KeyReader().add(tail, sys_flag, fields[6], fields[10], keys)
    return [hashed for hashed, _, _ in keys.singles]
