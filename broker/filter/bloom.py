"""Bloom filter data of registered expressions in consumerFilter.json.

Class BloomFilter. RocketMQ marks a few bits for each group and topic; with enableCalcFilterBitMap (off by default, not
implemented here) it stores beside each queue entry the groups that a message matches. The bits are kept so that a real
broker can continue with our files.
"""

import math
from typing import Self

import attrs

from rmqlab.remoting.bodies.filter import BloomFilterData

_MASK = 2**64 - 1


@attrs.frozen
class BloomFilter:
    """The number of bits, and how many of them each text sets."""

    bits: int
    marks: int

    @classmethod
    def of(cls, error_percent: int, texts: int) -> Self:
        """Return a filter for a number of texts and an error rate.

        Bits are rounded up to whole bytes.
        """
        rate = error_percent / 100
        needed = math.ceil(texts * math.log2(1 / rate) * math.log2(math.e))
        return cls(8 * math.ceil(needed / 8), math.ceil(-math.log2(rate)))

    def data(self, text: str) -> BloomFilterData:
        """Return the bits that one text sets."""
        hashed = murmur3_low64(text.encode())
        low, high = hashed & 0xFFFFFFFF, hashed >> 32
        return BloomFilterData(
            bit_num=self.bits, bit_pos=[self._position(low + number * high) for number in range(1, self.marks + 1)]
        )

    def _position(self, combined: int) -> int:
        combined &= 0xFFFFFFFF
        return (combined ^ 0xFFFFFFFF if combined & 0x80000000 else combined) % self.bits

    def is_valid(self, data: BloomFilterData | None) -> bool:
        """Return True if data was made by a filter of this size."""
        return data is not None and data.bit_num == self.bits and len(data.bit_pos) == self.marks


def murmur3_low64(data: bytes) -> int:
    """Hash by MurmurHash3 x64 128 with seed 0; the first 64 bits, unsigned."""
    first = second = 0
    whole = len(data) // 16 * 16
    for at in range(0, whole, 16):
        first ^= _mixed_first(int.from_bytes(data[at : at + 8], "little"))
        first = (_rotated(first, 27) + second) * 5 + 0x52DCE729 & _MASK
        second ^= _mixed_second(int.from_bytes(data[at + 8 : at + 16], "little"))
        second = (_rotated(second, 31) + first) * 5 + 0x38495AB5 & _MASK
    second ^= _mixed_second(int.from_bytes(data[whole + 8 :], "little"))
    first ^= _mixed_first(int.from_bytes(data[whole : whole + 8], "little"))
    first, second = first ^ len(data), second ^ len(data)
    first = first + second & _MASK
    second = second + first & _MASK
    return _finished(first) + _finished(second) & _MASK


def _mixed_first(block: int) -> int:
    return _rotated(block * 0x87C37B91114253D5 & _MASK, 31) * 0x4CF5AD432745937F & _MASK


def _mixed_second(block: int) -> int:
    return _rotated(block * 0x4CF5AD432745937F & _MASK, 33) * 0x87C37B91114253D5 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _finished(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
