"""Numbers of many records as columns of bytes.

Packing a number for each record costs a step of the interpreter each. A number of 64-bit lanes holds the numbers of all
records, and an assignment to every n-th byte writes one byte of each.
"""

import functools
import struct
import sys
from array import array
from collections.abc import Iterable
from typing import Final, Self

import attrs

MOST: Final = 1024
"""Maximum number of records that are computed at once."""
_LANE: Final = 8


@functools.lru_cache(64)
def _lanes(count: int) -> tuple[int, int]:
    """Return 0, 1, 2, ... and 1, 1, 1, ... in so many lanes."""
    numbers = struct.pack(f"<{count}Q", *range(count))
    return int.from_bytes(numbers, "little"), int.from_bytes(b"\1\0\0\0\0\0\0\0" * count, "little")


@attrs.frozen
class Steps:
    """Numbers from `first` on, each by `step` more than the one before."""

    count: int
    raw: bytes
    """The numbers, little-endian, in 8 bytes each."""
    changing: int
    """Number of low bytes that differ between them."""

    @classmethod
    def of(cls, first: int, step: int, count: int) -> Self:
        """Compute the numbers, which are not negative."""
        ramp, ones = _lanes(count)
        raw = (ramp * step + ones * first).to_bytes(_LANE * count, "little")
        return cls(count, raw, ((first ^ first + step * (count - 1)).bit_length() + 7) // 8)

    def write(self, out: bytearray, at: int, stride: int) -> None:
        """Write the numbers, big-endian, at `at` and each `stride` bytes after.

        Their other bytes are those of the first number, and must be there already.
        """
        raw, start = self.raw, at + _LANE - 1
        end = start + (self.count - 1) * stride + 1
        for place in range(self.changing):
            out[start - place : end - place : stride] = raw[place::_LANE]


def write_column(out: bytearray, at: int, stride: int, column: bytes) -> None:
    """Write a byte at `at` and each `stride` bytes after."""
    out[at : at + (len(column) - 1) * stride + 1 : stride] = column


def big_endian(typecode: str, numbers: Iterable[int]) -> "array[int]":
    """Return numbers as they are in files, and back."""
    swapped = array(typecode, numbers)
    if sys.byteorder == "little":
        swapped.byteswap()
    return swapped


def from_little_endian(typecode: str, raw: bytes) -> "array[int]":
    """Return the numbers of these bytes."""
    numbers = array(typecode, raw)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
