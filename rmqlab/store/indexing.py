"""Index hashes of a record: its unique key and each of its keys (section 3.3)."""

import functools
import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import attrs

from rmqlab.remoting.message import (
    HEADS,
    IPV6_MASK,
    MESSAGE_MAGIC,
    SYS_FLAG_AT,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
    java_hash,
)
from rmqlab.store.commitlog import physical_offset_of
from rmqlab.store.index import IndexEntry, key_hash
from rmqlab.store.logfile import LogFile

# size, magic, physical offset, sysFlag, store time, body length; hosts are IPv4
_RECORD: Final = struct.Struct(">ii20xqi8x8xq8x4x8xi")
_SYS_FLAG: Final = struct.Struct(">i")
DIGITS: Final = 8  # of a unique key, that differ within a minute: half of its time, and its counter
_UNIQUE_KEY_SIZES: Final = (32, 56)  # as clients make them: IPv4 or IPv6, process, class loader, time, counter, in hex

# Masks for a number of so many lanes of 64 bits.
_LANES: Final = 512
_ONES: Final = sum(1 << 64 * lane for lane in range(_LANES))
_LOW_8: Final = 0x00FF_00FF_00FF_00FF * _ONES
_LOW_16: Final = 0x0000_FFFF_0000_FFFF * _ONES
_LOW_32: Final = 0x0000_0000_FFFF_FFFF * _ONES
_ZEROS: Final = sum(48 * 31**i for i in range(DIGITS))  # a base contains the digits as if they were "0"

_PATIENCE: Final = 8  # records unlike the expected pattern, until another pattern is expected
_PAIR_END: Final = b"\x02"

# Hex digits are less than 31 apart from "0": with "0" taken off, a unique key is a number that int() reads in
# base 31. Other characters become one that int() refuses.
_ABOVE_0: Final = bytes(
    b"0123456789abcdefghijklmnopqrstu"[c - 48] if 48 <= c < 79 else ord("~") for c in range(256)
)  # fmt: skip


def index_hashes(text: bytes, prefix: bytes) -> list[int]:
    """Of UNIQ_KEY, then of each of the KEYS (store-ha#24).

    `text` has separators around it, `prefix` is `topic#`.
    """
    found = text.rfind(b"\x02UNIQ_KEY\x01") + 10
    hashes = [key_hash(prefix + text[found : text.index(b"\x02", found)])] if found >= 10 else []
    found = text.rfind(b"\x02KEYS\x01") + 6
    if found >= 6:
        hashes += [key_hash(prefix + key) for key in text[found : text.index(b"\x02", found)].split(b" ") if key]
    return hashes


def unique_key_hash(text: bytes, topic_parts: Mapping[int, int]) -> int | None:
    """Return the hash of properties whose only key is a client's unique key.

    None for any others. `text` has separators around it. `topic_parts` are those of its topic.
    """
    at = text.rfind(b"\x02UNIQ_KEY\x01") + 10
    end = text.find(_PAIR_END, at)
    topic_part = topic_parts.get(end - at)
    if at < 10 or topic_part is None or text.find(b"\x02KEYS\x01") >= 0:
        return None
    try:
        hashed = (topic_part + int(text[at:end].translate(_ABOVE_0), 31)) & 0xFFFFFFFF
    except ValueError:
        return None
    if hashed < 0x8000_0000:
        return hashed
    return 0x1_0000_0000 - hashed if hashed > 0x8000_0000 else 0  # as in `key_hash`


def hashes_of_alike(texts: Sequence[bytes], tail: bytes, topic_parts: Mapping[int, int]) -> list[int] | None:
    """Return one hash for each text, if they differ only in unique keys' last digits.

    Otherwise None. Most batches of one producer are like that: the shared part is hashed once. `tail` is the text after
    each; there are no separators around them.
    """
    first = texts[0]
    found = key_digits(first + tail, topic_parts)
    if found is None or found.at + DIGITS > len(first):
        return None
    head, rest = first[: found.at], first[found.at + DIGITS :]
    # Texts of one size, cut where each ends and the next begins, must leave eight characters each.
    pieces = (rest + b"".join(texts) + head).split(rest + head)
    digits = b"".join(pieces)
    sizes, kept = set(map(len, texts)), set(map(len, pieces[1:-1]))
    if len(pieces) != len(texts) + 2 or sizes != {len(first)} or kept != {DIGITS} or not digits.isalnum():
        return None
    return hashes_of_digits(digits, found.base)


def hashes_of_digits(digits: bytes, base: int) -> list[int]:
    """Return the index hashes of keys by their last eight digits, joined.

    `base` is the hash contribution of all before them. A number of 64-bit lanes holds many keys: three steps of its
    arithmetic make one hash of each lane's eight characters.
    """
    hashes: list[int] = []
    for start in range(0, len(digits), DIGITS * _LANES):
        part = digits[start : start + DIGITS * _LANES]
        count = len(part) // DIGITS
        lanes = int.from_bytes(part, "little")
        lanes = (lanes & _LOW_8) * 31 + (lanes >> 8 & _LOW_8)
        lanes = (lanes & _LOW_16) * 31**2 + (lanes >> 16 & _LOW_16)
        lanes = (lanes & _LOW_32) * 31**4 + (lanes >> 32 & _LOW_32)
        lanes += ((base - _ZEROS) & 0xFFFFFFFF) * (_ONES >> 64 * (_LANES - count))
        signed = struct.unpack(f"<{'i4x' * count}", lanes.to_bytes(len(part), "little"))
        hashes += [abs(hashed) & 0x7FFF_FFFF for hashed in signed]  # as in `key_hash`
    return hashes


def is_record_of(record: memoryview, offset: int, hashed: int) -> bool:
    """True if a record contains its own log offset and a key with this hash."""
    return physical_offset_of(record) == offset and hashed in _record_hashes(bytes(record))


def _record_hashes(record: bytes) -> list[int]:
    """Return the index hashes of a record; empty for bytes that are no record."""
    entries: list[IndexEntry] = []
    sys_flag: int = _SYS_FLAG.unpack_from(record, SYS_FLAG_AT)[0]
    head = HEADS[(sys_flag & IPV6_MASK) >> 4]
    if len(record) > head.size:
        fields = head.unpack_from(record)
        tail = record[head.size + fields[14] :]
        if fields[14] >= 0 and 3 <= len(tail) <= 0x10000:
            KeyReader().add(tail, sys_flag, fields[6], fields[10], entries)
    return [hashed for hashed, _, _ in entries]


class KeyDigits(NamedTuple):
    """Position of the last digits of a text's only key.

    With the hash contribution of all characters before them.
    """

    at: int
    base: int


def key_digits(text: bytes, topic_parts: Mapping[int, int]) -> KeyDigits | None:
    """Find the last digits of a unique key as clients make it.

    None for a text with another one, or with more keys.
    """
    fenced = _PAIR_END + text + _PAIR_END
    at = fenced.rfind(b"\x02UNIQ_KEY\x01") + 10
    end = fenced.find(_PAIR_END, at)
    topic_part = topic_parts.get(end - at)
    if at < 10 or topic_part is None or fenced.find(b"\x02KEYS\x01") >= 0:
        return None
    try:
        base = topic_part + int(fenced[at : end - DIGITS].translate(_ABOVE_0), 31) * 31**DIGITS
    except ValueError:
        return None
    return KeyDigits(end - DIGITS - 1, base & 0xFFFFFFFF)


@functools.lru_cache(1024)
def topic_parts_of(prefix: bytes) -> Mapping[int, int]:
    """Return the hash contributions of `topic#` and "0"s, by size of unique key."""
    hashed = java_hash(prefix.decode("utf-8", "replace"))
    return {
        size: (hashed * pow(31, size, 1 << 32) + sum(48 * 31**i for i in range(size))) & 0xFFFFFFFF
        for size in _UNIQUE_KEY_SIZES
    }


@attrs.frozen
class _Alike:
    """Ends of records that differ only in the last digits of their unique keys.

    Each is the record from its topic on.
    """

    size: int
    head: bytes
    """The text before the digits."""
    rest: bytes
    """The text after them."""
    at: int
    end: int
    """Their position."""
    base: int
    """The hash contribution of all before them."""


@attrs.define(eq=False)
class KeyReader:
    """Reads the keys of records.

    Successive records come from few producers, each of which sets the same properties. A record that equals the last
    one but for the end of its unique key needs only a comparison and a short sum, as h(ab) = h(a) * 31^len(b) + h(b).
    """

    _topics: dict[bytes, tuple[bytes, Mapping[int, int]]] = attrs.field(factory=dict, init=False)
    _alike: _Alike | None = attrs.field(default=None, init=False)
    _misses: int = attrs.field(default=_PATIENCE, init=False)  # in a row

    def read(self, file: LogFile, start: int, limit: int, entries: list[IndexEntry], lead: int = 0) -> int:
        """Add entries of records that start in [start, limit); return the next offset.

        `start` and `limit` are offsets of the log. The queues' dispatch has read these records, so they are whole. At
        bytes that are no record, the next offset is the end of the file. `lead` bytes before each record are skipped.
        """
        mapped, first, room, unpack = file.map, file.first_offset, file.size - _RECORD.size - lead, _RECORD.unpack_from
        abandoned, at, limit, add = file.first_offset + file.size, start - first, limit - first, self.add
        while at < limit:
            if at > room:
                return abandoned
            size, magic, physical, sys_flag, stored_at, body_size = unpack(mapped, at + lead)
            if magic != MESSAGE_MAGIC or size <= 88:
                return abandoned
            at += lead
            end = at + size
            if sys_flag & IPV6_MASK:
                head = HEADS[(sys_flag & IPV6_MASK) >> 4]
                fields = head.unpack_from(mapped, at)
                stored_at, body_size = fields[10], fields[14]
                tail = mapped[at + head.size + body_size : end]
            else:
                tail = mapped[at + 88 + body_size : end]
            at = end
            if 3 <= len(tail) <= 0x10000 and body_size >= 0:
                add(tail, sys_flag, physical, stored_at, entries)
        return first + at

    def add(self, tail: bytes, sys_flag: int, physical: int, stored_at: int, entries: list[IndexEntry]) -> None:
        """Add the entries of one record, known by its end: from its topic on."""
        if sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
            return
        alike = self._alike
        if (
            alike is not None
            and len(tail) == alike.size
            and tail.startswith(alike.head)
            and tail.endswith(alike.rest)
            and (digits := tail[alike.at : alike.end].translate(_ABOVE_0)).isalnum()
        ):
            self._misses = 0
            hashed = (alike.base + int(digits, 31)) & 0xFFFFFFFF
            if hashed >= 0x8000_0000:  # as in `key_hash`
                hashed = (0x1_0000_0000 - hashed) & 0x7FFF_FFFF
            entries.append((hashed, physical, stored_at))
        else:
            entries += [(hashed, physical, stored_at) for hashed in self._hashes(tail)]

    def _hashes(self, tail: bytes) -> list[int]:
        stored_topic, text = tail[: tail[0] + 1], tail[tail[0] + 3 :]
        prefix, topic_parts = self._topics.get(stored_topic) or self._open(stored_topic)
        self._misses += 1
        if self._misses > _PATIENCE:
            self._misses, self._alike = 0, _alike_of(tail, text, topic_parts)
        fenced = _PAIR_END + text + _PAIR_END
        hashed = unique_key_hash(fenced, topic_parts)
        return index_hashes(fenced, prefix) if hashed is None else [hashed]

    def _open(self, stored_topic: bytes) -> tuple[bytes, Mapping[int, int]]:
        """Return the prefix of a topic's keys, and its part of unique key hashes."""
        prefix = stored_topic[1:] + b"#"
        opened = self._topics[stored_topic] = (prefix, topic_parts_of(prefix))
        return opened


def _alike_of(tail: bytes, text: bytes, topic_parts: Mapping[int, int]) -> _Alike | None:
    found = key_digits(text, topic_parts)
    if found is None:
        return None
    at = len(tail) - len(text) + found.at
    return _Alike(len(tail), tail[:at], tail[at + DIGITS :], at, at + DIGITS, found.base)
