"""What of a record goes into the index: a hash for its unique key and for each of its keys (section 3.3)."""

import struct
from collections.abc import Mapping
from typing import Final

import attrs

from remoting.message import HEADS, IPV6_MASK, MESSAGE_MAGIC, TRANSACTION_MASK, TRANSACTION_ROLLBACK, java_hash
from store.index import IndexEntry, key_hash
from store.logfile import LogFile

# size, magic, physical offset, sysFlag, store time, body length; hosts are IPv4
_RECORD: Final = struct.Struct(">ii20xqi8x8xq8x4x8xi")
_UNIQUE_KEY: Final = b"UNIQ_KEY\x01"
_UNIQUE_KEY_SIZES: Final = (32, 56)  # as clients make them: IPv4 or IPv6, process, class loader, time, counter, in hex

_PAIR_END: Final = b"\x02"

# Hex digits are less than 31 apart from "0": with "0" taken off, a unique key is a number that int() reads in
# base 31. Other characters become one that int() refuses.
_ABOVE_0: Final = bytes(
    b"0123456789abcdefghijklmnopqrstu"[c - 48] if 48 <= c < 79 else ord("~") for c in range(256)
)  # fmt: skip


def index_hashes(text: bytes, prefix: bytes) -> list[int]:
    """Of UNIQ_KEY, then of each of the KEYS (store-ha#24). `text` has separators around it, `prefix` is `topic#`."""
    found = text.rfind(b"\x02UNIQ_KEY\x01") + 10
    hashes = [key_hash(prefix + text[found : text.index(b"\x02", found)])] if found >= 10 else []
    found = text.rfind(b"\x02KEYS\x01") + 6
    if found >= 6:
        hashes += [key_hash(prefix + key) for key in text[found : text.index(b"\x02", found)].split(b" ") if key]
    return hashes


def unique_key_hash(text: bytes, topic_parts: Mapping[int, int]) -> int | None:
    """The one hash of properties that have a unique key as clients make it and no other; None for any others.

    `text` has separators around it. `topic_parts` are those of its topic.
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


def topic_parts_of(prefix: bytes) -> dict[int, int]:
    """What `topic#` and the "0"s of a unique key contribute to the hash of both, by the size of the key."""
    hashed = java_hash(prefix.decode("utf-8", "replace"))
    return {
        size: (hashed * pow(31, size, 1 << 32) + sum(48 * 31**i for i in range(size))) & 0xFFFFFFFF
        for size in _UNIQUE_KEY_SIZES
    }


@attrs.define(eq=False)
class KeyReader:
    """Reads the keys of records that have been through the queues' dispatch, so that they are known to be whole.

    Nearly all records have a unique key of a client's and no other: one search, one slice and one sum then give
    its hash, for that of `topic#` is known and h(ab) = h(a) * 31^len(b) + h(b).
    """

    _topics: dict[bytes, tuple[bytes, dict[int, int]]] = attrs.field(factory=dict, init=False)

    def read(self, file: LogFile, start: int, limit: int, entries: list[IndexEntry]) -> int:
        """Add the entries of records that start from `start` up to `limit`, offsets of the log; answer where to go on.

        At what is no record, that is the end of the file.
        """
        mapped, first, room, unpack = file.map, file.first_offset, file.size - _RECORD.size, _RECORD.unpack_from
        topics, abandoned, at, limit = self._topics, file.first_offset + file.size, start - first, limit - first
        while at < limit:
            if at > room:
                return abandoned
            size, magic, physical, sys_flag, stored_at, body_size = unpack(mapped, at)
            if magic != MESSAGE_MAGIC or size <= 88:
                return abandoned
            end = at + size
            if sys_flag & IPV6_MASK:
                head = HEADS[(sys_flag & IPV6_MASK) >> 4]
                fields = head.unpack_from(mapped, at)
                stored_at, body_size = fields[10], fields[14]
                tail = mapped[at + head.size + body_size : end]
            else:
                tail = mapped[at + 88 + body_size : end]
            at = end
            if sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK or not 3 <= len(tail) <= 0x10000 or body_size < 0:
                continue
            properties_at = tail[0] + 3
            prefix, topic_parts = topics.get(tail[: properties_at - 2]) or self._open(tail[: properties_at - 2])
            key_at = tail.rfind(_UNIQUE_KEY, properties_at) + 9
            key_end = tail.find(_PAIR_END, key_at)
            if key_end < 0:
                key_end = len(tail)
            topic_part = topic_parts.get(key_end - key_at, 0)
            is_plain = (
                key_at >= 9
                and topic_part
                and (key_at - 9 == properties_at or tail[key_at - 10 : key_at - 9] == _PAIR_END)
                and tail.find(b"KEYS\x01", properties_at) < 0
            )
            try:
                unique_key = tail[key_at:key_end] if is_plain else b""
                hashed = (topic_part + int(unique_key.translate(_ABOVE_0), 31)) & 0xFFFFFFFF
            except ValueError:  # not what a client makes
                text = b"\x02" + tail[properties_at:] + b"\x02"
                entries += [(hashed, physical, stored_at) for hashed in index_hashes(text, prefix)]
                continue
            if hashed >= 0x8000_0000:  # as in `key_hash`
                hashed = 0x1_0000_0000 - hashed if hashed > 0x8000_0000 else 0
            entries.append((hashed, physical, stored_at))
        return first + at

    def _open(self, stored_topic: bytes) -> tuple[bytes, dict[int, int]]:
        """What keys of a topic begin with, and what that contributes to the hash of a unique key."""
        prefix = stored_topic[1:] + b"#"
        opened = self._topics[stored_topic] = (prefix, topic_parts_of(prefix))
        return opened
