"""Index hashes of a record: its unique key and each of its keys (section 3.3)."""

import functools
from array import array
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from rmqlab.remoting.message import HASH_CHUNK, HASH_HIGH, HASH_LOW, Buffer, java_hash
from rmqlab.store.columns import DIGITS, from_little_endian
from rmqlab.store.tagscodes import property_of

_UNIQUE_KEY_SIZES: Final = (32, 56)  # as clients make them: IPv4 or IPv6, process, class loader, time, counter, in hex

# Masks for a number of so many lanes of 64 bits.
_LANES: Final = 512
_ONES: Final = sum(1 << 64 * lane for lane in range(_LANES))
_LOW_8: Final = 0x00FF_00FF_00FF_00FF * _ONES
_LOW_16: Final = 0x0000_FFFF_0000_FFFF * _ONES
_LOW_32: Final = 0x0000_0000_FFFF_FFFF * _ONES
_ZEROS: Final = sum(48 * 31**i for i in range(DIGITS))  # a base contains the digits as if they were "0"

PAIR_END: Final = b"\x02"

# Hex digits are less than 31 apart from "0": with "0" taken off, a unique key is a number that int() reads in
# base 31. Other characters are replaced by a character that int() rejects.
ABOVE_0: Final = bytes(
    b"0123456789abcdefghijklmnopqrstu"[c - 48] if 48 <= c < 79 else ord("~") for c in range(256)
)  # fmt: skip


def key_hash(key: bytes) -> int:
    """Return the hash of `topic#key` in UTF-8 (store-ha#23).

    Java's abs of its hash, or 0 if that is still negative.
    """
    if len(key) <= HASH_CHUNK and key.isascii():
        # Repeats `unsigned_hash` inline for speed: this runs once or more per message.
        hashed = (31 * int(key.translate(HASH_HIGH), 31) + int(key.translate(HASH_LOW), 31)) & 0xFFFFFFFF
    else:
        hashed = java_hash(key.decode("utf-8", "replace")) & 0xFFFFFFFF
    if hashed < 0x8000_0000:
        return hashed
    return 0x1_0000_0000 - hashed if hashed > 0x8000_0000 else 0


def index_hashes(text: bytes, prefix: bytes) -> list[int]:
    """Return the hashes of UNIQ_KEY, then of each of the KEYS (store-ha#24).

    `text` has separators around it, `prefix` is `topic#`.
    """
    unique_key = property_of(text, b"\x02UNIQ_KEY\x01")
    hashes = [key_hash(prefix + unique_key)] if unique_key else []
    return hashes + [key_hash(prefix + key) for key in property_of(text, b"\x02KEYS\x01").split(b" ") if key]


def unique_key_hash(text: bytes, topic_parts: Mapping[int, int]) -> int | None:
    """Return the hash of properties whose only key is a client's unique key.

    None for any others. `text` has separators around it. `topic_parts` are those of its topic.
    """
    at = text.rfind(b"\x02UNIQ_KEY\x01") + 10
    end = text.find(PAIR_END, at)
    topic_part = topic_parts.get(end - at)
    if at < 10 or topic_part is None or text.find(b"\x02KEYS\x01") >= 0:
        return None
    try:
        hashed = (topic_part + int(text[at:end].translate(ABOVE_0), 31)) & 0xFFFFFFFF
    except ValueError:
        return None
    if hashed < 0x8000_0000:
        return hashed
    return 0x1_0000_0000 - hashed if hashed > 0x8000_0000 else 0  # as in `key_hash`


def hashes_of_uniform(texts: Sequence[bytes], tail: bytes, topic_parts: Mapping[int, int]) -> list[int] | None:
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
    return hash_column(digits, base).tolist()


def hash_column(digits: Buffer, base: int) -> "array[int]":
    """Return the hashes of `hashes_of_digits` as a column."""
    hashes = array("I")
    for start in range(0, len(digits), DIGITS * _LANES):
        part = digits[start : start + DIGITS * _LANES]
        count = len(part) // DIGITS
        ones = _ONES >> 64 * (_LANES - count)
        lanes = int.from_bytes(part, "little")
        lanes = (lanes & _LOW_8) * 31 + (lanes >> 8 & _LOW_8)
        lanes = (lanes & _LOW_16) * 31**2 + (lanes >> 16 & _LOW_16)
        lanes = (lanes & _LOW_32) * 31**4 + (lanes >> 32 & _LOW_32)
        lanes += ((base - _ZEROS) & 0xFFFFFFFF) * ones
        # As in `key_hash`: the absolute value of the low 32 bits, as a signed number.
        signs = lanes >> 31 & ones
        lanes = ((lanes & _LOW_32 ^ signs * 0xFFFFFFFF) + signs) & ones * 0x7FFF_FFFF
        hashes += from_little_endian("I", lanes.to_bytes(len(part), "little"))[0::2]
    return hashes


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
    fenced = PAIR_END + text + PAIR_END
    at = fenced.rfind(b"\x02UNIQ_KEY\x01") + 10
    end = fenced.find(PAIR_END, at)
    topic_part = topic_parts.get(end - at)
    if at < 10 or topic_part is None or fenced.find(b"\x02KEYS\x01") >= 0:
        return None
    try:
        base = topic_part + int(fenced[at : end - DIGITS].translate(ABOVE_0), 31) * 31**DIGITS
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
