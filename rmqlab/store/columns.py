"""Numbers of many records as columns of bytes.

Packing the number of each record separately is slow in Python. Here one large int has a 64-bit lane per record, and one
slice assignment to every n-th byte writes the same byte of all records.
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
DIGITS: Final = 8
"""Number of last characters of a unique key that differ within a minute: half of its time, and its counter."""
_LANE: Final = 8
_ROUND: Final = 16


@functools.lru_cache(64)
def _lanes(count: int) -> tuple[int, int]:
    """Return 0, 1, 2, ... and 1, 1, 1, ... in `count` lanes."""
    numbers = struct.pack(f"<{count}Q", *range(count))
    return int.from_bytes(numbers, "little"), int.from_bytes(b"\1\0\0\0\0\0\0\0" * count, "little")


@attrs.define(eq=False)
class Steps:
    """An arithmetic sequence: first, first + step, first + 2 * step, ..."""

    count: int
    raw: bytes
    """The numbers, little-endian, in 8 bytes each."""
    changing: int
    """Number of low bytes that differ between them."""

    @classmethod
    def of(cls, first: int, step: int, count: int) -> Self:
        """Compute the numbers, which are not negative."""
        rounded = _rounded(count)
        ramp, ones = _lanes(rounded)
        raw = (ramp * step + ones * first).to_bytes(_LANE * rounded, "little")[: _LANE * count]
        return cls(count, raw, ((first ^ first + step * (count - 1)).bit_length() + 7) // 8)

    def write(self, out: bytearray, at: int, stride: int) -> None:
        """Write the numbers, big-endian, at `at` and each `stride` bytes after.

        Their other bytes are those of the first number, and must be there already.
        """
        raw, start = self.raw, at + _LANE - 1
        end = start + (self.count - 1) * stride + 1
        for place in range(self.changing):
            out[start - place : end - place : stride] = raw[place::_LANE]


@attrs.define(eq=False)
class Digits:
    """The last digits of the unique keys of successive messages."""

    first: bytes
    """The digits of the first message."""
    columns: list[bytes]
    """One column for each digit that differs: this digit in all messages."""

    @classmethod
    def of(cls, raw: bytes, at: int, stride: int, count: int) -> Self:
        """Read the digits at `at` and each `stride` bytes after.

        Only the last `count` digits differ.
        """
        return cls(raw[at : at + DIGITS], [raw[place::stride] for place in range(at + DIGITS - count, at + DIGITS)])

    @property
    def are_alphanumeric(self) -> bool:
        """True if all are letters or numbers."""
        return (self.first + b"".join(self.columns)).isalnum()

    def write(self, out: bytearray, at: int, stride: int) -> None:
        """Write the digits that differ, at `at` and each `stride` bytes after.

        The others are those of the first message, and must be there already.
        """
        at += DIGITS - len(self.columns)
        for start, column in enumerate(self.columns, at):
            out[start : start + (len(column) - 1) * stride + 1 : stride] = column

    def joined(self, count: int) -> bytearray:
        """Return the digits of the first `count` messages, concatenated."""
        out = bytearray(self.first * count)
        self.write(out, 0, DIGITS)
        return out


def differing_digits(raw: bytes, at: int, stride: int) -> int:
    """Return how many of the last digits differ between messages.

    Assumes that they increase from message to message. `at` is the position of the first message's digits.
    """
    last_at = len(raw) - stride + at
    first, last = raw[at : at + DIGITS], raw[last_at : last_at + DIGITS]
    return ((int.from_bytes(first, "big") ^ int.from_bytes(last, "big")).bit_length() + 7) // 8


def bodies_of(raw: bytes, before: int, body: int, stride: int) -> tuple[bytes, ...]:
    """Return the body of each record, of `stride` bytes each."""
    count = len(raw) // stride
    rounded = _rounded(count)
    bodies: tuple[bytes, ...] = _bodies_of(rounded, before, body, stride).unpack(raw.ljust(rounded * stride))
    return bodies[:count]


@functools.lru_cache(64)
def _bodies_of(count: int, before: int, body: int, stride: int) -> struct.Struct:
    return struct.Struct(f">{f'{before}x{body}s{stride - before - body}x' * count}")


def _rounded(count: int) -> int:
    """Round a number of records up, so that few layouts are cached."""
    return -(-count // _ROUND) * _ROUND


def big_endian(typecode: str, numbers: Iterable[int]) -> "array[int]":
    """Convert numbers to big-endian byte order, or back."""
    swapped = array(typecode, numbers)
    if sys.byteorder == "little":
        swapped.byteswap()
    return swapped


def from_little_endian(typecode: str, raw: bytes) -> "array[int]":
    """Return the numbers of these bytes."""
    return _from_bytes(typecode, raw, "little")


def from_big_endian(typecode: str, raw: bytes) -> "array[int]":
    """Return the numbers of these bytes."""
    return _from_bytes(typecode, raw, "big")


def _from_bytes(typecode: str, raw: bytes, byte_order: str) -> "array[int]":
    numbers = array(typecode, raw)
    if sys.byteorder != byte_order:
        numbers.byteswap()
    return numbers
